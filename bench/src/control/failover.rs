//! the primary control plane is killed under load: failed calls, and the time until the secondary is followed.
//!
//! While everything is cached, no client falls back (gRFC A71). So the listener of the primary moves to routes that the
//! primary lacks just before it dies: one resource is missing, and the client asks the secondary, which routes to
//! another backend. The client has a processor to itself; control planes and backends have the scenario's.

use std::path::Path;
use std::time::{Duration, Instant};

use super::calls::{self, Client};
use super::resources;
use crate::plan::{Plan, Size};
use crate::report::{Row, Table, Target, median};
use crate::roles::{Part, Processors, Role};

/// Longer than any backoff before the first response of the secondary.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Age of the discovery stream at the kill, in seconds. oxds counts the backoff before its next stream from the start
/// of this one (1 s, and a fifth more at most; C-89): with a younger stream, the scenario would measure the rest of
/// this backoff.
const STREAM_SECONDS: u64 = 2;

/// Result of one kill.
#[derive(Debug, Clone, Copy)]
struct FailoverResult {
    failed: u64,
    followed: Duration,
}

pub(crate) fn run(_: &Plan, size: Size, table: &mut Table) -> Result<(), String> {
    let (rate, rounds) = (size.rate, size.rounds);
    let ours = survive(Client::Oxds, rate, rounds)?;
    let theirs = survive(Client::GrpcGo, rate, rounds)?;
    let what = format!("failed of {rate} calls per second");
    table.limit("R-6", &what, ours.failed as f64, 0.0);
    table.note(&format!("R-6: grpc-go: {} failed", theirs.failed));
    table.row(&Row {
        id: "R-6",
        what: "primary killed, until the secondary is followed (ms)",
        ours: ours.followed.as_secs_f64() * 1e3,
        peer: ("grpc-go", theirs.followed.as_secs_f64() * 1e3),
        target: Target::AtMost(1.0),
    });
    Ok(())
}

/// The sum of failures, and the median of the times.
fn survive(client: Client, rate: u32, rounds: usize) -> Result<FailoverResult, String> {
    let runs: Vec<FailoverResult> = (0..rounds)
        .map(|_| once(client, rate))
        .collect::<Result<_, _>>()?;
    let times = runs.iter().map(|run| run.followed.as_secs_f64());
    Ok(FailoverResult {
        failed: runs.iter().map(|run| run.failed).sum(),
        followed: Duration::from_secs_f64(median(times.collect())),
    })
}

fn once(client: Client, rate: u32) -> Result<FailoverResult, String> {
    let backend = || Part::start_on(Processors::Beside, &Role::Backend);
    let (old, mut new) = (backend()?, backend()?);
    let (primary, secondary) = (tempfile::tempdir(), tempfile::tempdir());
    let primary = primary.map_err(|error| error.to_string())?;
    let secondary = secondary.map_err(|error| error.to_string())?;
    resources::save(primary.path(), "routes", old.hello())?;
    resources::save(secondary.path(), "routes", new.hello())?;
    let serve = |folder: &Path| {
        let folder = folder.to_owned();
        Part::start_on(Processors::Beside, &Role::ControlPlane { folder })
    };
    let (p, f) = (serve(primary.path())?, serve(secondary.path())?);
    let mut calling = client.start(&[p.hello(), f.hello()], rate)?;
    calls::until(&mut calling, u64::from(rate) * STREAM_SECONDS, TIMEOUT)?
        .ok_or_else(|| format!("{} makes no calls within {TIMEOUT:?}", client.name()))?;
    resources::save(primary.path(), "routes-to-come", old.hello())?;
    // Twice the debounce, and the time to send the change.
    std::thread::sleep(Duration::from_millis(300));
    let killed = Instant::now();
    drop(p);
    while new.calls()? == 0 {
        if killed.elapsed() > TIMEOUT {
            return Err(format!(
                "{} has not fallen back within {TIMEOUT:?}",
                client.name()
            ));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let followed = killed.elapsed();
    // A while after it, too.
    std::thread::sleep(Duration::from_millis(500));
    let failed = calls::status(&mut calling)?.failed;
    Ok(FailoverResult { failed, followed })
}
