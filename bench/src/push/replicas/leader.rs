//! GB-10: the leader of etcd is killed under 100 publishes per second: how long no publish is acknowledged, and whether
//! one is lost.
//!
//! ```text
//!   publishes ──┐            ┌── the writer's member is the leader, or a follower
//!   plain puts ─┴─▶ member ──┘   the leader is killed: the longest time between two acknowledgements
//! ```
//!
//! The bound is etcd's election and half a second. Another member, which is asked repeatedly, reports the new leader.
//!
//! A plain put beside each writer shows the pause of etcd's own client: it is tried again at the next member, as a
//! publish is. A follower that has sent a write to the leader that died answers it after 7 s: the client's time limit
//! of 5 s ends it before. A publish looks for the outcome of its first write after 1 s, at another member; what it
//! reads before, the new leader answers at once.

use std::time::{Duration, Instant};

use oxds_etcd::{Head, Key, Prefix, PublishId, Segment};
use oxds_server::store::etcd::client::{ClientOptions, Endpoints, EtcdClient, Members};
use oxds_types::etcd::{PutRequest, RangeRequest};
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::etcd::{Etcd, LIMIT, PREFIX};
use super::fleet::{Kind, replicas};
use super::text::text;
use super::writer::Writer;
use crate::plan::{Plan, Size};
use crate::report::{Row, Table, Target, median};

/// Time between two publishes.
const PACE: Duration = Duration::from_millis(10);
/// Clusters of the configuration, and of a publish.
const CLUSTERS: usize = 100;
const CHANGES: usize = 10;
/// Allowed pause beyond the election of the same round, and longest pause beyond that of a plain put, in milliseconds.
const MOST_BEYOND: f64 = 500.0;
/// Time between two questions who leads.
const LOOK: Duration = Duration::from_millis(5);

/// Member of the writers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Leader,
    Follower,
}

pub(crate) async fn run(_: &Plan, size: Size, table: &mut Table) -> Result<(), String> {
    let (rounds, around) = (size.rounds, size.length);
    let places = &[At::Leader, At::Follower][..size.steps];
    let mut etcd = Etcd::start().await?;
    etcd.fill(PREFIX, CLUSTERS).await?;
    let _replicas = replicas(Kind::Oxds, &etcd, PREFIX)?;
    etcd.settled(PREFIX, 0).await?;
    let before = etcd.revision().await?;
    let mut acknowledged = Vec::new();
    for &at in places {
        let mut pauses = Pauses::default();
        for _ in 0..rounds {
            let round = kill_leader(&mut etcd, at, around, acknowledged.len()).await?;
            let publishes = round.publishes.iter().map(|(_, time)| *time);
            pauses.publishes.push(longest(publishes));
            pauses.puts.push(longest(round.puts.iter().copied()));
            pauses.elections.push(round.election.as_secs_f64() * 1e3);
            acknowledged.extend(round.publishes.into_iter().map(|(publish, _)| publish));
            etcd.restart().await?;
        }
        print(table, at, pauses);
    }
    let chain = chain(&etcd, before).await?;
    let count = |publish| chain.iter().filter(|one| *one == publish).count();
    let counts: Vec<_> = acknowledged.iter().map(count).collect();
    let lost = counts.iter().filter(|&&count| count == 0).count();
    let what = format!("acknowledged publishes lost, of {}", counts.len());
    table.limit("GB-10", &what, lost as f64, 0.0);
    let twice = counts.iter().filter(|&&count| count > 1).count();
    table.limit("GB-10", "publishes that happened twice", twice as f64, 0.0);
    let others = etcd.strayed(PREFIX, 0).await?;
    let what = "replicas with another digest at the end";
    table.limit("GB-10", what, others as f64, 0.0);
    Ok(())
}

/// Durations in each round, in milliseconds.
#[derive(Default)]
struct Pauses {
    publishes: Vec<f64>,
    puts: Vec<f64>,
    /// From the death of the leader until a member knows the next one.
    elections: Vec<f64>,
}

fn print(table: &mut Table, at: At, pauses: Pauses) {
    let Pauses {
        publishes: ours,
        puts: theirs,
        elections,
    } = pauses;
    let at = match at {
        At::Leader => "writer at the leader",
        At::Follower => "writer at a follower",
    };
    table.note(&format!(
        "GB-10, {at}: pauses of publishes {ours:.0?} ms, of puts {theirs:.0?} ms, elections {elections:.0?} ms"
    ));
    let most = |pauses: &[f64]| pauses.iter().copied().fold(0.0, f64::max);
    let (longest, longest_put) = (most(&ours), most(&theirs));
    let pairs = ours.iter().zip(&elections);
    let beyond: Vec<_> = pairs.map(|(pause, election)| pause - election).collect();
    table.row(&Row {
        id: "GB-10",
        what: &format!("{at}: pause, p50 (ms)"),
        ours: median(ours),
        peer: ("plain put", median(theirs)),
        target: Target::None,
    });
    let what = format!("{at}: longest beyond the election (ms)");
    table.limit("GB-10", &what, most(&beyond), MOST_BEYOND);
    let what = format!("{at}: beyond the put's (ms)");
    table.limit("GB-10", &what, longest - longest_put, MOST_BEYOND);
}

/// Acknowledgements of a round.
#[derive(Default)]
struct Round {
    publishes: Vec<(PublishId, Instant)>,
    puts: Vec<Instant>,
    election: Duration,
}

/// Publishes and puts until the leader is dead and both have continued for a while.
async fn kill_leader(
    etcd: &mut Etcd,
    at: At,
    around: Duration,
    generation: usize,
) -> Result<Round, String> {
    let clients = clients(etcd).await?;
    let leads = etcd.client.status().await.map_err(text)?.leader;
    let mut members = clients.iter();
    let leader = members.position(|client| client.identity().member == leads);
    let leader = leader.ok_or("no member leads")?;
    let mut urls = etcd.members.urls();
    // The first URL is used first.
    let first = match at {
        At::Leader => leader,
        At::Follower => (leader + 1) % urls.len(),
    };
    urls.rotate_left(first);
    let endpoints: Endpoints = urls.join(",").parse().map_err(text)?;
    let options = ClientOptions::new(&endpoints, None).map_err(text)?;
    let mut round = Round::default();
    let Round {
        publishes,
        puts,
        election,
    } = &mut round;
    let killed_at = std::cell::Cell::new(None);
    let is_over = |last: Instant| {
        let killed: Option<Instant> = killed_at.get();
        killed.is_some_and(|killed| last > killed + around)
    };
    let publishing = async {
        let mut writer = Writer::new(endpoints.clone(), options.clone());
        writer.generation = generation;
        let mut ticks = ticks();
        loop {
            ticks.tick().await;
            let first = writer.generation * CHANGES % CLUSTERS;
            let publish = writer.change(PREFIX, first..first + CHANGES).await?;
            let at = Instant::now();
            publishes.push((publish, at));
            if is_over(at) {
                return Ok::<_, String>(());
            }
        }
    };
    let putting = async {
        let mut putter = Putter::new(endpoints.clone(), options.clone());
        let mut ticks = ticks();
        loop {
            ticks.tick().await;
            let at = putter.put().await?;
            puts.push(at);
            if is_over(at) {
                return Ok(());
            }
        }
    };
    let killing = async {
        sleep(around).await;
        etcd.members.kill(leader);
        let killed = Instant::now();
        killed_at.set(Some(killed));
        let others = clients.iter().enumerate();
        let mut others = others.filter(|(number, _)| *number != leader).cycle();
        while let Some((_, client)) = others.next()
            && !has_new_leader(client, leads).await
        {
            sleep(LOOK).await;
        }
        *election = killed.elapsed();
        Ok(())
    };
    let together = async { tokio::try_join!(publishing, putting, killing) };
    tokio::time::timeout(LIMIT, together)
        .await
        .map_err(text)??;
    Ok(round)
}

fn ticks() -> tokio::time::Interval {
    let mut ticks = interval(PACE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// Clients of the members, in their order.
async fn clients(etcd: &Etcd) -> Result<Vec<EtcdClient>, String> {
    let endpoints: Endpoints = etcd.urls.parse().map_err(text)?;
    let options = ClientOptions::new(&endpoints, None).map_err(text)?;
    let mut clients = Vec::new();
    for endpoint in endpoints.iter() {
        let client = EtcdClient::connect(endpoint, &options).await;
        clients.push(client.map_err(text)?);
    }
    Ok(clients)
}

/// Whether a member knows a leader that is not the dead one.
async fn has_new_leader(member: &EtcdClient, dead: u64) -> bool {
    let status = member.status().await;
    status.is_ok_and(|status| ![0, dead].contains(&status.leader))
}

/// A client that puts one key, at the next member after a failure.
struct Putter {
    members: Members,
    options: ClientOptions,
    client: Option<EtcdClient>,
}

impl Putter {
    fn new(endpoints: Endpoints, options: ClientOptions) -> Self {
        Self {
            members: Members::new(endpoints, 0),
            options,
            client: None,
        }
    }

    /// Puts the key until that is acknowledged, and returns the time.
    async fn put(&mut self) -> Result<Instant, String> {
        let deadline = Instant::now() + LIMIT;
        loop {
            match self.once().await {
                Ok(()) => return Ok(Instant::now()),
                Err(error) if Instant::now() > deadline => return Err(error),
                Err(_) => {
                    self.client = None;
                    self.members.use_next();
                    sleep(PACE).await;
                }
            }
        }
    }

    async fn once(&mut self) -> Result<(), String> {
        let client = match &self.client {
            Some(client) => client.clone(),
            None => {
                let member = self.members.current();
                EtcdClient::connect(member, &self.options)
                    .await
                    .map_err(text)?
            }
        };
        self.client = Some(client.clone());
        let put = PutRequest {
            key: b"/beside"[..].into(),
            ..PutRequest::default()
        };
        client.put(put).await.map(drop).map_err(text)
    }
}

/// The longest time between two acknowledgements, in milliseconds.
fn longest(times: impl Iterator<Item = Instant> + Clone) -> f64 {
    let pauses = times
        .clone()
        .zip(times.skip(1))
        .map(|(one, next)| next - one);
    pauses
        .max()
        .map_or(f64::NAN, |pause| pause.as_secs_f64() * 1e3)
}

/// Returns the publishes since a revision, in order. Each must follow the one before.
async fn chain(etcd: &Etcd, after: i64) -> Result<Vec<PublishId>, String> {
    let prefix = Prefix::new(PREFIX).map_err(text)?;
    let key = prefix.key(&Key::Head(Segment::lane("main").map_err(text)?));
    let request = RangeRequest {
        key: key.clone(),
        ..RangeRequest::default()
    };
    let answer = etcd.client.range(request).await.map_err(text)?;
    let last = answer.kvs.first().ok_or("no head")?.mod_revision;
    let history = etcd
        .history((key.to_vec(), Vec::new()), after, last)
        .await?;
    let mut chain: Vec<Head> = Vec::new();
    for kv in history {
        let head = Head::decode(&kv.value).map_err(text)?;
        let follows = |last: &Head| head.parent == Some(last.publish) && head.seq == last.seq + 1;
        if !chain.last().is_none_or(follows) {
            return Err(format!("{head:?} does not follow the publish before"));
        }
        chain.push(head);
    }
    Ok(chain.into_iter().map(|head| head.publish).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gb10_pause_is_the_longest_time_between_two() {
        let start = Instant::now();
        let times = [0, 10, 1_510, 1_520].map(|millis| start + Duration::from_millis(millis));
        assert!((longest(times.into_iter()) - 1_500.0).abs() < 1e-6);
        assert!(longest([start].into_iter()).is_nan());
    }
}
