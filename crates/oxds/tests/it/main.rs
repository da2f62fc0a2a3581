//! The `oxds` binary, run as its users run it: exit codes, messages, signals.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "the helpers of tests fail as tests do; the lint only knows the tests themselves"
)]

mod api;
mod bootstrap;
mod call;
#[cfg(feature = "tls")]
mod client_security;
mod conformance;
mod demo;
mod drain;
mod limits;
mod mistakes;
mod observe;
mod rollout;
#[cfg(feature = "tls")]
mod security;
mod serve;
mod support;
mod terminal;
mod validate;
mod workspace;
