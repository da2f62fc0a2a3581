//! GB-6: 1,000 changes per second, from etcd's commit until the client of the last replica has each.
//!
//! The writer reads the published state for each publish, and publishes one after the other, so the state is small. A
//! client that is late gets a later content of the same cluster: it has a publish when it has a cluster of that
//! publish, or of one after it.

use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::time::{interval, timeout};

use super::super::probe::Probe;
use super::super::resources::{now_micros, stamp};
use super::etcd::{Etcd, LIMIT, PREFIX, REPLICAS};
use super::fleet::{Kind, Replica, published, replicas};
use super::text::text;
use crate::plan::{Plan, Size};
use crate::report::{Row, Table, Target, percentile_micros};

/// Publishes per second.
const RATE: usize = 100;
/// Clusters that each of them changes.
const CHANGES: usize = 10;
/// Part of the rate below which the lag says too little.
const LEAST_RATE: f64 = 0.95;
/// Clusters of the configuration.
const CLUSTERS: usize = 100;
/// Allowed lag, p50 and p99, in milliseconds.
const MOST_MILLIS: f64 = 50.0;
/// Allowed lag of the second half relative to the first, with room for noise.
const MOST_GROWTH: f64 = 1.2;

pub(crate) async fn run(_: &Plan, size: Size, table: &mut Table) -> Result<(), String> {
    let seconds = size.length.as_secs() as usize;
    let mut etcd = Etcd::start().await?;
    etcd.fill(PREFIX, CLUSTERS).await?;
    let replicas = replicas(Kind::Oxds, &etcd, PREFIX)?;
    let mut arrivals = follow(&replicas).await?;
    let mut commits = etcd.watch(published(Kind::Oxds)).await?;

    let publishes = RATE * seconds;
    let mut starts = Vec::with_capacity(publishes);
    let start = Instant::now();
    let mut next = interval(Duration::from_secs(1) / RATE as u32);
    for publish in 0..publishes {
        next.tick().await;
        let first = publish * CHANGES % CLUSTERS;
        starts.push(now_micros());
        etcd.change_some(PREFIX, first..first + CHANGES).await?;
    }
    let took = start.elapsed().as_secs_f64();
    let mut committed = Vec::with_capacity(publishes);
    for _ in 0..publishes {
        let commit = timeout(LIMIT, commits.recv()).await.map_err(text)?;
        committed.push(commit.ok_or("the watch ended")?);
    }
    let mut lags = Lags::new(starts, committed);
    while !lags.is_complete() {
        let arrived = timeout(LIMIT, arrivals.recv()).await.map_err(text)?;
        lags.note(arrived.ok_or("the clients ended")?);
    }
    print(
        table,
        &lags.lags_of_last(),
        (publishes * CHANGES) as f64 / took,
    );

    let others = etcd.strayed(PREFIX, 1).await?;
    let what = "replicas with another digest at the end";
    table.limit("GB-6", what, others as f64, 0.0);
    Ok(())
}

fn print(table: &mut Table, lags: &[Duration], changes_per_second: f64) {
    table.row(&Row {
        id: "GB-6",
        what: "changes per second",
        ours: changes_per_second,
        peer: ("wanted", (RATE * CHANGES) as f64),
        target: Target::None,
    });
    if changes_per_second < LEAST_RATE * (RATE * CHANGES) as f64 {
        table.note("GB-6: the writer or etcd is too slow: the lag is that of a lower rate");
    }
    let millis = |lags: &[Duration], part| {
        let mut sorted = lags.to_vec();
        sorted.sort_unstable();
        percentile_micros(&sorted, part) / 1e3
    };
    for (name, part) in [("p50", 0.5), ("p99", 0.99)] {
        let what = format!("lag of the last of {REPLICAS}, {name} (ms)");
        table.limit("GB-6", &what, millis(lags, part), MOST_MILLIS);
    }
    let (first, second) = lags.split_at(lags.len() / 2);
    let growth = millis(second, 0.5) / millis(first, 0.5);
    let what = "lag p50, second half / first";
    table.limit("GB-6", what, growth, MOST_GROWTH);
}

/// Clusters that a client got.
#[derive(Clone, Copy)]
struct Arrival {
    replica: usize,
    /// Time of the newest change among them, in microseconds since 1970.
    newest: u64,
    at: Instant,
}

/// Connects a client to each replica. It receives all resources, and then reports each update.
async fn follow(replicas: &[Replica]) -> Result<mpsc::UnboundedReceiver<Arrival>, String> {
    let (sender, arrivals) = mpsc::unbounded_channel();
    for (replica, server) in replicas.iter().enumerate() {
        let mut probe = Probe::connect(&server.grpc).await?;
        probe.sync(CLUSTERS).await?;
        let sender = sender.clone();
        // Ends with the stream, or with the first cluster that cannot be read: the receiver then waits in vain, and
        // says so.
        tokio::spawn(async move {
            while let Ok(response) = probe.next().await {
                let at = Instant::now();
                let bodies = response
                    .resources
                    .iter()
                    .filter_map(|one| one.resource.as_ref());
                let stamps: Result<Vec<_>, _> = bodies.map(|any| stamp(&any.value)).collect();
                let newest = stamps.ok().and_then(|stamps| stamps.into_iter().max());
                let arrival = newest.map(|newest| Arrival {
                    replica,
                    newest,
                    at,
                });
                let sent = arrival.is_some_and(|arrival| sender.send(arrival).is_ok());
                if !sent || probe.acknowledge(response).is_err() {
                    return;
                }
            }
        });
    }
    Ok(arrivals)
}

/// When each publish was committed, and when the last client had it.
struct Lags {
    /// Times when the writer began, in microseconds since 1970: all changes of a publish are as late, and earlier than
    /// the next start.
    starts: Vec<u64>,
    committed: Vec<Instant>,
    had: Vec<Instant>,
    /// By replica, the first publish that its client does not have.
    missing: [usize; REPLICAS],
}

impl Lags {
    fn new(starts: Vec<u64>, committed: Vec<Instant>) -> Self {
        Self {
            starts,
            // A client may hear of a publish before the writer's own watch does: its lag is then none.
            had: committed.clone(),
            committed,
            missing: [0; REPLICAS],
        }
    }

    fn note(&mut self, arrival: Arrival) {
        let missing = &mut self.missing[arrival.replica];
        while let Some(start) = self.starts.get(*missing)
            && *start <= arrival.newest
        {
            self.had[*missing] = self.had[*missing].max(arrival.at);
            *missing += 1;
        }
    }

    fn is_complete(&self) -> bool {
        self.missing
            .iter()
            .all(|&missing| missing == self.starts.len())
    }

    /// Returns the lag of the last client, by publish.
    fn lags_of_last(&self) -> Vec<Duration> {
        let all = self.had.iter().zip(&self.committed);
        all.map(|(had, committed)| *had - *committed).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gb6_later_cluster_brings_all_publishes_before_it() {
        let start = Instant::now();
        let after = |millis| start + Duration::from_millis(millis);
        // Given two publishes, committed 10 ms apart,
        let mut lags = Lags::new(vec![100, 200], vec![after(0), after(10)]);
        // when two replicas have them one by one, and the third one only the second,
        for (replica, newest, millis) in [(0, 105, 1), (0, 205, 11), (1, 105, 2), (1, 205, 12)] {
            let at = after(millis);
            lags.note(Arrival {
                replica,
                newest,
                at,
            });
        }
        assert!(!lags.is_complete());
        let at = after(15);
        lags.note(Arrival {
            replica: 2,
            newest: 201,
            at,
        });
        // then the third one is the last for both.
        assert!(lags.is_complete());
        assert_eq!(lags.lags_of_last(), [15, 5].map(Duration::from_millis));
    }
}
