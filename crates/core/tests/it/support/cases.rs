//! Number and seed of the cases of a property.
//!
//! Each property runs twice: with a fixed seed, so that luck does not decide whether a change passes, and with a
//! random seed, to find new sequences. The random seed is printed; `OXDS_SEED` repeats it.

use std::env;
use std::fmt::Debug;
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

/// Bytes of a fuzzer as a sequence of choices. After the last byte, each choice is the first one.
pub(crate) struct Choices<'a>(pub(crate) &'a [u8]);

impl Choices<'_> {
    /// Returns the next choice, below `count`; it takes as many bytes as `count` needs.
    pub(crate) fn below(&mut self, count: usize) -> usize {
        let mut number = 0;
        let mut reach = 1;
        while reach < count {
            number = number << 8 | usize::from(self.byte());
            reach <<= 8;
        }
        number % count
    }

    /// Returns `len` choices below `count`.
    pub(crate) fn list(&mut self, len: usize, count: usize) -> Vec<usize> {
        (0..len).map(|_| self.below(count)).collect()
    }

    pub(crate) fn is(&mut self) -> bool {
        self.below(2) == 1
    }

    /// Reads elements until the last byte, at most `most`.
    pub(crate) fn until_end<T>(&mut self, most: usize, read: impl Fn(&mut Self) -> T) -> Vec<T> {
        let mut elements = Vec::new();
        while !self.0.is_empty() && elements.len() < most {
            elements.push(read(self));
        }
        elements
    }

    fn byte(&mut self) -> u8 {
        let Some((byte, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        *byte
    }
}

/// Plays each file of a folder of `fuzz/seeds`, with which the fuzzer of that name begins.
#[expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "the seeds are files; if the test fails, the output shows the operations of the last one"
)]
pub(crate) fn each_seed<T: Debug>(
    target: &str,
    read: impl Fn(&[u8]) -> T,
    mut play: impl FnMut(T),
) {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/");
    let seeds = std::fs::read_dir(format!("{folder}{target}")).expect("a folder of seeds");
    let mut count = 0;
    for seed in seeds {
        let path = seed.expect("a seed").path();
        let read = read(&std::fs::read(&path).expect("a readable seed"));
        println!("{}: {read:?}", path.display());
        play(read);
        count += 1;
    }
    assert!(count > 0, "no seeds for {target}");
}

/// Number of publishes of a random history: that of `OXDS_PUBLISHES`, or 300.
pub(crate) fn publishes() -> usize {
    let publishes = variable("OXDS_PUBLISHES");
    publishes.map_or(300, |count| {
        count.parse().expect("OXDS_PUBLISHES is a number")
    })
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
    println!("to repeat: OXDS_SEED={seed} cargo test -p oxds-core --test it");
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
        "to repeat: OXDS_SEED={seed} PROPTEST_CASES={cases} cargo test -p oxds-core --test it"
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
fn variable(name: &str) -> Option<String> {
    env::var(name).ok()
}
