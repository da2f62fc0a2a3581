//! P-2, P-3, P-4: one change, many clients.
//!
//! Every client has its own connection. A tenth of the clients of the scenarios, so a tenth of their times.

use std::time::Duration;

use bytes::Bytes;
use oxds_core::snapshot::Protocol;
use oxds_types::ApiVersion;

use super::request;
use super::resources::resource_name;
use super::rig::{Contestant, Pushes, Rig, wait};
use super::swarm::Manner;
use crate::plan::{Plan, Size};
use crate::report::{Row, Table, Target, percentile_micros};
use crate::roles::Holding;

/// Maximum duration of the measurement of one server.
const ENOUGH: Duration = Duration::from_secs(15);

/// One scenario.
struct Shape {
    id: &'static str,
    holding: Holding,
    size: Size,
    /// The resources that one client requests; all if empty.
    names: fn(usize) -> Vec<String>,
    /// Clients that one change concerns.
    recipients: usize,
    /// Target until the last client has it, in microseconds.
    last_micros: f64,
    /// The same over TLS, for scenarios that have it.
    last_micros_over_tls: Option<f64>,
}

/// P-2: a change of one of many resources, for clients that have all of them.
pub(crate) fn all(_: &Plan, size: Size, table: &mut Table) -> Result<(), String> {
    let shape = Shape {
        id: "P-2",
        holding: Holding::Clusters,
        size,
        names: |_| Vec::new(),
        recipients: size.clients,
        last_micros: 2_000.0,
        last_micros_over_tls: None,
    };
    scenario(&shape, table)
}

/// P-3: a change of a resource that every client has by its name.
pub(crate) fn one_name(_: &Plan, size: Size, table: &mut Table) -> Result<(), String> {
    let shape = Shape {
        id: "P-3",
        holding: Holding::Assignments,
        size,
        names: |_| vec![resource_name(0)],
        recipients: size.clients,
        last_micros: 15_000.0,
        last_micros_over_tls: Some(25_000.0),
    };
    scenario(&shape, table)
}

/// P-4: changes of resources that a few clients have by their names.
pub(crate) fn ten_names(_: &Plan, size: Size, table: &mut Table) -> Result<(), String> {
    let shape = Shape {
        id: "P-4",
        holding: Holding::Assignments,
        // Fewer changes than watched names.
        size,
        // Ten clients share each ten names, so that each name has ten watchers.
        names: |client| {
            let first = client / 10 * 10;
            (first..first + 10).map(resource_name).collect()
        },
        recipients: 10,
        last_micros: 1_000.0,
        last_micros_over_tls: None,
    };
    scenario(&shape, table)
}

fn scenario(shape: &Shape, table: &mut Table) -> Result<(), String> {
    let measure = |contestant: Contestant| {
        let rig = Rig::start(contestant, shape.holding, shape.size.many(), manner(shape))?;
        wait(measure(shape, rig)).map_err(|error| format!("{}: {error}", contestant.name()))
    };
    let ours = measure(Contestant::Oxds)?;
    for peer in [Contestant::Snapshot, Contestant::Linear] {
        let theirs = measure(peer)?;
        // The issue asks for a tenth of the CPU time of the snapshot cache, at 100,000 clusters.
        let is_asked = shape.id == "P-2" && peer == Contestant::Snapshot;
        let mut row = |what: &str, ours: f64, theirs: f64, target: Target| {
            table.row(&Row {
                id: shape.id,
                what,
                ours,
                peer: (peer.name(), theirs),
                target,
            });
        };
        let median = |pushes: &Pushes| percentile_micros(&pushes.last, 0.5);
        let what = format!("last of {} clients, p50 (us)", shape.recipients);
        row(&what, median(&ours), median(&theirs), Target::None);
        row(
            "server CPU per change (us)",
            ours.cpu_micros_per_change,
            theirs.cpu_micros_per_change,
            if is_asked {
                Target::AtMost(0.1)
            } else {
                Target::None
            },
        );
    }
    judge(shape, &ours, table);
    if shape.id == "P-2" {
        two_versions(shape, &ours, table)?;
    }
    match shape.last_micros_over_tls {
        Some(most) => over_tls(shape, most, table),
        None => Ok(()),
    }
}

/// Ours once more, where half of the clients use v2: each change is encoded once per version.
fn two_versions(shape: &Shape, one_version: &Pushes, table: &mut Table) -> Result<(), String> {
    let mut rig = Rig::start(
        Contestant::Oxds,
        shape.holding,
        shape.size.many(),
        manner(shape),
    )?;
    let pushes = wait(async {
        for api in [ApiVersion::V3, ApiVersion::V2] {
            rig.swarm.speak(api);
            let first = request::all_in(api, &shape.holding.resource_type());
            let half = shape.size.clients / 2;
            rig.swarm.fill(half, &first, shape.size.many()).await?;
        }
        rig.pushes(shape.size.steps, ENOUGH, shape.recipients).await
    });
    let pushes = pushes.map_err(|error| format!("half on v2: {error}"))?;
    table.row(&Row {
        id: shape.id,
        what: "half on v2, server CPU per change (us)",
        ours: pushes.cpu_micros_per_change,
        peer: ("all on v3", one_version.cpu_micros_per_change),
        target: Target::None,
    });
    if let Some(counts) = pushes.counts {
        let encodings = counts.encodes as f64 / pushes.last.len() as f64;
        table.limit(shape.id, "half on v2, encodings per change", encodings, 2.0);
    }
    Ok(())
}

/// Ours once more, over mTLS.
fn over_tls(shape: &Shape, most: f64, table: &mut Table) -> Result<(), String> {
    let rig = Rig::start_over_tls(shape.holding, shape.size.many(), manner(shape))?;
    let pushes = wait(measure(shape, rig)).map_err(|error| format!("over mTLS: {error}"))?;
    let last = |part| percentile_micros(&pushes.last, part);
    let id = shape.id;
    table.limit(id, "over mTLS, last client, p50 (us)", last(0.5), most);
    table.limit(id, "over mTLS, last client, p99 (us)", last(0.99), most);
    let cpu = pushes.cpu_micros_per_change;
    table.note(&format!(
        "{id}: over mTLS, server CPU per change {cpu:.0} us"
    ));
    Ok(())
}

fn manner(shape: &Shape) -> Manner {
    Manner::new(shape.holding.resource_type(), Protocol::Delta)
}

fn judge(shape: &Shape, ours: &Pushes, table: &mut Table) {
    let last = |part| percentile_micros(&ours.last, part);
    table.limit(
        shape.id,
        "last client, p50 (us)",
        last(0.5),
        shape.last_micros,
    );
    table.limit(
        shape.id,
        "last client, p99 (us)",
        last(0.99),
        shape.last_micros,
    );
    let Some(counts) = ours.counts else {
        return;
    };
    let per_change = |count: u64| count as f64 / ours.last.len() as f64;
    table.limit(
        shape.id,
        "hashes per change",
        per_change(counts.hashes),
        1.0,
    );
    table.limit(
        shape.id,
        "encodings per change",
        per_change(counts.encodes),
        1.0,
    );
    table.limit(
        shape.id,
        "wake-ups per change",
        per_change(counts.wakeups),
        shape.recipients as f64,
    );
}

async fn measure(shape: &Shape, mut rig: Rig) -> Result<Pushes, String> {
    for client in 0..shape.size.clients {
        let names = (shape.names)(client);
        let (first, resources): (Bytes, usize) = if names.is_empty() {
            (
                request::all(&shape.holding.resource_type(), Protocol::Delta),
                shape.size.many(),
            )
        } else {
            let resources = names.len();
            (
                request::named(&shape.holding.resource_type(), names, Default::default()),
                resources,
            )
        };
        rig.swarm.fill(1, &first, resources).await?;
    }
    rig.pushes(shape.size.steps, ENOUGH, shape.recipients).await
}
