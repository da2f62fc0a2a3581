//! Tests of channels over real sockets, configured by a script instead of a control plane.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests and their helpers fail by panics"
)]

mod breaker;
mod deadline;
mod dns;
mod examples;
mod failover;
mod filters;
mod foreign;
mod goaway;
mod hash;
mod http2;
mod lifetime;
mod outlier;
mod policies;
mod raw;
mod retry;
mod routing;
mod support;
mod tonic_client;
mod traffic;
mod wait_for_ready;
