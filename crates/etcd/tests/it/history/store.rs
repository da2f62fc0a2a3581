//! The store, its writers, and the chain of each lane as it came to be.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use oxds_core::time::Instant;
use oxds_etcd::publisher::{FailureKind, PublishOptions, PublishOutcome, Wanted};
use oxds_etcd::{Head, PublishId, Segment};

use super::random::Random;
use crate::model::Etcd;
use crate::publisher::{history, rig};
use rig::{Fault, State, Writer, cluster, lane, limited, stored};

pub(super) const LANES: [&str; 2] = ["main", "canary"];
/// Writers at a time.
const WRITERS: usize = 3;

/// Content of a lane at one publish.
pub(super) struct Link {
    pub(super) publish: PublishId,
    pub(super) state: State,
}

/// The store.
pub(super) struct Store {
    pub(super) etcd: Etcd,
    pub(super) now: Instant,
    /// Number of publishes that writers have begun.
    pub(super) begun: usize,
    writers: Vec<(usize, PublishId, Writer)>,
    backup: Etcd,
    /// All heads of each lane, in the order in which they were published.
    chains: [Vec<Link>; 2],
    acknowledged: BTreeMap<PublishId, usize>,
    /// Requests that the writers are cut off for, and whether these reach the store without an answer.
    cut: Option<(usize, bool)>,
}

impl Default for Store {
    fn default() -> Self {
        let etcd = Etcd::default();
        Self {
            backup: etcd.clone(),
            etcd,
            now: Instant::EPOCH,
            begun: 0,
            writers: Vec::new(),
            chains: [Vec::new(), Vec::new()],
            acknowledged: BTreeMap::new(),
            cut: None,
        }
    }
}

impl Store {
    /// Does one thing: a writer begins, does a request, or dies; a lease ends; time passes; the store is compacted or
    /// backed up.
    pub(super) fn step(&mut self, random: &mut Random) {
        self.now += Duration::from_millis(random.below(200) as u64);
        if self.writers.len() < WRITERS && random.one_in(3) {
            self.begin(random);
        }
        match random.below(200) {
            0 => self.etcd.expire(),
            4 => self.cut = Some((1 + random.below(20), random.one_in(2))),
            1 => {
                let keep = random.below(30) as i64;
                let revision = (self.etcd.revision() - keep).max(self.etcd.compacted());
                self.etcd.compact(revision);
            }
            2 => self.backup = self.etcd.clone(),
            3 if !self.writers.is_empty() => {
                let killed = random.below(self.writers.len());
                drop(self.writers.swap_remove(killed));
            }
            _ => self.write(random),
        }
    }

    fn begin(&mut self, random: &mut Random) {
        self.begun += 1;
        let id = (self.begun as u128) << 64;
        let of = random.below(LANES.len());
        let is_large = random.one_in(8);
        let (count, bytes) = if is_large {
            (12, 900)
        } else {
            (1 + random.below(3), 8)
        };
        let at = random.below(1 << 40) as u64;
        let entries = (0..count).map(|_| {
            // Names of one lane only: a name in two lanes is an error (G-6).
            let entry = cluster(&format!("{}{}", LANES[of], random.below(20)));
            let is_removal = random.one_in(4);
            let content = [&[random.below(250) as u8][..], &vec![0; bytes]].concat();
            let value = (!is_removal).then(|| stored(&entry, &content));
            (entry, value)
        });
        let options = PublishOptions {
            lane: lane(LANES[of]),
            force: true,
            accept_restored: true,
            // The wall clock of a writer steps back and forth.
            at,
            ..limited(self.begun as u128)
        };
        let writer = Writer::new(options, Wanted::Changes(entries.collect()));
        self.writers.push((of, PublishId(id), writer));
    }

    /// A writer does its next request.
    fn write(&mut self, random: &mut Random) {
        if self.writers.is_empty() {
            return;
        }
        let at = random.below(self.writers.len());
        let cut = self.cut.take();
        self.cut = cut.and_then(|(requests, answers)| Some((requests.checked_sub(1)?, answers)));
        let fault = match random.below(30) {
            _ if cut.is_some_and(|(_, answers)| answers) => Fault::Unknown(FailureKind::Unknown),
            _ if cut.is_some() => Fault::Lost(FailureKind::Unknown),
            0 => Fault::Lost(FailureKind::Unknown),
            1 => Fault::Unknown(FailureKind::Unknown),
            _ => Fault::None,
        };
        let (_, _, writer) = &mut self.writers[at];
        let goes_on = writer.step(&mut self.etcd, fault);
        self.record();
        if !goes_on {
            let (of, _, writer) = self.writers.swap_remove(at);
            if let Some(Ok(PublishOutcome::Published { publish, .. })) = writer.outcome() {
                self.acknowledged.insert(*publish, of);
            }
        }
    }

    /// Adds a new head of a lane to its chain.
    fn record(&mut self) {
        for (of, name) in LANES.into_iter().enumerate() {
            let Some((head, state)) =
                history::served(&self.etcd, &lane(name), self.etcd.revision())
            else {
                continue;
            };
            let known = self.position(of, &head);
            match known {
                Some(known) => assert!(
                    self.chains[of][known].state == state,
                    "the state of {name} changed without a publish"
                ),
                None => self.chains[of].push(Link {
                    publish: head.publish,
                    state,
                }),
            }
        }
    }

    /// Returns the place of a head in the chain of its lane.
    pub(super) fn position(&self, of: usize, head: &Head) -> Option<usize> {
        let mut chain = self.chains[of].iter();
        // The latest ones are asked for most.
        chain.rposition(|link| link.publish == head.publish)
    }

    pub(super) fn state(&self, of: usize, at: usize) -> &State {
        &self.chains[of][at].state
    }

    /// The last backup replaces the store. Writers are killed. `bumps`: as by `etcdutl snapshot restore --bump-revision
    /// --mark-compacted`, revisions go on after the present one, and those before are compacted.
    pub(super) fn restore(&mut self, bumps: bool) {
        self.writers.clear();
        let revision = self.etcd.revision();
        self.etcd = self.backup.clone();
        while bumps && self.etcd.revision() <= revision {
            self.etcd.put("/other", "bumped");
        }
        if bumps {
            self.etcd.compact(self.etcd.revision());
        }
        // Each backup is restored once: its history must not branch twice at the same revisions.
        self.etcd.put("/other", "restored");
        self.backup = self.etcd.clone();
    }

    /// All writers end; one more publish of each lane is later than what any replica serves.
    pub(super) fn finish(&mut self) {
        self.writers.clear();
        self.etcd.expire();
        for name in LANES {
            self.begun += 1;
            let options = PublishOptions {
                lane: lane(name),
                force: true,
                accept_restored: true,
                ..limited(self.begun as u128)
            };
            let entry = cluster(&format!("{name}-last"));
            let value = stored(&entry, b"last");
            let wanted = Wanted::Changes([(entry, Some(value))].into());
            let writer = Writer::new(options, wanted).run(&mut self.etcd);
            writer.success();
            self.record();
        }
    }

    /// Returns the heads of all lanes.
    pub(super) fn heads(&self) -> BTreeMap<Segment, PublishId> {
        let heads = LANES.into_iter().filter_map(|name| {
            let (head, _) = history::served(&self.etcd, &lane(name), self.etcd.revision())?;
            Some((lane(name), head.publish))
        });
        heads.collect()
    }

    /// Each acknowledged publish is in the chain of its lane, once.
    pub(super) fn check_acknowledged(&self) {
        let mut all = BTreeSet::new();
        for link in self.chains.iter().flatten() {
            assert!(all.insert(link.publish), "{} is there twice", link.publish);
        }
        for (publish, of) in &self.acknowledged {
            let mut chain = self.chains[*of].iter();
            assert!(
                chain.any(|link| link.publish == *publish),
                "{publish} was lost"
            );
        }
        // The run must be worth its name.
        assert!(
            self.acknowledged.len() > self.begun / 4,
            "{}",
            self.acknowledged.len()
        );
    }
}
