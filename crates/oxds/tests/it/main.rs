//! Tests that run the `oxds` binary: exit codes, messages, signals.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "test helpers fail by panics; the lint exempts only test functions"
)]

mod api;
mod bootstrap;
mod call;
#[cfg(feature = "tls")]
mod client_security;
mod demo;
mod diff;
mod drain;
mod faces;
mod hostile_files;
mod lifecycle;
mod limits;
mod logging;
mod mistakes;
mod observe;
mod output;
mod plan;
#[cfg(feature = "etcd")]
mod publish;
mod rollout;
mod route;
mod runtime;
#[cfg(feature = "tls")]
mod security;
mod serve;
mod serve_etcd;
mod shop;
mod state;
mod support;
mod terminal;
mod validate;
mod wait;
