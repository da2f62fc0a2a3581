//! start of a channel whose routes name 1,000 clusters: bytes sent, and duration of its first call.
//!
//! The client has a processor to itself; control plane, backend and proxies have the scenario's.

use std::time::Duration;

use super::calls::{self, Client};
use super::resources;
use crate::plan::{Plan, Size};
use crate::proxy::Proxy;
use crate::report::{Row, Table, Target, median};
use crate::roles::{Part, Processors, Role};

const TIMEOUT: Duration = Duration::from_secs(60);

/// Result of one start.
#[derive(Debug, Clone, Copy)]
struct Started {
    requested: u64,
    answered: u64,
    first: Duration,
}

pub(crate) fn run(_: &Plan, size: Size, table: &mut Table) -> Result<(), String> {
    let (sizes, rounds) = (size.resources, size.rounds);
    let backend = Part::start_on(Processors::Beside, &Role::Backend)?;
    let mut requested_by_us = Vec::new();
    for &clusters in sizes {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let yaml: String = (0..clusters)
            .map(|n| resources::cluster(&format!("c{n}"), backend.hello()))
            .collect();
        let yaml = resources::listener("routes") + &resources::routes(clusters) + &yaml;
        std::fs::write(folder.path().join("bench.yaml"), yaml).map_err(|e| e.to_string())?;
        let control_plane = Role::ControlPlane {
            folder: folder.path().to_owned(),
        };
        let control = Part::start_on(Processors::Beside, &control_plane)?;
        // The control plane's first response takes it longer than any later one.
        let late = || format!("oxds makes no call within {TIMEOUT:?}");
        start(Client::Oxds, control.hello(), 1)?.ok_or_else(late)?;
        let ours = start(Client::Oxds, control.hello(), rounds)?.ok_or_else(late)?;
        requested_by_us.push(ours.requested as f64 / clusters as f64);
        for peer in [Client::TonicXds, Client::GrpcGo] {
            let theirs = start(peer, control.hello(), rounds);
            let name = peer.name();
            match theirs.map_err(|error| format!("{name}, {clusters} clusters: {error}"))? {
                Some(theirs) => rows(table, clusters, ours, (peer, theirs)),
                None => table.note(&format!(
                    "R-5: {name}, {clusters} clusters: no call within {TIMEOUT:?} in one of {rounds} starts"
                )),
            }
        }
    }
    // Ten times the clusters must take ten times the bytes, not a hundred times.
    let growth = requested_by_us[1] / requested_by_us[0];
    table.limit("R-5", "request bytes per cluster, growth", growth, 1.5);
    Ok(())
}

/// The medians of `rounds` starts; `None` if one of them takes longer than [`TIMEOUT`].
fn start(client: Client, control_plane: &str, rounds: usize) -> Result<Option<Started>, String> {
    let mut all = Vec::new();
    for _ in 0..rounds {
        let proxy = Proxy::start(&[control_plane])?;
        let mut part = client.start(&[&proxy.address()], 1)?;
        let Some(status) = calls::until(&mut part, 0, TIMEOUT)? else {
            return Ok(None);
        };
        // The acknowledgements after its first call are part of its start.
        std::thread::sleep(Duration::from_millis(200));
        all.push(Started {
            requested: proxy.requested(),
            answered: proxy.answered(),
            first: status.first,
        });
    }
    let middle = |figure: fn(&Started) -> f64| median(all.iter().map(figure).collect());
    Ok(Some(Started {
        requested: middle(|of| of.requested as f64) as u64,
        answered: middle(|of| of.answered as f64) as u64,
        first: Duration::from_secs_f64(middle(|of| of.first.as_secs_f64())),
    }))
}

fn rows(table: &mut Table, clusters: usize, ours: Started, (peer, theirs): (Client, Started)) {
    let mut row = |what: &str, ours: f64, theirs: f64, target| {
        table.row(&Row {
            id: "R-5",
            what: &format!("{clusters} clusters, {what}"),
            ours,
            peer: (peer.name(), theirs),
            target,
        });
    };
    let kib = |bytes: u64| bytes as f64 / 1024.0;
    let millis = |time: Duration| time.as_secs_f64() * 1e3;
    let half = Target::AtMost(0.5);
    row(
        "requested (KiB)",
        kib(ours.requested),
        kib(theirs.requested),
        half,
    );
    row(
        "answered (KiB)",
        kib(ours.answered),
        kib(theirs.answered),
        Target::None,
    );
    row(
        "to the first call (ms)",
        millis(ours.first),
        millis(theirs.first),
        half,
    );
}
