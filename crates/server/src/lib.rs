//! An xDS management server, as a library.
//!
//! ```text
//!  your program ──typed messages──┐            ┌─ groups of nodes ─┐
//!                                 ├─▶ Cache ───┤                   ├──▶ a session per stream ──▶ Envoy, gRPC clients
//!  Store: a folder, your own ─────┘            └─ all nodes ───────┘        │        ▲
//!                                                                           │        └── Hooks: your program again
//!                                          /metrics, /status.json, CSDS ◀───┘
//! ```
//!
//! It serves ADS and the services of single kinds, SotW and delta, `Fetch` and REST, under v2 and v3 names, with LRS, CSDS,
//! health and reflection beside, and says on an HTTP port what it serves, to whom, and what clients rejected. The
//! protocol itself is `oxds_core::session`; this crate moves bytes, wakes whom a change concerns and keeps the time.
//!
//! ```
//! use envoy_types::pb::envoy::config::cluster::v3::Cluster;
//! use oxds_server::{Cache, ChangeSet, Resource, Server};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let cache = Cache::new();
//! let server = Server::builder()
//!     .grpc("127.0.0.1:0".parse()?)
//!     .cache(cache.clone())
//!     .bind()
//!     .await?;
//! println!("serving ADS on {}", server.grpc_addr());
//!
//! // At any time, from any thread: checked, encoded once, and sent to those whom it concerns.
//! let blue = Cluster { name: "blue".into(), ..Cluster::default() };
//! cache.apply(ChangeSet::default().put(Resource::of(&blue)?));
//!
//! # let stop = async {};
//! server.run(stop).await;
//! # Ok(())
//! # }
//! ```
//!
//! | to | there is |
//! |---|---|
//! | change some resources, or hand over all of them | [`Cache::apply`], [`Cache::replace`], [`Cache::replace_kind`] |
//! | serve other resources to some nodes | [`Cache::replace_group`], [`Cache::update`] |
//! | serve a folder, and follow it | [`DirStore`] with [`Builder::store`] |
//! | follow a source of your own | the trait [`Store`] |
//! | see what clients do, refuse it, prepare what they are to see | [`Hooks`] and [`Observer`], with [`Builder::hooks`] |
//! | tell clients apart by certificates | [`Security`] |
//! | read the loads that clients report | [`LoadReports`] |
//! | serve kinds of one's own | [`Resource::own`], [`Builder::kind`] |
//!
//! Who comes from go-control-plane finds its parts here in `docs/server-library.md`. Whole programs are in `examples/`.
//!
//! It is not a proxy. Who its clients are it knows by certificates and by hooks only: use them, or bind it where only
//! they can reach it.
//!
//! A program needs no other crate of oxds: what the signatures are made of is re-exported, the messages of the API
//! ([`envoy_types`]) too. Of other crates the interface has `tonic`'s [`Status`] and [`Code`], and `http`'s `HeaderMap` in
//! [`Call`]; a major version of one of these is one of this crate.
//!
//! Features: `tls` (off by default) brings rustls, and with it certificates on the gRPC port.

mod admin;
mod cache;
mod csds;
mod discovery;
mod files;
mod hooks;
mod load;
mod metrics;
mod not_representable;
mod rollback;
mod security;
mod server;
pub mod store;

pub use cache::Cache;
pub use files::FileSink;
pub use hooks::{Call, HookFuture, Hooks, Nack, Observer, SentResponse};
pub use load::{ClusterLoad, Counts, LoadReports, LocalityLoad, Metric};
pub use rollback::OnNack;
#[cfg(feature = "tls")]
pub use security::TlsFiles;
pub use security::{Security, SecurityError};
pub use server::{BindError, Builder, Limits, Server};
pub use store::dir::{self, DirStore};
pub use store::{Demand, Finding, Origin, Severity, Store, Update, Wanted};
pub use tonic::{Code, Status};

// What the signatures above are made of: a program needs no other crate of oxds.
pub use envoy_types;
pub use oxds_core::group::{Definition, GroupUpdate, Membership, NodeMatcher};
pub use oxds_core::session::{Config, Request, UnknownTypes};
pub use oxds_core::snapshot::{ChangeSet, Resource, Revision, Snapshot};
pub use oxds_types::codec::InvalidMessage;
pub use oxds_types::discovery::Node;
pub use oxds_types::{Glob, Reference, ResourceType, Version};

/// The snippets of the guide are compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/server-library.md")]
struct Guide;
