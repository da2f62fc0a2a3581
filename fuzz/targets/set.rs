//! Any bytes as a descriptor set: a tree or an error, never a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use oxds_apicheck::input::tree_of_set;

fuzz_target!(|bytes: &[u8]| {
    let _ = tree_of_set(bytes);
});
