//! End to end: a folder of YAML, a real control plane, real channels, real backends.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests fail by panicking, too"
)]

mod channel_control_plane;
mod channel_failover;
mod channel_traffic;
mod support;
