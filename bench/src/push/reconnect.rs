//! P-6, P-7: every client reconnects at the same time, and requests a thousand names by delta.
//!
//! In P-6 they report the versions that they have, and nothing has changed, so no response is due: the protocol
//! requires one only for a new wildcard subscription. oxds sends an empty one; `createDeltaResponse` and `respondDelta`
//! of go-control-plane's snapshot cache, and `computeResponse` of its linear cache, send none.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use oxds_core::snapshot::Protocol;

use super::probe::Probe;
use super::request;
use super::resources::resource_name;
use super::rig::{Contestant, Rig, address, wait};
use super::swarm::{Counted, Manner};
use crate::memory::{Footprint, mib};
use crate::plan::{Plan, Size};
use crate::report::{Row, Table, Target};
use crate::roles::Holding;

/// Names that a client requests.
const NAMES: usize = 1_000;
/// A server that uses less CPU than this in a fifth of a second is idle.
const QUIET_MICROS: u64 = 10_000;

/// A tenth of the clients of the scenario, so a tenth of its time.
const WARM_MILLIS: f64 = 500.0;
const COLD_MILLIS: f64 = 800.0;
/// Allowed memory of a stream beside the corpus.
const STREAM_BYTES: u64 = 64 * 1024;

struct Measurement {
    /// Time until the last client had its response. `None` if none was due, and not all got one.
    answered: Option<Duration>,
    cpu_micros: u64,
    counted: Counted,
    /// Peak of the resident memory above that of an empty server, garbage included.
    peak: u64,
    /// Memory above that of an empty server, all clients in sync, without garbage.
    after: Footprint,
    /// Bytes of all resources, as they are sent.
    corpus: u64,
}

pub(crate) fn run(plan: &Plan, size: Size, table: &mut Table) -> Result<(), String> {
    let clients = size.clients;
    for (id, is_warm) in [("P-6", true), ("P-7", false)] {
        if !plan.wants(id) {
            continue;
        }
        let measure = |contestant: Contestant| {
            let shown = wait(measure(contestant, clients, is_warm));
            shown.map_err(|error| format!("{id}, {}: {error}", contestant.name()))
        };
        let ours = measure(Contestant::Oxds)?;
        let live = measure(Contestant::Counted)?.after.live()?;
        for peer in [Contestant::Snapshot, Contestant::Linear] {
            let theirs = measure(peer)?;
            compare(id, peer, (&ours, live), &theirs, table)?;
        }
        judge(id, is_warm, clients, &ours, table)?;
    }
    Ok(())
}

fn compare(
    id: &'static str,
    peer: Contestant,
    (ours, live): (&Measurement, u64),
    theirs: &Measurement,
    table: &mut Table,
) -> Result<(), String> {
    if theirs.answered.is_none() {
        let responses = theirs.counted.messages;
        let name = peer.name();
        table.note(&format!(
            "{id}: {name}: no response is due; {responses} sent"
        ));
    }
    let mut row = |what, ours, theirs| {
        table.row(&Row {
            id,
            what,
            ours,
            peer: (peer.name(), theirs),
            target: Target::None,
        });
    };
    let millis = |duration: Duration| duration.as_secs_f64() * 1e3;
    if let (Some(ours), Some(theirs)) = (ours.answered, theirs.answered) {
        row("last client answered (ms)", millis(ours), millis(theirs));
    }
    row(
        "server CPU (ms)",
        ours.cpu_micros as f64 / 1e3,
        theirs.cpu_micros as f64 / 1e3,
    );
    row("peak memory (MiB)", mib(ours.peak), mib(theirs.peak));
    let (after, theirs) = (ours.after, theirs.after);
    row(
        "memory in sync (MiB)",
        mib(after.resident),
        mib(theirs.resident),
    );
    row("live heap in sync (MiB)", mib(live), mib(theirs.live()?));
    Ok(())
}

fn judge(
    id: &str,
    is_warm: bool,
    clients: usize,
    ours: &Measurement,
    table: &mut Table,
) -> Result<(), String> {
    let answered = ours
        .answered
        .ok_or("oxds has not sent every client a response")?;
    let (most, resources) = if is_warm {
        (WARM_MILLIS, 0)
    } else {
        (COLD_MILLIS, clients * NAMES)
    };
    table.limit(
        id,
        "last client answered (ms)",
        answered.as_secs_f64() * 1e3,
        most,
    );
    table.limit(
        id,
        "resources sent",
        ours.counted.resources as f64,
        resources as f64,
    );
    if !is_warm {
        let most = mib(2 * ours.corpus + STREAM_BYTES * clients as u64);
        table.limit(id, "peak memory (MiB)", mib(ours.peak), most);
    }
    Ok(())
}

async fn measure(
    contestant: Contestant,
    clients: usize,
    is_warm: bool,
) -> Result<Measurement, String> {
    const CLUSTERS: usize = 10 * NAMES;
    let holding = Holding::Clusters;
    let mut rig = Rig::start(
        contestant,
        holding,
        CLUSTERS,
        Manner::new(holding.resource_type(), Protocol::Delta),
    )?;
    let empty = contestant.empty()?;
    let mut probe = Probe::connect(address(&rig.server)).await?;
    let (versions, corpus) = probe.versions(CLUSTERS).await?;
    drop(probe);
    // Ten sorts of clients, each with a tenth of the names.
    let firsts: Vec<Bytes> = (0..10)
        .map(|tenth| first(tenth * NAMES, &versions, is_warm))
        .collect();

    rig.server.forget_peak()?;
    let cpu = rig.server.cpu_micros()?;
    let start = Instant::now();
    for client in 0..clients {
        rig.swarm
            .open(firsts[client % firsts.len()].clone())
            .await?;
    }
    let due = match (is_warm, contestant.is_ours()) {
        (false, _) => Due::Resources(clients * NAMES),
        (true, true) => Due::Empty(clients),
        (true, false) => Due::Nothing,
    };
    let answered = answers(&mut rig, clients, due).await?;
    Ok(Measurement {
        answered: answered.map(|last| last.duration_since(start)),
        cpu_micros: rig.server.cpu_micros()? - cpu,
        counted: rig.swarm.mark(),
        peak: rig.server.memory()?.peak.saturating_sub(empty.resident),
        after: rig.server.footprint()?.since(empty),
        corpus,
    })
}

fn first(from: usize, versions: &HashMap<String, String>, is_warm: bool) -> Bytes {
    let names: Vec<String> = (from..from + NAMES).map(resource_name).collect();
    let held = |name: &String| Some((name.clone(), versions.get(name)?.clone()));
    let held = if is_warm {
        names.iter().filter_map(held).collect()
    } else {
        HashMap::new()
    };
    request::named(&Holding::Clusters.resource_type(), names, held)
}

/// Responses that a server sends to clients that reconnect.
#[derive(Debug, Clone, Copy)]
enum Due {
    /// This many resources in total.
    Resources(usize),
    /// This many empty responses.
    Empty(usize),
    /// None.
    Nothing,
}

/// Waits until every due response has arrived and the server is idle; returns when the last client got its response, if
/// all did.
async fn answers(rig: &mut Rig, clients: usize, due: Due) -> Result<Option<Instant>, String> {
    // A server that gets no processor for a while looks idle, so responses are waited for where there are any.
    let swarm = &rig.swarm;
    match due {
        Due::Resources(all) => swarm.until(all as u64, |counted| counted.resources).await?,
        Due::Empty(all) => swarm.until(all as u64, |counted| counted.messages).await?,
        Due::Nothing => Instant::now(),
    };
    // A server is idle while the clients still read what it has written, so both must be quiet.
    let mut spent = (rig.server.cpu_micros()?, rig.swarm.mark());
    loop {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let now = (rig.server.cpu_micros()?, rig.swarm.mark());
        if now.0 - spent.0 < QUIET_MICROS && now.1 == spent.1 {
            break;
        }
        spent = now;
    }
    let is_answered = spent.1.messages >= clients as u64;
    Ok(rig.swarm.arrivals().last().copied().filter(|_| is_answered))
}
