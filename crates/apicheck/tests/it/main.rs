//! Behaviours of `oxds-apicheck` by subject. Test names start with the numbers of
//! `docs/conformance-versioning.md`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod breaking;
mod bump;
mod cases;
mod clock;
mod compare;
mod docs;
mod edition;
mod exempt;
mod generate;
mod hash;
mod input;
mod limits;
mod lint;
mod parse;
mod print;
mod promote;
mod properties;
mod protoc;
mod report;
mod support;
mod validation;
