//! The client machine against the server machine: sequences of changes, watches, breaks and stalls, with wildcards,
//! globs and TTLs. The property is that of the tests of `oxds-core`, whose sources these are.
#![no_main]
#![allow(
    dead_code,
    unused_imports,
    clippy::all,
    reason = "tests without their harness"
)]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/core/tests/it/machines/mod.rs"]
mod machines;
#[path = "../../crates/core/tests/it/support/mod.rs"]
mod support;

fuzz_target!(|bytes: &[u8]| machines::fuzz::play_bytes(bytes));
