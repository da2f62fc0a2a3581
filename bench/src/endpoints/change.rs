//! one endpoint of a cluster moves: CPU time of the client, and time until the client has connected to the new
//! address.

use std::time::{Duration, Instant};

use super::rig::{Rig, accepted};
use crate::control::calls::Client;
use crate::plan::{Plan, Size};
use crate::report::{Row, Table, Target, median};
use crate::roles::Layout;

/// Time from one change to the next.
const PERIOD: Duration = Duration::from_millis(200);
/// Time in which a client must follow each change.
const LATEST: Duration = Duration::from_secs(2);

/// Calls per second of a channel that is idle but for its first call, and of a busy one.
const RATES: [(&str, u32); 2] = [("idle", 1), ("busy", 1_000)];

/// Result of a client.
struct Changed {
    cpu_millis: f64,
    /// Median; `None` if the client did not follow a change in time.
    followed: Option<Duration>,
}

/// Changes of a run.
struct Changes {
    count: usize,
    changes: usize,
    /// Whether its figures are judged: then a client must come to rest, and the changes must cost CPU.
    is_judged: bool,
}

pub(crate) fn run(plan: &Plan, size: Size, table: &mut Table) -> Result<(), String> {
    let size = Changes {
        count: size.many(),
        changes: size.steps,
        is_judged: !plan.smoke,
    };
    let count = size.count;
    for (name, rate) in RATES {
        let ours = measure(Client::Oxds, &size, rate)?;
        for (peer, most) in [(Client::TonicXds, 0.1), (Client::GrpcGo, 1.0)] {
            let theirs = measure(peer, &size, rate)?;
            table.row(&Row {
                id: "R-3",
                what: &format!("{name}, 1 of {count} changes, CPU (ms)"),
                ours: ours.cpu_millis,
                peer: (peer.name(), theirs.cpu_millis),
                target: Target::AtMost(most),
            });
            match (ours.followed, theirs.followed) {
                (Some(ours), Some(theirs)) => table.row(&Row {
                    id: "R-3",
                    what: &format!("{name}, until connected to it (ms)"),
                    ours: ours.as_secs_f64() * 1e3,
                    peer: (peer.name(), theirs.as_secs_f64() * 1e3),
                    target: Target::None,
                }),
                (None, _) => return Err("oxds does not follow a change".to_owned()),
                (_, None) => table.note(&format!(
                    "R-3: {name}: {} has not connected to the new address within {LATEST:?}",
                    peer.name()
                )),
            }
        }
    }
    Ok(())
}

fn measure(client: Client, size: &Changes, rate: u32) -> Result<Changed, String> {
    let Changes {
        count,
        changes,
        is_judged,
    } = *size;
    let mut rig = Rig::start(client, count, Layout::InUse, rate)?;
    if rig.connected(count)? < count && client == Client::Oxds {
        return Err(format!("oxds has not connected to all {count} endpoints"));
    }
    if is_judged {
        rig.settle()?;
    }
    // The calls cost CPU, too. In this time, work from the start of the client ends.
    let length = PERIOD * changes as u32;
    let at_first = cpu_rate(&mut rig, length)?;
    let (start, before) = (Instant::now(), rig.client.cpu()?);
    let mut times = Vec::new();
    let mut missed = false;
    for change in 1..=changes {
        let sent = Instant::now();
        rig.control.send_line("change")?;
        while !missed && accepted(&mut rig.changed)? < change {
            missed = sent.elapsed() > LATEST;
            std::thread::sleep(Duration::from_millis(1));
        }
        times.push(sent.elapsed().as_secs_f64());
        std::thread::sleep(PERIOD.saturating_sub(sent.elapsed()));
    }
    if is_judged {
        rig.settle()?;
    }
    let used = (rig.client.cpu()? - before).as_secs_f64();
    let took = start.elapsed().as_secs_f64();
    let unchanged = cpu_rate(&mut rig, length)?.min(at_first);
    let by_changes = used - unchanged * took;
    if is_judged && by_changes <= 0.0 {
        let name = client.name();
        return Err(format!(
            "{name} uses no more CPU time with changes ({used:.3} s) than without"
        ));
    }
    Ok(Changed {
        cpu_millis: by_changes * 1e3 / changes as f64,
        followed: (!missed).then(|| Duration::from_secs_f64(median(times))),
    })
}

/// Returns the CPU time per second that the client uses without changes.
fn cpu_rate(rig: &mut Rig, length: Duration) -> Result<f64, String> {
    let (start, before) = (Instant::now(), rig.client.cpu()?);
    std::thread::sleep(length);
    let used = rig.client.cpu()? - before;
    Ok(used.as_secs_f64() / start.elapsed().as_secs_f64())
}
