//! End to end over several crates. `channel_*`: a folder of YAML, a real control plane, real channels, real backends.
//! `server_*`: our server and its clients under faults. `admin`: the admin services of a process. The tests of the
//! client alone are in `crates/client/tests/`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail by panicking, too"
)]

mod admin;
mod channel_control_plane;
mod channel_failover;
mod channel_loads;
mod channel_traffic;
mod channel_versions;
mod server_restarts;
mod support;
