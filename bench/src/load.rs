//! F-1: time until a folder of YAML is served, compared with go-control-plane, with parsing the YAML alone, and with
//! the same without the checks for deprecated and unfinished elements.
//!
//! The peer reads the same files on as many threads with `sigs.k8s.io/yaml` and `protojson`, validates the messages and
//! sets a snapshot of them. It encodes and hashes them at the first delta request; a second figure includes that. The
//! parser reads the files into plain values, without schema, validation or encoding. All are processes of their own
//! that time themselves; they take turns.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use oxds_server::{Cache, DirStore, Server, dir};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::plan::{Plan, Size};
use crate::program::program;
use crate::report::{Row, Table, Target, median};
use crate::roles::{Part, Processors, Role};

/// Result of one process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct LoadTime {
    pub(crate) millis: f64,
    pub(crate) resources: usize,
    /// The same with encoding and hashing, for the peer that does it later.
    #[serde(default)]
    pub(crate) encoded_millis: Option<f64>,
}

/// Resources in one file: a folder of 100,000 has 1,000 files.
const PER_FILE: usize = 100;

pub(crate) fn run(_: &Plan, size: Size, table: &mut Table) -> Result<(), String> {
    let (resources, rounds) = (size.many(), size.rounds);
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    write(folder.path(), resources).map_err(|error| error.to_string())?;
    let peer = program("OXDS_BENCH_GO_CONTROL_PLANE")?;
    let (mut loads, mut parses) = (Vec::new(), Vec::new());
    let (mut peers, mut peers_encoded) = (Vec::new(), Vec::new());
    let mut unchecked_loads = Vec::new();
    let role = |check_life_cycle| Role::Load {
        folder: folder.path().to_owned(),
        check_life_cycle,
    };
    for _ in 0..rounds {
        let load: LoadTime = Part::start_measuring(&role(true))?.finish()?;
        let unchecked: LoadTime = Part::start_measuring(&role(false))?.finish()?;
        let parse = Role::Parse {
            folder: folder.path().to_owned(),
        };
        let parse: LoadTime = Part::start_measuring(&parse)?.finish()?;
        let theirs = format!("-load={}", folder.path().display());
        let theirs: LoadTime =
            Part::start_program_measuring(&peer, Processors::Both, &[theirs])?.finish()?;
        let all = [&load, &unchecked, &parse, &theirs];
        if all.iter().any(|took| took.resources != resources) {
            return Err(format!("{all:?} of {resources}"));
        }
        loads.push(load.millis);
        unchecked_loads.push(unchecked.millis);
        parses.push(parse.millis);
        peers.push(theirs.millis);
        peers_encoded.push(theirs.encoded_millis.ok_or("the peer has not encoded")?);
    }
    let ours = median(loads);
    let what = format!("{resources} resources, YAML to served (ms)");
    let mut row = |peer, theirs, target| {
        table.row(&Row {
            id: "F-1",
            what: &what,
            ours,
            peer: (peer, theirs),
            target,
        });
    };
    row("YAML alone", median(parses), Target::AtMost(2.0));
    row("gcp snapshot", median(peers), Target::None);
    row("gcp, encoded", median(peers_encoded), Target::None);
    row("unchecked", median(unchecked_loads), Target::AtMost(1.1));
    Ok(())
}

/// The role that loads and serves.
pub(crate) async fn load(folder: &Path, check_life_cycle: bool) -> Result<LoadTime, String> {
    let start = Instant::now();
    let mut options = dir::Options::default();
    options.codec.check_life_cycle = check_life_cycle;
    let store = DirStore::open(folder, options).map_err(|e| e.to_string())?;
    let cache = Cache::new();
    let server = Server::builder()
        .grpc(([127, 0, 0, 1], 0).into())
        .cache(cache.clone())
        .store(store)
        .bind()
        .await
        .map_err(|error| error.to_string())?;
    let serving = tokio::spawn(server.run(std::future::pending()));
    cache.loaded().await;
    let millis = start.elapsed().as_secs_f64() * 1e3;
    serving.abort();
    let snapshot = cache.snapshot();
    let resources = snapshot
        .types()
        .map(|(_, kind)| kind.collection().len())
        .sum();
    Ok(LoadTime {
        millis,
        resources,
        encoded_millis: None,
    })
}

/// The role that only parses.
pub(crate) fn parse(folder: &Path) -> Result<LoadTime, String> {
    let start = Instant::now();
    let files = std::fs::read_dir(folder).map_err(|error| error.to_string())?;
    let files: Vec<PathBuf> = files.filter_map(|file| Some(file.ok()?.path())).collect();
    let counts = files.par_iter().map(|file| {
        let text = std::fs::read_to_string(file).map_err(|error| error.to_string())?;
        let documents: Vec<serde_json::Value> =
            serde_saphyr::from_multiple(&text).map_err(|error| error.to_string())?;
        Ok::<_, String>(documents.len())
    });
    let resources = counts.try_reduce(|| 0, |a, b| Ok(a + b))?;
    Ok(LoadTime {
        millis: start.elapsed().as_secs_f64() * 1e3,
        resources,
        encoded_millis: None,
    })
}

/// Writes a folder of clusters and their assignments, a document each.
pub(crate) fn write(folder: &Path, resources: usize) -> std::io::Result<()> {
    for first in (0..resources).step_by(PER_FILE) {
        let mut text = String::new();
        for index in first..(first + PER_FILE).min(resources) {
            document(&mut text, index / 2, index % 2 == 0);
        }
        std::fs::write(folder.join(format!("{first:06}.yaml")), text)?;
    }
    Ok(())
}

fn document(text: &mut String, number: usize, cluster: bool) {
    // Writing to a string cannot fail.
    let _ = if cluster {
        write!(
            text,
            "---\n\"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster\nname: c{number}\n\
             connect_timeout: 1s\ntype: EDS\neds_cluster_config: {{ eds_config: {{ ads: {{}} }} }}\n"
        )
    } else {
        write!(
            text,
            "---\n\"@type\": type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment\n\
             cluster_name: c{number}\nendpoints:\n- locality: {{ region: r, zone: z }}\n  \
             load_balancing_weight: 1\n  lb_endpoints:\n  \
             - endpoint: {{ address: {{ socket_address: {{ address: 10.0.0.1, port_value: 80 }} }} }}\n  \
             - endpoint: {{ address: {{ socket_address: {{ address: 10.0.0.2, port_value: 80 }} }} }}\n"
        )
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f1_result_of_the_peer_has_both_times() {
        let line = r#"{"millis":20.5,"encoded_millis":31,"resources":100}"#;
        let took: LoadTime = serde_json::from_str(line).unwrap();
        assert_eq!((took.millis, took.encoded_millis), (20.5, Some(31.0)));
    }
}
