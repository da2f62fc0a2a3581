//! GB-3, GB-8: a replica starts without a state, and its memory beside that of a folder with the same resources.

use std::path::Path;
use std::time::{Duration, Instant};

use oxds_types::codec::{self, Format};
use oxds_types::discovery::Any;

use super::super::resources::resource;
use super::etcd::{Etcd, PREFIX};
use super::fleet::{Replica, serve};
use super::text::text;
use crate::memory::mib;
use crate::plan::{Plan, Size};
use crate::report::{Row, Table, Target, median};
use crate::roles::Holding;

/// Resources in one file of the folder.
const PER_FILE: usize = 1_000;

pub(crate) async fn run(plan: &Plan, size: Size, table: &mut Table) -> Result<(), String> {
    let (clusters, rounds) = (size.many(), size.rounds);
    let mut etcd = Etcd::start().await?;
    etcd.fill(PREFIX, clusters).await?;
    let (mut starts, mut reads, mut cpus) = (Vec::new(), Vec::new(), Vec::new());
    let mut replica = None;
    for _ in 0..rounds {
        // A replica that has just started searches its resources for unknown fields, on the processor of etcd.
        drop(replica.take());
        reads.push(millis(etcd.read(PREFIX).await?));
        let start = Instant::now();
        let started = Replica::oxds(&etcd.urls, PREFIX, "r0")?;
        started.ready().await?;
        starts.push(millis(start.elapsed()));
        cpus.push(millis(started.part.cpu()?));
        replica = Some(started);
    }
    if plan.wants("GB-3") {
        let (start, read) = (median(starts), median(reads));
        table.row(&Row {
            id: "GB-3",
            what: &format!("{clusters} resources, start to ready (ms)"),
            ours: start,
            peer: ("read alone", read),
            target: Target::AtMost(2.0),
        });
        // The members of etcd have the same processor: the rest of the time is theirs.
        table.row(&Row {
            id: "GB-3",
            what: "CPU of the replica until ready (ms)",
            ours: median(cpus),
            peer: ("wall time", start),
            target: Target::None,
        });
    }
    let replica = replica.ok_or("no replica")?;
    if plan.wants("GB-8") {
        let folder = tempfile::tempdir().map_err(text)?;
        write(folder.path(), clusters)?;
        let path = folder.path().to_str().ok_or("a path that is not UTF-8")?;
        let beside = serve(&["serve", path])?;
        beside.ready().await?;
        table.row(&Row {
            id: "GB-8",
            what: &format!("memory with {clusters} resources (MiB)"),
            ours: mib(replica.part.memory()?.resident),
            peer: ("folder", mib(beside.part.memory()?.resident)),
            target: Target::AtMost(1.1),
        });
    }
    Ok(())
}

/// Writes the clusters as files of YAML.
fn write(folder: &Path, clusters: usize) -> Result<(), String> {
    for first in (0..clusters).step_by(PER_FILE) {
        let all = (first..(first + PER_FILE).min(clusters)).map(|index| {
            let resource = resource(Holding::Clusters, index, 0);
            Any {
                type_url: resource.resource_type().type_url().to_owned(),
                value: resource.value(),
            }
        });
        let content = codec::encode(&all.collect::<Vec<_>>(), Format::Yaml).map_err(text)?;
        let file = folder.join(format!("{first:06}.yaml"));
        std::fs::write(file, content).map_err(text)?;
    }
    Ok(())
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
