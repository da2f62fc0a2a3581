//! Random publishes under random faults.
//!
//! The properties: the served state is always the union of published states; no lane goes back to an earlier seq; a
//! replica that is ready stays so; and once the store heals, the last publishes are served.

use std::time::Duration;

use proptest::prelude::*;

use super::cluster::{FAULTS, Fault, Member};
use super::world::World;
use super::writer::Writer;
use crate::cases::{fixed_cases, random_cases};
use crate::model::Etcd;

const LANES: [&str; 2] = ["main", "canary"];
/// Entries of each lane. The last one is in both at times.
const NAMES: [[&str; 6]; 2] = [
    ["a", "b", "c", "edge:", "edge:a", "shared"],
    ["d", "e", "f", "core:", "edge:b", "shared"],
];

/// One operation. Numbers select a lane, a name, a content, a member.
#[derive(Debug, Clone)]
pub(super) enum Op {
    Publish(usize, Vec<Edit>),
    Stage(usize, Vec<Edit>),
    /// Moves one staged key.
    Move(usize),
    /// Changes a key without a publish.
    Tamper(usize, Edit),
    Fault(Fault),
    /// Responses have at most so many events.
    Fragment(Option<usize>),
    /// The connection breaks.
    Disconnect,
    /// The state of a member: up, down, silent, alone, denied, or stale from now on.
    Member(usize, usize),
    Compact,
    Backup,
    /// The last backup is restored, with the same or another cluster id.
    Restore(bool),
    /// The process restarts, with or without its saved state.
    Restart(bool),
    /// The store stops or begins to poll events.
    Busy,
    /// Milliseconds.
    Pass(u64),
}

/// Name and content; `None` removes the entry.
pub(super) type Edit = (usize, Option<usize>);

fn edit() -> impl Strategy<Value = Edit> {
    let content = prop_oneof![1 => Just(None), 3 => (0..3usize).prop_map(Some)];
    let name = prop_oneof![12 => 0..5usize, 1 => Just(5)];
    (name, content)
}

fn op() -> impl Strategy<Value = Op> {
    let lane = || 0..LANES.len();
    let edits = || prop::collection::vec(edit(), 1..5);
    prop_oneof![
        8 => (lane(), edits()).prop_map(|(lane, edits)| Op::Publish(lane, edits)),
        3 => (lane(), edits()).prop_map(|(lane, edits)| Op::Stage(lane, edits)),
        4 => lane().prop_map(Op::Move),
        1 => (lane(), edit()).prop_map(|(lane, edit)| Op::Tamper(lane, edit)),
        4 => prop::sample::select(&FAULTS[..]).prop_map(Op::Fault),
        1 => prop::option::of(1..3usize).prop_map(Op::Fragment),
        3 => Just(Op::Disconnect),
        4 => (0..3usize, 0..6usize).prop_map(|(member, state)| Op::Member(member, state)),
        2 => Just(Op::Compact),
        1 => Just(Op::Backup),
        1 => prop::bool::ANY.prop_map(Op::Restore),
        1 => prop::bool::ANY.prop_map(Op::Restart),
        1 => Just(Op::Busy),
        6 => prop_oneof![0..50u64, 0..20_000u64].prop_map(Op::Pass),
    ]
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    prop::collection::vec(op(), 1..40)
}

/// The world, and the last backup.
struct Play {
    world: World,
    backup: Option<(Etcd, Vec<Writer>)>,
    clusters: u64,
}

/// Plays the operations, heals the store, and checks that the follower has the last publishes.
pub(super) fn play(ops: &[Op]) {
    let mut play = Play {
        world: World::new(),
        backup: None,
        clusters: 1,
    };
    play.world.pass(Duration::ZERO);
    for op in ops {
        let was_ready = play.world.follower.is_ready();
        play.step(op);
        if !matches!(op, Op::Pass(_)) {
            play.world.pass(Duration::ZERO);
        }
        let is_new = matches!(op, Op::Restart(_));
        assert!(
            is_new || !was_ready || play.world.follower.is_ready(),
            "{op:?}: it was ready"
        );
    }
    play.heal();
}

impl Play {
    fn step(&mut self, op: &Op) {
        let world = &mut self.world;
        match op {
            Op::Publish(lane, edits) => world.write(LANES[*lane], |writer, etcd| {
                writer.finish(etcd);
                writer.publish(etcd, &distinct(*lane, edits));
            }),
            Op::Stage(lane, edits) => world.write(LANES[*lane], |writer, etcd| {
                writer.finish(etcd);
                writer.stage(etcd, &distinct(*lane, edits));
            }),
            Op::Move(lane) => drop(world.write(LANES[*lane], Writer::move_one)),
            Op::Tamper(lane, (name, content)) => world.write(LANES[*lane], |writer, etcd| {
                writer.tamper(etcd, NAMES[*lane][*name], *content);
            }),
            Op::Fault(fault) => world.fault = Some(*fault),
            Op::Fragment(size) => world.fragment = *size,
            Op::Disconnect => world.disconnect(),
            Op::Member(number, state) => {
                let member = match state {
                    0 => Member::Down,
                    1 => Member::Silent,
                    2 => Member::Alone,
                    3 => Member::Denied,
                    4 => Member::Stale(Box::new(world.etcd.clone())),
                    _ => Member::Up,
                };
                world.set_member(*number, member);
            }
            Op::Compact => {
                let revision = world.etcd.revision();
                world.etcd.compact(revision);
            }
            Op::Backup => {
                let writers = world.writers.values().cloned().collect();
                self.backup = Some((world.etcd.clone(), writers));
            }
            Op::Restore(is_other) => self.restore(*is_other),
            Op::Restart(is_saved) => world.restart(*is_saved),
            Op::Busy => world.is_busy = !world.is_busy,
            Op::Pass(ms) => world.pass(Duration::from_millis(*ms)),
        }
    }

    fn restore(&mut self, is_other: bool) {
        let Some((etcd, writers)) = &self.backup else {
            return;
        };
        let world = &mut self.world;
        world.etcd = etcd.clone();
        if is_other {
            self.clusters += 1;
            world.etcd.set_cluster(self.clusters);
        }
        for lane in LANES {
            let before = writers.iter().find(|writer| &*writer.lane == lane);
            let before = before.cloned().unwrap_or_else(|| Writer::new(lane));
            world.writer(lane).rewind(&before);
        }
        // The members start again.
        (0..3).for_each(|member| world.set_member(member, Member::Up));
        world.disconnect();
    }

    fn heal(&mut self) {
        let world = &mut self.world;
        (0..3).for_each(|member| world.set_member(member, Member::Up));
        (world.fault, world.fragment, world.is_busy) = (None, None, false);
        for lane in LANES {
            world.write(lane, |writer, etcd| {
                writer.finish(etcd);
                // Only one lane keeps the name that both may have.
                let gone: &[_] = if lane == "canary" {
                    &[("shared", None)]
                } else {
                    &[]
                };
                writer.repair(etcd, gone);
            });
        }
        world.pass_seconds(60);
        world.check_current();
        assert!(world.findings.is_empty(), "{:?}", world.finding_texts());
        assert!(world.follower.is_ready() && world.follower.status(world.now).is_connected);
        // The watch works, too.
        world.publish(&[("last", Some(1))]);
        world.drive();
        world.check_current();
    }
}

/// The last edit of each name: a publish changes no key twice.
fn distinct(lane: usize, edits: &[Edit]) -> Vec<(&'static str, Option<usize>)> {
    let edits: std::collections::BTreeMap<_, _> = edits.iter().copied().collect();
    edits
        .into_iter()
        .map(|(name, content)| (NAMES[lane][name], content))
        .collect()
}

proptest! {
    #![proptest_config(fixed_cases())]

    #[test]
    fn g21_only_published_states_are_served(ops in ops()) {
        play(&ops);
    }
}

proptest! {
    #![proptest_config(random_cases())]

    #[test]
    fn g21_only_published_states_are_served_random_seed(ops in ops()) {
        play(&ops);
    }
}
