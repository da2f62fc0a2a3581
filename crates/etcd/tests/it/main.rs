//! Scenarios of `docs/conformance-distributed.md`: the machines for etcd, against a model of it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

#[path = "../../../core/tests/it/support/cases.rs"]
#[allow(dead_code, reason = "shared with the tests of oxds-core")]
mod cases;
mod follower;
mod history;
mod model;
mod model_tests;
mod published;
mod publisher;
mod rollback;
