//! Choices of a fuzzer, and the seeds with which it begins.

use std::fmt::Debug;

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
