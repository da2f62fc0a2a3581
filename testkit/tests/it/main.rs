//! End to end. `channel_*`: a folder of YAML, a real control plane, real channels, real backends. `client_*`: the
//! client against a scripted control plane. `server_*`: our server and its clients under faults. `source_*`: sources
//! other than ADS. `admin`: the admin services of a process.

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
mod client_authorities;
mod client_credentials;
mod client_csds;
mod client_delta;
mod client_fallback;
mod client_faults;
mod client_lifetime;
mod client_loads;
mod client_log;
mod client_metrics;
mod client_raw;
mod client_reconnect;
mod client_runtime;
mod client_spiffe;
mod client_stream;
mod client_tls;
mod client_versions;
mod client_watchers;
mod scripted;
mod secured;
mod server_restarts;
mod source_file;
mod source_grpc;
mod source_rest;
mod source_rest_tls;
mod support;
