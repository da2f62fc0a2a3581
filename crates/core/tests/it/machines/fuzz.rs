//! Operations made of the bytes of a fuzzer (`fuzz/targets/machines.rs`), and its seeds as tests.

use super::{Op, WHOLE, play};
use crate::support::choices::{Choices, each_seed};

/// Plays the operations that these bytes select.
#[cfg(not(test))]
pub(crate) fn play_bytes(bytes: &[u8]) {
    play(&ops(bytes));
}

fn ops(bytes: &[u8]) -> Vec<Op> {
    Choices(bytes).until_end(60, op)
}

fn op(from: &mut Choices<'_>) -> Op {
    // Four contents, and none twice: as often as in the property.
    let content = |from: &mut Choices<'_>| from.below(5).checked_sub(1);
    match from.below(16) {
        0..=2 => Op::Cluster(from.below(4), content(from)),
        3 | 4 => Op::Assignment(from.below(4), content(from)),
        5..=7 => Op::Watch(from.is(), from.below(WHOLE + 1)),
        8 | 9 => Op::Unwatch(from.is(), from.below(WHOLE + 1)),
        10 => Op::Rewatch(from.is(), from.below(WHOLE + 1), from.is()),
        11 => Op::Pass(from.below(256) as u64),
        12 | 13 => Op::Pass(from.below(20_000) as u64),
        14 => Op::Break,
        _ => Op::Stall,
    }
}

#[test]
fn g_seeds_of_fuzzer_converge() {
    each_seed("machines", ops, |ops| play(&ops));
}
