//! Any interleaving of publishes, NACKs, deliveries, writes, starts and deaths. [`World`] checks each decision when it
//! takes effect.

use proptest::prelude::*;

use super::world::{Clients, World};
use crate::cases::{fixed_cases, random_cases};

/// One operation. The first number selects a replica.
#[derive(Debug, Clone)]
enum Op {
    Publish(usize),
    Nack(usize),
    Deliver(usize),
    Handle(usize),
    Write(usize, bool),
    Start(Clients),
    Kill(usize),
    SetClients(usize, Clients),
    Pass(u64),
}

fn clients() -> impl Strategy<Value = Clients> {
    prop_oneof![
        6 => Just(Clients::Accepting),
        2 => Just(Clients::Absent),
        1 => Just(Clients::Lacking),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let one = || 0..4usize;
    prop_oneof![
        3 => (0..4usize).prop_map(Op::Publish),
        6 => one().prop_map(Op::Nack),
        12 => one().prop_map(Op::Deliver),
        12 => one().prop_map(Op::Handle),
        10 => (one(), prop::bool::weighted(0.1)).prop_map(|(of, is_lost)| Op::Write(of, is_lost)),
        1 => clients().prop_map(Op::Start),
        1 => one().prop_map(Op::Kill),
        1 => (one(), clients()).prop_map(|(of, clients)| Op::SetClients(of, clients)),
        4 => prop_oneof![1..100u64, 400..3000u64].prop_map(Op::Pass),
    ]
}

fn play(ops: Vec<Op>) {
    let mut world = World::new(1);
    for _ in 0..3 {
        world.start(Clients::Accepting);
    }
    for op in ops {
        let numbers: Vec<_> = world.replicas.keys().copied().collect();
        let of = |one: usize| numbers.get(one % numbers.len().max(1)).copied();
        match op {
            Op::Publish(content) => world.publish(&content.to_string()),
            Op::Nack(one) => of(one).into_iter().for_each(|one| world.nack(one)),
            Op::Deliver(one) => of(one).into_iter().for_each(|one| {
                world.deliver(one);
            }),
            Op::Handle(one) => of(one).into_iter().for_each(|one| world.handle(one)),
            Op::Write(one, is_lost) => {
                of(one)
                    .into_iter()
                    .for_each(|one| world.write(one, is_lost));
            }
            Op::Start(clients) if numbers.len() < 5 => {
                world.start(clients);
            }
            Op::Kill(one) if numbers.len() > 1 => {
                of(one).into_iter().for_each(|one| world.kill(one));
            }
            Op::SetClients(one, clients) => {
                of(one)
                    .into_iter()
                    .for_each(|one| world.set_clients(one, clients));
            }
            Op::Pass(milliseconds) => world.pass(milliseconds),
            Op::Start(_) | Op::Kill(_) => {}
        }
    }
    // Once everything is delivered, all replicas serve the same, and no machine goes on writing.
    for _ in 0..4 {
        world.quiet();
        world.pass(600);
    }
    world.quiet();
    let served = world.served();
    assert!(
        served.windows(2).all(|pair| pair[0] == pair[1]),
        "{served:?}"
    );
}

proptest! {
    #![proptest_config(fixed_cases())]
    #[test]
    fn g38_any_interleaving_has_at_most_one_decision(ops in prop::collection::vec(op(), 0..120)) {
        play(ops);
    }
}

proptest! {
    #![proptest_config(random_cases())]
    #[test]
    fn g38_random_interleaving_has_at_most_one_decision(ops in prop::collection::vec(op(), 0..200)) {
        play(ops);
    }
}
