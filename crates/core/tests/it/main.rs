//! Scenarios of the machines, named after the items of `docs/conformance-server.md` and
//! `docs/conformance-client.md` that they show.
//!
//! Everything is decoded from the frames that a driver would write, and nothing sleeps: time is counted.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod support;

mod ads;
mod cost;
mod delta;
mod edges;
mod explain;
mod group;
mod lb;
mod limits;
mod lrs;
mod machines;
mod nack;
mod observe;
mod order;
mod pair;
mod poll;
mod preview;
mod rbac;
mod refused;
mod resolve;
mod resource;
mod rollback;
mod rollout;
mod sotw;
mod streams;
mod ttl;
mod versions;
mod xdstp;
