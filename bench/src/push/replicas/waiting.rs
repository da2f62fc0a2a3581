//! GB-14: `oxds wait --all --etcd` with many clients: how long after the last ACK it ends.
//!
//! ```text
//!   publish ──▶ clients have it ──▶ the last ACK ──▶ status keys ──▶ `oxds wait` ends
//!        └── `oxds wait` starts         └───────── measured ──────────────┘
//! ```

use std::time::Duration;

use tokio::time::interval;

use super::super::swarm::Swarm;
use super::etcd::{Etcd, PREFIX, REPLICAS};
use super::fleet::{Fleet, Kind, answers_of_next, subscribers};
use super::text::text;
use crate::command_line::CommandLine;
use crate::plan::{Plan, Size};
use crate::program::program;
use crate::report::{Table, percentile_micros};

/// Delay of an answer: `oxds wait` has started before the last one.
const ANSWER: Duration = Duration::from_millis(100);
/// Allowed time after the last ACK, in milliseconds.
const MOST_MILLIS: f64 = 600.0;
/// Allowed transactions per publish and replica.
const MOST_WRITES: f64 = 2.0;

pub(crate) async fn run(_: &Plan, size: Size, table: &mut Table) -> Result<(), String> {
    // With a pause between publishes, replicas write a status for each of them.
    let (clients, rounds, pace) = (size.clients, size.rounds, size.length);
    let clusters = 1_000;
    let mut etcd = Etcd::start().await?;
    etcd.fill(PREFIX, clusters).await?;
    let mut fleet = Fleet::start(Kind::Oxds, &etcd, PREFIX, clusters).await?;
    let swarms = subscribers(&fleet.replicas, clients, ANSWER).await?;
    // The probe is a client, too.
    let streams = clients + 1;
    etcd.settled(PREFIX, streams).await?;

    let program = program("OXDS_BENCH_OXDS")?;
    let arguments = ["wait", "--all", "--etcd", &etcd.urls.clone()];
    let command = CommandLine::new(&program, &arguments, 0);
    let folder = tempfile::tempdir().map_err(text)?;
    let before = etcd.revision().await?;
    let mut next = interval(pace);
    let mut times = Vec::new();
    for _ in 0..rounds {
        next.tick().await;
        let goals = answers_of_next(&swarms);
        etcd.change(PREFIX, 1).await?;
        let child = command.start(folder.path())?;
        let ended = command.end(child).await?;
        for (swarm, goal) in swarms.iter().zip(goals) {
            let answers = swarm.mark().answers;
            if answers != goal {
                return Err(format!("oxds wait ended at {answers} of {goal} answers"));
            }
        }
        let last = swarms.iter().filter_map(Swarm::last_answer).max();
        times.push(ended.duration_since(last.ok_or("no answer")?));
        fleet.until(1).await?;
    }
    etcd.settled(PREFIX, streams).await?;
    let writes = (etcd.revision().await? - before) as f64 / rounds as f64 - 1.0;
    times.sort_unstable();
    let millis = |part| percentile_micros(&times, part) / 1e3;
    let what = format!("{REPLICAS} x {clients} clients, after the last ACK, p50 (ms)");
    table.limit("GB-14", &what, millis(0.5), MOST_MILLIS);
    let what = format!("the longest of {rounds} (ms)");
    table.limit("GB-14", &what, millis(1.0), MOST_MILLIS);
    let of_one = writes / REPLICAS as f64;
    let what = "writes per publish and replica";
    table.limit("GB-14", what, of_one, MOST_WRITES);
    Ok(())
}
