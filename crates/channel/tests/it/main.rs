//! Tests of channels over real sockets, configured by a script instead of a control plane.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests and their helpers fail by panics"
)]

mod aggregate;
mod authority;
mod breaker;
mod deadline;
mod dns;
mod dropped_cluster;
mod examples;
mod failover;
mod filters;
mod goaway;
mod hash;
mod http2;
mod lifetime;
mod metrics;
mod metrics_cost;
mod non_grpc;
mod outlier;
mod policies;
mod priorities;
mod raw;
mod reports;
mod retry;
mod routing;
mod sessions;
mod support;
mod tls;
mod tls_names;
mod tls_rotation;
mod tls_support;
mod tonic_client;
mod traffic;
mod wait_for_ready;
