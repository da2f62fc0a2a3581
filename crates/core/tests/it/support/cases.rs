//! Number and seed of the cases of a property.
//!
//! Each property runs twice: with a fixed seed, so that luck does not decide whether a change passes, and with a
//! random seed, to find new sequences. The random seed is printed; `OXDS_SEED` repeats it.

use std::env;
use std::hash::{BuildHasher, Hasher};

use proptest::test_runner::{Config, RngSeed};

/// Number of cases with a random seed, unless `PROPTEST_CASES` says otherwise.
const RANDOM_CASES: u32 = 32;

/// 256 cases with a fixed seed; with `PROPTEST_CASES`, that many with a random seed.
pub(crate) fn cases() -> Config {
    match variable("PROPTEST_CASES") {
        None => fixed_cases(),
        Some(_) => random_cases(),
    }
}

/// 256 cases with a fixed seed.
pub(crate) fn fixed_cases() -> Config {
    Config {
        cases: 256,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(0x0d5),
        ..Config::default()
    }
}

/// Returns the seed of `OXDS_SEED`, or else one of the operating system, and prints it.
#[expect(
    clippy::disallowed_types,
    clippy::print_stdout,
    reason = "a random seed is the purpose; the output shows how to repeat it"
)]
pub(crate) fn seed() -> u64 {
    let seed = variable("OXDS_SEED").map_or_else(
        || {
            std::collections::hash_map::RandomState::new()
                .build_hasher()
                .finish()
        },
        |seed| seed.parse().expect("OXDS_SEED is a number"),
    );
    println!(
        "to repeat: OXDS_SEED={seed} cargo test -p {} --test it",
        env!("CARGO_PKG_NAME")
    );
    seed
}

#[expect(
    clippy::print_stdout,
    reason = "the output shows how to repeat the run"
)]
/// Cases with the seed of [`seed`], as many as `PROPTEST_CASES`.
pub(crate) fn random_cases() -> Config {
    let seed = seed();
    let cases = variable("PROPTEST_CASES").map_or(RANDOM_CASES, |cases| {
        cases.parse().expect("PROPTEST_CASES is a number")
    });
    println!(
        "to repeat: OXDS_SEED={seed} PROPTEST_CASES={cases} cargo test -p {} --test it",
        env!("CARGO_PKG_NAME")
    );
    Config {
        cases,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(seed),
        ..Config::default()
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "tests read what proptest itself reads"
)]
pub(crate) fn variable(name: &str) -> Option<String> {
    env::var(name).ok()
}
