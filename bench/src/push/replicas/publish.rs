//! GB-1, GB-2: from etcd's commit until the client of the last replica has the change, and until the last of many
//! clients has accepted it.

use std::time::{Duration, Instant};

use super::super::swarm::Swarm;
use super::etcd::{Etcd, PREFIX, REPLICAS};
use super::fleet::{Fleet, Kind, answers_of_next, prefix, published, subscribers};
use crate::plan::{Plan, Size};
use crate::report::{Row, Table, Target, percentile_micros};

/// Allowed time beyond the commit, in microseconds.
const MOST_P50: f64 = 2_000.0;
const MOST_P99: f64 = 10_000.0;
/// Allowed time beyond the commit until the last ACK, in microseconds.
const MOST_ACK_P50: f64 = 15_000.0;
const MOST_ACK_P99: f64 = 50_000.0;
/// Slowest publishes that are shown.
const SHOWN: usize = 3;
/// Allowed time of a large publish after its commit, in milliseconds: 500 from its first write (GB-2), without the 163
/// in which etcd committed it on the machine on which this bound was set. So the bound judges the difference to etcd's
/// own time.
const MOST_BEYOND_COMMIT: f64 = 500.0 - 163.0;
/// Key of the head.
const HEAD: &str = "/oxds/default/l/main/head";

pub(crate) async fn run(plan: &Plan, size: Size, table: &mut Table) -> Result<(), String> {
    let (clusters, rounds, clients, large) = (size.many(), size.rounds, size.clients, size.steps);
    let mut etcd = Etcd::start().await?;
    etcd.fill(PREFIX, clusters).await?;
    if plan.wants("GB-2") {
        let alone = commit_alone(&mut etcd, large).await?;
        table.note(&format!(
            "GB-2, etcd without replicas: commit of {large} of {clusters} after {:.0} ms",
            millis(alone)
        ));
    }
    let mut fleet = Fleet::start(Kind::Oxds, &etcd, PREFIX, clusters).await?;
    if plan.wants("GB-1") {
        let ours = changes(&mut etcd, &mut fleet, Kind::Oxds, rounds).await?;
        let accepted = acks(&mut etcd, &mut fleet, clients, rounds).await?;
        let plain = prefix(Kind::Plain);
        etcd.fill_plain(plain, clusters).await?;
        let mut peers = Fleet::start(Kind::Plain, &etcd, plain, clusters).await?;
        let theirs = changes(&mut etcd, &mut peers, Kind::Plain, rounds).await?;
        print(table, &ours, &theirs, clusters);
        print_acks(table, &accepted, clients);
    }
    if plan.wants("GB-2") {
        let before = updates(&fleet)?;
        let ours = change_many(&mut etcd, &mut fleet, Kind::Oxds, large).await?;
        // One change set for each replica: no client can have seen a part.
        let more = updates(&fleet)?
            .into_iter()
            .zip(before)
            .map(|(now, then)| now - then);
        let most = more.max().unwrap_or(u64::MAX);
        drop(fleet);
        let plain = prefix(Kind::Plain);
        etcd.fill_plain(plain, clusters).await?;
        let mut peers = Fleet::start(Kind::Plain, &etcd, plain, clusters).await?;
        let theirs = change_many(&mut etcd, &mut peers, Kind::Plain, large).await?;
        print_large(table, &ours, &theirs, &format!("{large} of {clusters}"));
        table.limit("GB-2", "updates of a replica", most as f64, 1.0);
    }
    Ok(())
}

/// Times of one publish.
struct Publish {
    begun: Instant,
    /// The writer has etcd's answer.
    answered: Instant,
    /// The watch of each member has it.
    members: Vec<Instant>,
    /// The client of each replica has it.
    clients: Vec<Instant>,
}

impl Publish {
    fn commit(&self) -> Duration {
        self.answered - self.begun
    }

    fn whole(&self) -> Duration {
        self.clients
            .iter()
            .max()
            .map_or(Duration::ZERO, |last| *last - self.begun)
    }

    /// Time of the last client after the writer's own watch, which is that of the first member.
    fn beyond_watch(&self) -> Duration {
        let watched = self
            .members
            .first()
            .map_or(Duration::ZERO, |first| *first - self.begun);
        self.whole().saturating_sub(watched)
    }

    /// Time of the last client after the watch of the last member. A member shows a publish when its own disk has it,
    /// so the time before that is etcd's, and grows with the time of its commits.
    fn beyond_members(&self) -> Duration {
        self.whole().saturating_sub(self.last_member())
    }

    fn last_member(&self) -> Duration {
        self.members
            .iter()
            .max()
            .map_or(Duration::ZERO, |last| *last - self.begun)
    }
}

/// Times of a publish that many clients accept.
struct Accepted {
    commit: Duration,
    /// The last client has sent its ACK.
    whole: Duration,
}

/// Prints the clients' part of GB-1.
fn print_acks(table: &mut Table, accepted: &[Accepted], clients: usize) {
    for (name, part, most) in [("p50", 0.5, MOST_ACK_P50), ("p99", 0.99, MOST_ACK_P99)] {
        if part > 0.9 && accepted.len() < 100 {
            continue;
        }
        let commit = percentile(accepted, |publish| publish.commit, part);
        let beyond = percentile(accepted, |publish| publish.whole, part) - commit;
        let all = clients * REPLICAS;
        let what = format!("last ACK of {all}, beyond the commit, {name} (us)");
        table.limit("GB-1", &what, beyond, most);
    }
}

/// Returns a percentile of a time, in microseconds.
fn percentile<P>(publishes: &[P], time: fn(&P) -> Duration, part: f64) -> f64 {
    let mut times: Vec<_> = publishes.iter().map(time).collect();
    times.sort_unstable();
    percentile_micros(&times, part)
}

/// Prints GB-1. The bound is a percentile of the whole time, beyond the same percentile of the commits.
fn print(table: &mut Table, ours: &[Publish], theirs: &[Publish], clusters: usize) {
    for (name, part, most) in [("p50", 0.5, MOST_P50), ("p99", 0.99, MOST_P99)] {
        if part > 0.9 && ours.len() < 100 {
            continue;
        }
        table.row(&Row {
            id: "GB-1",
            what: &format!("last of 3, beyond the writer's watch, {name} (us)"),
            ours: percentile(ours, Publish::beyond_watch, part),
            peer: ("plain Go", percentile(theirs, Publish::beyond_watch, part)),
            target: Target::None,
        });
        table.row(&Row {
            id: "GB-1",
            what: &format!("beyond the watch of the last member, {name} (us)"),
            ours: percentile(ours, Publish::beyond_members, part),
            peer: (
                "plain Go",
                percentile(theirs, Publish::beyond_members, part),
            ),
            target: Target::None,
        });
        let commit = percentile(ours, Publish::commit, part);
        table.row(&Row {
            id: "GB-1",
            what: &format!("watch of the last of 3 members, {name} (us)"),
            ours: percentile(ours, Publish::last_member, part),
            peer: ("etcd's commit", commit),
            target: Target::None,
        });
        let beyond = percentile(ours, Publish::whole, part) - commit;
        let what = format!("one of {clusters}, beyond the commit, {name} (us)");
        table.limit("GB-1", &what, beyond, most);
    }
    let mut slowest: Vec<_> = ours.iter().collect();
    slowest.sort_unstable_by_key(|publish| publish.beyond_watch());
    for publish in slowest.iter().rev().take(SHOWN) {
        let millis = |time: &Instant| format!("{:.1}", (*time - publish.begun).as_secs_f64() * 1e3);
        let all = |times: &[Instant]| times.iter().map(millis).collect::<Vec<_>>().join(" ");
        table.note(&format!(
            "GB-1, one of the slowest (ms): commit {}, watches of the members {}, clients {}",
            millis(&publish.answered),
            all(&publish.members),
            all(&publish.clients)
        ));
    }
}

/// Times of a publish of many clusters, since the writer's watch had its first write.
struct LargePublish {
    /// The watch has the head, which publishes all; `None` for the plain alternative, which publishes each transaction.
    committed: Option<Duration>,
    /// The watch has the last write before the last client has all.
    written: Duration,
    /// The last client has all.
    whole: Duration,
}

/// Publishes changes of many clusters while no replica runs. Returns the time from the first write to the head.
async fn commit_alone(etcd: &mut Etcd, clusters: usize) -> Result<Duration, String> {
    let mut writes = etcd.watch(published(Kind::Oxds)).await?;
    let mut heads = etcd.watch(HEAD).await?;
    etcd.change(PREFIX, clusters).await?;
    let first = writes.recv().await.ok_or("the watch ended")?;
    let committed = heads.recv().await.ok_or("the watch ended")?;
    Ok(committed.saturating_duration_since(first))
}

/// Changes many clusters: in one publish, or for the plain alternative in transactions of as many keys as etcd takes.
async fn change_many(
    etcd: &mut Etcd,
    fleet: &mut Fleet,
    kind: Kind,
    clusters: usize,
) -> Result<LargePublish, String> {
    let mut writes = etcd.watch(published(kind)).await?;
    let mut heads = match kind {
        Kind::Oxds => Some(etcd.watch(HEAD).await?),
        Kind::Plain => None,
    };
    match kind {
        Kind::Oxds => etcd.change(prefix(kind), clusters).await?,
        Kind::Plain => etcd.change_plain(prefix(kind), clusters).await?,
    }
    let last = fleet.until(clusters).await?;
    let first = writes.recv().await.ok_or("the watch ended")?;
    let mut written = first;
    while let Ok(time) = writes.try_recv()
        && time < last
    {
        written = time;
    }
    let committed = match &mut heads {
        Some(heads) => Some(heads.recv().await.ok_or("the watch ended")?),
        None => None,
    };
    Ok(LargePublish {
        committed: committed.map(|at| at.saturating_duration_since(first)),
        written: written - first,
        whole: last.saturating_duration_since(first),
    })
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Prints GB-2.
fn print_large(table: &mut Table, ours: &LargePublish, theirs: &LargePublish, what: &str) {
    table.row(&Row {
        id: "GB-2",
        what: &format!("{what}, first write to last (ms)"),
        ours: millis(ours.whole),
        peer: ("plain Go", millis(theirs.whole)),
        target: Target::None,
    });
    table.note(&format!(
        "GB-2, until the last write before that: {:.0} ms; plain Go {:.0} ms",
        millis(ours.written),
        millis(theirs.written)
    ));
    if let Some(committed) = ours.committed {
        let beyond = millis(ours.whole.saturating_sub(committed));
        let commit = format!(
            "{what}, beyond the commit at {:.0} ms (ms)",
            millis(committed)
        );
        table.limit("GB-2", &commit, beyond, MOST_BEYOND_COMMIT);
    }
}

/// Changes one cluster again and again.
async fn changes(
    etcd: &mut Etcd,
    fleet: &mut Fleet,
    kind: Kind,
    rounds: usize,
) -> Result<Vec<Publish>, String> {
    let prefix = prefix(kind);
    let mut watches = etcd.watch_all(published(kind)).await?;
    let mut publishes = Vec::with_capacity(rounds);
    // The first change pays for what stays.
    for round in 0..=rounds {
        match kind {
            Kind::Oxds => etcd.change(prefix, 1).await?,
            Kind::Plain => etcd.change_plain(prefix, 1).await?,
        }
        let clients = fleet.arrivals(1).await?;
        let mut members = Vec::new();
        for watch in &mut watches {
            members.push(watch.recv().await.ok_or("the watch ended")?);
        }
        if round > 0 {
            let (begun, answered) = etcd.commit();
            publishes.push(Publish {
                begun,
                answered,
                members,
                clients,
            });
        }
    }
    Ok(publishes)
}

/// Changes one cluster again and again, while this many clients of each replica have requested it.
async fn acks(
    etcd: &mut Etcd,
    fleet: &mut Fleet,
    clients: usize,
    rounds: usize,
) -> Result<Vec<Accepted>, String> {
    let swarms = subscribers(&fleet.replicas, clients, Duration::ZERO).await?;
    let mut publishes = Vec::with_capacity(rounds);
    // The first change pays for what stays.
    for round in 0..=rounds {
        let goals = answers_of_next(&swarms);
        etcd.change(PREFIX, 1).await?;
        for (swarm, goal) in swarms.iter().zip(goals) {
            swarm.until(goal, |counted| counted.answers).await?;
        }
        fleet.until(1).await?;
        let last = swarms.iter().filter_map(Swarm::last_answer).max();
        let (begun, answered) = etcd.commit();
        if round > 0 {
            publishes.push(Accepted {
                commit: answered - begun,
                whole: last.ok_or("no answer")? - begun,
            });
        }
    }
    Ok(publishes)
}

fn updates(fleet: &Fleet) -> Result<Vec<u64>, String> {
    let replicas = fleet.replicas.iter();
    replicas
        .map(|replica| replica.metric("oxds_store_updates_total"))
        .collect()
}
