//! Tests of channels over real sockets, configured by a script instead of a control plane.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests and their helpers fail by panics"
)]

mod deadline;
mod failover;
mod lifetime;
mod routing;
mod support;
mod tonic_client;
mod traffic;
