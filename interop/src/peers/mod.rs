//! The peers, one module for each: it runs the programs of the peer.

pub(crate) mod admin;
pub(crate) mod channel;
pub(crate) mod clock;
pub(crate) mod control_plane;
pub(crate) mod csds;
pub(crate) mod envoy;
pub(crate) mod etcd;
pub(crate) mod go_backend;
pub(crate) mod grpc;
pub(crate) mod grpc_server;
pub(crate) mod grpc_v2;
pub(crate) mod keys;
pub(crate) mod oxds;
pub(crate) mod replica;
pub(crate) mod rest;
pub(crate) mod service_files;
pub(crate) mod sessions;
pub(crate) mod suite;
pub(crate) mod third_party;
