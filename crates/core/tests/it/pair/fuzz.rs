//! Operations made of the bytes of a fuzzer (`fuzz/targets/session.rs`), and its seeds as tests.

use oxds_core::snapshot::Protocol;

use super::{Edited, NAMES, Op, converges, converges_with_envoy, for_envoy, keeps_order};
use crate::support::{
    choices::{Choices, each_seed},
    model::{Style, TYPES},
};

/// Property, with its parameters.
#[derive(Debug)]
enum Property {
    Converges(Style, Protocol, bool, bool),
    KeepsOrder(Protocol),
    ConvergesWithEnvoy(Protocol, bool),
}

/// Plays the operations that these bytes select, after the property.
#[cfg(not(test))]
pub(crate) fn play_bytes(bytes: &[u8]) {
    play(read(bytes));
}

fn read(bytes: &[u8]) -> (Property, Vec<Op>) {
    let from = &mut Choices(bytes);
    let protocol = if from.is() {
        Protocol::Sotw
    } else {
        Protocol::Delta
    };
    let style = [Style::Envoy, Style::ByName][from.below(2)];
    let property = match from.below(4) {
        0 | 1 => Property::Converges(style, protocol, from.is(), from.is()),
        2 => Property::KeepsOrder(protocol),
        _ => Property::ConvergesWithEnvoy(protocol, from.is()),
    };
    let gentle = matches!(property, Property::KeepsOrder(_));
    let ops = from.until_end(60, |from| op(from, gentle));
    (property, ops)
}

fn play((property, ops): (Property, Vec<Op>)) {
    match property {
        Property::Converges(style, protocol, aggregated, tight) => {
            converges(style, protocol, aggregated, tight, &ops);
        }
        Property::KeepsOrder(protocol) => keeps_order(protocol, &ops),
        Property::ConvergesWithEnvoy(protocol, aggregated) => {
            converges_with_envoy(protocol, aggregated, &for_envoy(ops));
        }
    }
}

fn op(from: &mut Choices<'_>, gentle: bool) -> Op {
    match from.below(16) {
        0..=4 => {
            let count = 1 + from.below(5);
            Op::Change((0..count).map(|_| edited(from)).collect())
        }
        5 | 6 => Op::Pass(from.below(200) as u64),
        7 | 8 if gentle => Op::Pass(from.below(200) as u64),
        7 | 8 => Op::Pass(from.below(20_000) as u64),
        9 | 10 => {
            let delays = from.list(4, 80);
            Op::Reconnect(delays.into_iter().map(|ms| ms as u64).collect())
        }
        11 => Op::Disconnect,
        12 => Op::Want(from.below(NAMES)),
        13 => Op::AskAgain(from.below(TYPES.len())),
        14 => Op::Eager,
        _ if gentle => Op::Want(from.below(NAMES)),
        _ => Op::Stall,
    }
}

fn edited(from: &mut Choices<'_>) -> Edited {
    let resource_type = from.below(TYPES.len());
    let name = from.below(NAMES);
    let content = match from.below(8) {
        0 => None,
        7 => Some(9),
        n => Some((n % 4) as u8),
    };
    let needs = from.below(1 << NAMES);
    let mut needs = (0..NAMES).filter(|n| needs >> n & 1 == 1);
    Edited {
        resource_type,
        name,
        content,
        needs: needs.by_ref().take(2).collect(),
        secret: needs.next(),
    }
}

#[test]
fn g_seeds_of_fuzzer_converge() {
    each_seed("session", read, play);
}
