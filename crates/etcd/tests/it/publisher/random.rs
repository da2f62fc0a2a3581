//! Random writers under random faults: every acknowledged publish is in the chain once, and the chain is whole (G-8,
//! G-10, G-11).

use std::collections::{BTreeMap, BTreeSet};

use oxds_etcd::PublishId;
use oxds_etcd::publisher::{FailureKind, PublishError, PublishOptions, PublishOutcome, Wanted};
use proptest::prelude::*;

use super::history::{chain, latest, staged_keys};
use super::rig::{Fault, Writer, cluster, folder, lane, limited, publish_limited, stored};
use crate::model::Etcd;

/// An operation of the test.
#[derive(Debug, Clone, Copy)]
enum Operation {
    /// A writer begins; a large publish has values that need a stage.
    Begin {
        is_large: bool,
        name: u8,
        content: u8,
        force: bool,
    },
    /// A writer does its next request.
    Step(u8),
    /// A writer's next request has no effect, and fails.
    Lose(u8),
    /// A writer's next request has its effect, and fails.
    Unknown(u8),
    /// A writer is killed.
    Kill(u8),
    /// All leases end: writers were silent for too long.
    Expire,
}

fn operation() -> impl Strategy<Value = Operation> {
    use Operation::{Begin, Expire, Kill, Lose, Step, Unknown};
    let begin = (any::<bool>(), 0..4u8, 0..4u8, any::<bool>());
    prop_oneof![
        3 => begin.prop_map(|(is_large, name, content, force)| Begin { is_large, name, content, force }),
        20 => any::<u8>().prop_map(Step),
        2 => any::<u8>().prop_map(Lose),
        2 => any::<u8>().prop_map(Unknown),
        1 => any::<u8>().prop_map(Kill),
        1 => Just(Expire),
    ]
}

fn wanted(is_large: bool, name: u8, content: u8) -> Wanted {
    let count = if is_large { 12 } else { 1 };
    let entries = (0..count).map(|at| {
        let entry = cluster(&format!("n{name}-{at}"));
        let content = [&[content][..], &[0; 900]].concat();
        let stored = stored(&entry, &content);
        (entry, Some(stored))
    });
    Wanted::Changes(entries.collect())
}

#[derive(Default)]
struct World {
    etcd: Etcd,
    writers: Vec<(Writer, PublishId)>,
    begun: u128,
    acknowledged: BTreeSet<PublishId>,
    failed: BTreeSet<PublishId>,
}

impl World {
    fn apply(&mut self, operation: Operation) {
        match operation {
            Operation::Begin {
                is_large,
                name,
                content,
                force,
            } => {
                self.begun += 1;
                let options = PublishOptions {
                    force,
                    ..limited(self.begun)
                };
                let id = options.id;
                let writer = Writer::new(options, wanted(is_large, name, content));
                self.writers.push((writer, id));
            }
            Operation::Step(at) => self.step(at, Fault::None),
            Operation::Lose(at) => self.step(at, Fault::Lost(FailureKind::Unknown)),
            Operation::Unknown(at) => self.step(at, Fault::Unknown(FailureKind::Unknown)),
            Operation::Kill(at) => {
                if let Some(at) = usize::from(at).checked_rem(self.writers.len()) {
                    self.writers.remove(at);
                }
            }
            Operation::Expire => self.etcd.expire(),
        }
    }

    fn step(&mut self, at: u8, fault: Fault) {
        let Some(at) = usize::from(at).checked_rem(self.writers.len()) else {
            return;
        };
        let (writer, id) = &mut self.writers[at];
        writer.step(&mut self.etcd, fault);
        let Some(outcome) = writer.outcome() else {
            return;
        };
        match outcome {
            Ok(PublishOutcome::Published { publish, .. }) => self.acknowledged.insert(*publish),
            Ok(_) | Err(PublishError::Conflicts(_)) => self.failed.insert(*id),
            // No promise.
            Err(PublishError::OutcomeUnknown { .. }) => false,
            Err(other) => panic!("{other}"),
        };
        self.writers.remove(at);
    }

    /// Lets all writers end, and checks the history.
    fn check(mut self) {
        while !self.writers.is_empty() {
            self.step(0, Fault::None);
        }
        self.etcd.expire();
        let cleaner = folder([("cleaner", "1")]);
        let cleaner = publish_limited(&mut self.etcd, 1 << 20, cleaner);
        self.acknowledged.insert(match cleaner.success() {
            PublishOutcome::Published { publish, .. } => *publish,
            other => panic!("{other:?}"),
        });
        assert_eq!(staged_keys(&self.etcd), 0);
        let chain = chain(&self.etcd, &lane("main"));
        let mut times: BTreeMap<PublishId, usize> = BTreeMap::new();
        for link in &chain {
            *times.entry(link.publish).or_default() += 1;
        }
        assert!(
            times.values().all(|times| *times == 1),
            "a publish was applied twice"
        );
        for publish in &self.acknowledged {
            assert!(
                times.contains_key(publish),
                "{publish:?} was acknowledged, and is not in the chain"
            );
        }
        for publish in &self.failed {
            assert!(
                !times.contains_key(publish),
                "{publish:?} failed, and is in the chain"
            );
        }
        assert_eq!(
            latest(&self.etcd, &lane("main")).0.seq as usize,
            chain.len()
        );
    }
}

fn run(operations: Vec<Operation>) {
    let mut world = World::default();
    publish_limited(&mut world.etcd, 1 << 30, folder([("first", "1")]));
    for operation in operations {
        world.apply(operation);
    }
    world.check();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn g8_g10_g11_random_writers_keep_the_chain_whole(operations in prop::collection::vec(operation(), 0..150)) {
        run(operations);
    }
}
