//! Any bytes as a proto file: a tree, or errors with places, never a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use oxds_apicheck::model::Tree;
use oxds_apicheck::parse::Text;

fuzz_target!(|bytes: &[u8]| {
    let text = Text::new("a.proto", bytes.to_vec());
    if let Err(mistakes) = Tree::read(&[text]) {
        assert!(!mistakes.is_empty());
        for mistake in mistakes {
            assert!(!mistake.to_string().is_empty());
        }
    }
});
