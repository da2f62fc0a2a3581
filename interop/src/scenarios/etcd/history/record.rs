//! The chain of each lane in the order of its publishes, and the acknowledgements to the writers.
//!
//! It knows nothing of etcd: [`heads`](super::heads) reads the chain, [`writers`](super::writers) begin publishes and
//! get acknowledgements, and [`sight`](super::sight) asks it about the states of clients. So that the check is checked,
//! `tests.rs` gives it histories with faults.

use std::collections::BTreeMap;

use oxds_etcd::{Head, PublishId};

use super::content::{Change, LANES, parse, part, stamp};
use crate::Fallible;
use crate::subscriber::Clusters;

/// A publish in the chain.
#[derive(Debug)]
struct Link {
    publish: PublishId,
    seq: u64,
    state: Clusters,
}

/// The record. Positions in the chain of a lane are in the order in which its heads were published: after a restore,
/// the publishes that were lost keep theirs.
#[derive(Debug, Default)]
pub(super) struct Record {
    begun: BTreeMap<usize, Change>,
    acknowledged: BTreeMap<usize, Option<PublishId>>,
    chains: [Vec<Link>; LANES.len()],
    /// Position of the head that the store has.
    tips: [Option<usize>; LANES.len()],
    /// Position of each publish by its number.
    positions: BTreeMap<usize, usize>,
    /// The store was restored since the last healing: replicas and store may disagree about the seq.
    is_restored: bool,
}

impl Record {
    /// Returns the number of the next publish.
    pub(super) fn next(&self) -> usize {
        self.begun.last_key_value().map_or(1, |(last, _)| last + 1)
    }

    /// Notes a publish before its first request.
    pub(super) fn begin(&mut self, change: Change) {
        self.begun.insert(change.number, change);
    }

    /// Notes that a writer reported the success of its publish, and by which id if it knows.
    pub(super) fn acknowledge(&mut self, number: usize, publish: Option<PublishId>) {
        self.acknowledged.insert(number, publish);
    }

    /// Publish of the head that the store has.
    pub(super) fn tip(&self, lane: usize) -> Option<PublishId> {
        Some(self.tip_link(lane)?.publish)
    }

    fn tip_link(&self, lane: usize) -> Option<&Link> {
        self.chains[lane].get(self.tips[lane]?)
    }

    /// State of a lane at the head that the store has.
    pub(super) fn state(&self, lane: usize) -> Clusters {
        let tip = self.tip_link(lane);
        tip.map(|link| link.state.clone()).unwrap_or_default()
    }

    /// Positions of the heads that the store has.
    pub(super) fn tips(&self) -> [Option<usize>; LANES.len()] {
        self.tips
    }

    pub(super) fn is_restored(&self) -> bool {
        self.is_restored
    }

    /// Adds the head that the store has now. Fails if it is not a valid successor of the head before.
    pub(super) fn publish(&mut self, lane: usize, head: &Head) -> Fallible {
        let name = LANES[lane];
        let (publish, seq) = (head.publish, head.seq);
        if self.position(lane, publish).is_some() {
            return Err(format!("{name}: publish {publish} is in the chain twice").into());
        }
        let tip = self.tip_link(lane);
        let (before, expected) = (
            tip.map(|tip| tip.publish),
            tip.map_or(1, |tip| tip.seq.saturating_add(1)),
        );
        if head.parent != before {
            return Err(format!(
                "{name}: head {seq} has the parent {:?}, and {before:?} was before it",
                head.parent
            )
            .into());
        }
        if seq < expected || (seq > expected && !self.is_restored) {
            return Err(format!("{name}: head {seq} where {expected} was expected").into());
        }
        let number = parse(&head.note).filter(|(of, _)| *of == lane);
        let change = number.and_then(|(_, number)| self.begun.get(&number));
        let Some(change) = change else {
            return Err(format!("{name}: no writer began head {seq}: {:?}", head.note).into());
        };
        let state = change.apply(&self.state(lane));
        let (number, position) = (change.number, self.chains[lane].len());
        if self.positions.insert(number, position).is_some() {
            return Err(format!("{name}: publish {number} was done twice").into());
        }
        self.tips[lane] = Some(position);
        self.chains[lane].push(Link {
            publish,
            seq,
            state,
        });
        Ok(())
    }

    /// Notes that the store went back to this head.
    pub(super) fn restore(&mut self, lane: usize, head: &Head) -> Fallible {
        let position = self.position(lane, head.publish);
        let unknown = || format!("{}: restored to an unknown head {head:?}", LANES[lane]);
        self.tips[lane] = Some(position.ok_or_else(unknown)?);
        self.is_restored = true;
        Ok(())
    }

    /// Notes that all replicas serve the state of the store.
    pub(super) fn heal(&mut self) {
        self.is_restored = false;
    }

    fn position(&self, lane: usize, publish: PublishId) -> Option<usize> {
        let mut chain = self.chains[lane].iter();
        // The latest ones are asked for most.
        chain.rposition(|link| link.publish == publish)
    }

    /// Fails unless each acknowledged publish is in the chain. That none is there twice was checked when it was added.
    pub(super) fn check_acknowledged(&self) -> Fallible {
        for (number, publish) in &self.acknowledged {
            let lane = self.begun.get(number).map_or(0, |change| change.lane);
            let link = self.positions.get(number);
            let link = link.and_then(|position| self.chains[lane].get(*position));
            match (link, publish) {
                (None, _) => {
                    return Err(format!("acknowledged publish {number} was lost").into());
                }
                (Some(link), Some(publish)) if link.publish != *publish => {
                    let other = link.publish;
                    return Err(
                        format!("publish {number} is {other}, acknowledged as {publish}").into(),
                    );
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns the position of a client's state in the chain of a lane. Fails if it is not exactly the state of one
    /// publish; clusters that the publish does not have, and that are in `leftover`, do not count.
    pub(super) fn locate(
        &self,
        lane: usize,
        state: &Clusters,
        leftover: &Clusters,
    ) -> Fallible<usize> {
        let mut part = part(state, lane);
        let stamp = stamp(lane);
        let text = part.get(&stamp).cloned();
        let text = text.ok_or_else(|| format!("no {stamp} among {} clusters", part.len()))?;
        let number = parse(&text).filter(|(of, _)| *of == lane);
        let position = number.and_then(|(_, number)| self.positions.get(&number));
        let position = *position.ok_or_else(|| format!("{text} was never published"))?;
        let link = self.chains[lane].get(position).ok_or("a position")?;
        part.retain(|name, _| link.state.contains_key(name) || !leftover.contains_key(name));
        if link.state == part {
            Ok(position)
        } else {
            Err(format!(
                "not the state of {text}: {}",
                differences(&link.state, &part)
            )
            .into())
        }
    }
}

/// Returns the first differences of a state from the expected one.
fn differences(expected: &Clusters, seen: &Clusters) -> String {
    let names = expected.keys().chain(seen.keys());
    let names: std::collections::BTreeSet<_> = names.collect();
    let differing = names
        .into_iter()
        .filter(|name| expected.get(*name) != seen.get(*name));
    let texts = differing.map(|name| {
        format!(
            "{name} is {:?}, expected {:?}",
            seen.get(name),
            expected.get(name)
        )
    });
    texts.take(4).collect::<Vec<_>>().join("; ")
}
