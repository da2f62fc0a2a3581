//! `XdsServer` over real sockets, with a control plane that the test scripts (gRFC A36; C-238, C-259 – C-261).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests and their helpers fail by panics"
)]

mod chains;
mod client;
mod connections;
mod echo;
mod handshakes;
mod metrics;
mod modes;
mod rbac;
mod rbac_rules;
mod routes;
mod tls;
mod updates;
mod world;
