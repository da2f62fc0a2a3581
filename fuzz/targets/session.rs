//! A server session against a model of a client: sequences of changes, delays, breaks, NACKs and lost resources, over
//! SotW and delta, on one stream or one for each type. The properties are those of the tests of `oxds-core`, whose
//! sources these are.
#![no_main]
#![allow(
    dead_code,
    unused_imports,
    clippy::all,
    reason = "tests without their harness"
)]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/core/tests/it/pair/mod.rs"]
mod pair;
#[path = "../../crates/core/tests/it/support/mod.rs"]
mod support;

fuzz_target!(|bytes: &[u8]| pair::fuzz::play_bytes(bytes));
