//! After the faults: how long it takes until all agree (GB-11).

use std::collections::BTreeMap;
use std::time::Duration;

use oxds_etcd::{Head, ServedPublish};
use serde_json::Value;
use tokio::time::Instant;

use super::super::SOON;
use super::super::shared::read;
use super::content::LANES;
use super::lateness::Lateness;
use super::run::Shared;
use super::world::World;
use super::writers::{Writers, fence};
use crate::Fallible;
use crate::subscriber::Clusters;
use crate::wait::until;

/// From the end of the last fault until each member answers, on a busy machine.
const ETCD: Duration = Duration::from_secs(60);
/// From then until each replica follows: at most 30 s between two attempts (G-24), and 5 s for one.
const RETURN: Duration = Duration::from_secs(40);
/// From the publishes that follow until digests and clients agree. The time that the machine is late is added.
const HEAL: Duration = Duration::from_secs(2);

/// Heads of the lanes that a replica serves, as the status page has them.
type Served = BTreeMap<String, (u64, String, String)>;

/// Waits until all faults are repaired and the writers have ended. Then publishes to both lanes, and fails unless all
/// replicas and clients have that within 2 s; checks everything that was seen before.
pub(super) async fn heal(world: &mut World, writers: &mut Writers, shared: &Shared) -> Fallible {
    follow(world, shared).await?;
    writers.end().await?;
    // Before the time counts: it reads hundreds of heads.
    world.heads.walk(shared).await?;
    let urls = world.etcd.urls();
    let mut heads = Vec::new();
    for lane in 0..LANES.len() {
        fence(shared, &urls, lane).await?;
        heads.push(world.heads.latest(lane).await?);
    }
    let (published, lateness) = (Instant::now(), Lateness::measure());
    agree(world, &heads).await?;
    world.heads.walk(shared).await?;
    let expected = {
        let run = shared.lock();
        let states = (0..LANES.len()).map(|lane| run.record.state(lane));
        states.flatten().collect::<Clusters>()
    };
    for client in &world.clients {
        let is_so = |has: &Clusters| *has == expected;
        let has = client.subscriber.has("the heads", SOON, is_so);
        let name = client.sight.name();
        has.await.map_err(|error| format!("{name}: {error}"))?;
    }
    let (took, late) = (published.elapsed(), lateness.sum());
    drop(lateness);
    if took > HEAL + late {
        return Err(format!("healed after {took:?}, on a machine that was {late:?} late").into());
    }
    world.check_clients(shared)?;
    let mut run = shared.lock();
    run.figures.worst_heal = run.figures.worst_heal.max(took);
    let tips = run.record.tips();
    for client in &mut world.clients {
        client.sight.heal(tips);
    }
    run.record.heal();
    run.record.check_acknowledged()
}

/// Waits until each member answers, and each replica follows.
async fn follow(world: &World, shared: &Shared) -> Fallible {
    let ended = Instant::now();
    for member in &world.etcd.members {
        until("an answer of each member", ETCD, async || {
            let client = member.connect(&member.plain()?).await?;
            client.range(read("/none")).await?;
            Ok(Some(()))
        })
        .await?;
    }
    let whole = Instant::now();
    for replica in &world.replicas {
        let follows = |store: &Value| store["connected"] == true;
        replica.shows("it follows", RETURN, follows).await?;
    }
    let figures = &mut shared.lock().figures;
    figures.worst_etcd = figures.worst_etcd.max(whole - ended);
    figures.worst_return = figures.worst_return.max(whole.elapsed());
    Ok(())
}

/// Waits until the digests of all replicas are those of the heads.
async fn agree(world: &World, heads: &[Head]) -> Fallible {
    let expected: Served = LANES
        .iter()
        .zip(heads)
        .map(|(lane, head)| {
            let served = ServedPublish::new(head, head.digest);
            (
                (*lane).to_owned(),
                (served.seq, served.publish, served.digest),
            )
        })
        .collect();
    for replica in &world.replicas {
        let is_so = |store: &Value| served(store) == expected;
        let what = format!("the heads {expected:?}");
        replica.shows(&what, SOON, is_so).await?;
    }
    Ok(())
}

fn served(store: &Value) -> Served {
    let lanes = store["lanes"].as_array().into_iter().flatten();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    lanes
        .filter(|lane| lane["held"] == false && lane["diverged_seconds"] == 0.0)
        .map(|lane| {
            let seq = lane["seq"].as_u64().unwrap_or(0);
            let served = (seq, text(&lane["publish"]), text(&lane["digest"]));
            (text(&lane["lane"]), served)
        })
        .collect()
}
