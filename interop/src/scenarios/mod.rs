//! The scenarios, by peer.

mod admin;
mod api;
mod channel;
mod channel_choices;
mod channel_goaway;
mod channel_protocols;
mod channel_v2;
mod clients;
mod csds;
mod differential;
mod envoy;
mod envoy_deprecations;
mod envoy_files;
mod envoy_nacks;
mod envoy_resource_types;
mod envoy_scopes;
mod envoy_transports;
mod etcd;
mod explained;
mod fallback;
mod features;
mod grpc;
mod grpc_server;
mod grpc_v2;
mod loads;
mod mtls;
mod prometheus;
mod rbac;
mod restart;
mod scenario;
mod secured_client;
mod secured_server;
mod sessions;
mod source;
mod status_page;
mod suite;

pub(crate) use scenario::Scenario;
use scenario::{SETTLED, SOON, only_at};

/// All scenarios, in the order in which they run.
pub(crate) fn all() -> Vec<Scenario> {
    [
        api::scenarios(),
        envoy::scenarios(),
        envoy_transports::scenarios(),
        envoy_resource_types::scenarios(),
        envoy_nacks::scenarios(),
        envoy_scopes::scenarios(),
        envoy_deprecations::scenarios(),
        envoy_files::scenarios(),
        grpc::scenarios(),
        grpc_server::scenarios(),
        rbac::scenarios(),
        admin::scenarios(),
        status_page::scenarios(),
        prometheus::scenarios(),
        csds::scenarios(),
        restart::scenarios(),
        source::scenarios(),
        grpc_v2::scenarios(),
        channel::scenarios(),
        channel_choices::scenarios(),
        channel_goaway::scenarios(),
        loads::scenarios(),
        channel_protocols::scenarios(),
        channel_v2::scenarios(),
        features::scenarios(),
        differential::scenarios(),
        explained::scenarios(),
        sessions::scenarios(),
        fallback::scenarios(),
        secured_server::scenarios(),
        secured_client::scenarios(),
        mtls::scenarios(),
        suite::scenarios(),
        etcd::scenarios(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
