//! G-40, GB-11: the history of random publishes under random faults is clean.
//!
//! ```text
//!   FaultDraw ──faults──▶ Conductor ──▶ members, replicas, networks, clocks
//!                                        │
//!   Writers ──publishes──▶ etcd ──▶ replicas ──▶ clients
//!      │ acknowledged        │ heads                │ states
//!      └──────────────▶    Record   ◀──────────── Sight
//! ```
//!
//! A run has rounds. In each, three writers publish to two lanes, by the library and by `oxds publish`, while some
//! faults begin and end, one after the other or at the same time. Then everything heals, and a publish of each lane
//! must be everywhere within 2 s. The check of all heads and of all states that clients have seen follows.
//!
//! `OXDS_PUBLISHES=10000` makes a long run. `OXDS_SEED` repeats the faults and publishes of a run, though not their
//! timing.

mod content;
mod faults;
mod figures;
mod heads;
mod healing;
mod lateness;
mod plan;
mod publish;
mod random;
mod record;
mod run;
mod sight;
#[cfg(test)]
mod tests;
mod world;
mod writers;

use std::time::Duration;

use super::Scenario;
use crate::peers::etcd::Release;
use crate::{Context, Fallible};
use faults::Conductor;
use plan::FaultDraw;
use random::Random;
use run::Shared;
use world::World;
use writers::Writers;

/// Publishes without `OXDS_PUBLISHES`.
const PUBLISHES: usize = 180;
/// Publishes of a round, in a short and in a long run.
const OF_ROUND: [usize; 2] = [60, 200];
/// Faults of a round.
const FAULTS: usize = 6;
/// Time of a run, and of each of its publishes, beyond which it hangs.
const LIMIT: Duration = Duration::from_secs(180);
const LIMIT_OF_PUBLISH: Duration = Duration::from_millis(500);

pub(super) fn scenarios(release: Release) -> Vec<Scenario> {
    let name = |what| format!("etcd_{}_{what}", release.name());
    let run = Scenario::new(name("g40_random_history_is_clean"), move |cx| {
        history(cx, release)
    });
    let publishes = publishes().unwrap_or(PUBLISHES);
    let count = u32::try_from(publishes).unwrap_or(u32::MAX);
    vec![run.with_limit(LIMIT + LIMIT_OF_PUBLISH * count)]
}

fn publishes() -> Fallible<usize> {
    match std::env::var("OXDS_PUBLISHES") {
        Ok(count) => Ok(count
            .parse()
            .map_err(|_| "OXDS_PUBLISHES: expected a number")?),
        Err(_) => Ok(PUBLISHES),
    }
}

fn random() -> Fallible<Random> {
    match std::env::var("OXDS_SEED") {
        Ok(seed) => Ok(Random(
            seed.parse().map_err(|_| "OXDS_SEED: expected a number")?,
        )),
        Err(_) => Ok(Random::of_system()),
    }
}

/// given kills, stops, partitions, compaction, restores and clock steps / when random publishes run / then every
/// acknowledged publish is in the chain once, the states of clients are a subsequence of the chain's, and 2 s after
/// each healing all digests are the head's.
async fn history(cx: Context, release: Release) -> Fallible {
    let publishes = publishes()?;
    let mut random = random()?;
    let seed = random.0;
    let shared = Shared::default();
    let ended = play(&cx, release, &shared, &mut random, publishes).await;
    println!(
        "     history of {} with OXDS_SEED={seed} OXDS_PUBLISHES={publishes}: {}",
        release.version(),
        shared.lock().figures
    );
    ended
}

async fn play(
    cx: &Context,
    release: Release,
    shared: &Shared,
    random: &mut Random,
    publishes: usize,
) -> Fallible {
    let is_long = publishes >= 1_000;
    let of_round = OF_ROUND[usize::from(is_long)];
    let mut deck = FaultDraw::new(random.fork(), release, is_long);
    let world = World::start(cx, release, shared).await?;
    let mut conductor = Conductor {
        writers: Writers::new(cx, world.writers_urls(), shared, random),
        world,
        shared: shared.clone(),
        random: random.fork(),
    };
    conductor.heal().await?;
    let mut left = publishes;
    while left > 0 {
        let count = left.min(of_round);
        left -= count;
        let faults = deck.round(FAULTS);
        let round = shared.lock().figures.rounds;
        let played = conductor.round(count, &faults).await;
        played.map_err(|error| format!("round {round} with {faults:?}: {error}"))?;
        shared.lock().figures.rounds += 1;
    }
    shared.lock().figures.is_worth_its_name(publishes)
}
