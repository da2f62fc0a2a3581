//! HTTP/2 connections of clients: sockets, TLS and credentials.
//!
//! **Internal to oxds; no stability is promised.** Its version stays 0.0.x. Use `oxds-client` or `oxds-channel`, which
//! re-export its credentials.
//!
//! ```text
//!   ServerUri ──► resolve ──► socket ──► ChannelCredentials ──► HTTP/2 preface ──► RequestSender
//! ```
//!
//! The xDS client, the channel and the etcd client of the server make their connections here. Nothing here knows their
//! protocols. A connection does not reconnect, and this crate has no pool: its users decide about both.
//!
//! [`rpc`] has the parts of gRPC over HTTP/2 that clients, channels and servers share.
//!
//! Feature `tls` (off by default) adds TLS 1.2 and 1.3 with certificates in files, which are read again for new
//! connections.
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod credentials;
mod http;
pub mod rpc;
mod socket;
pub mod transport;
