//! End to end: the client against a scripted control plane, and against our server where its answers matter.
//! `source_*`: sources other than ADS.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail by panicking, too"
)]

mod authorities;
mod credentials;
mod csds;
mod delta;
mod fallback;
mod faults;
mod lifetime;
mod loads;
mod log;
mod metrics;
mod raw;
mod reconnect;
mod runtime;
mod scripted;
mod secured;
mod source_file;
mod source_grpc;
mod source_rest;
mod source_rest_tls;
mod spiffe;
mod stream;
mod tls;
mod versions;
mod watchers;
