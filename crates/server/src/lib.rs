//! An xDS management server, as a library.
//!
//! ```text
//!  your program ──typed messages──┐            ┌─ node groups ───┐
//!                                 ├─▶ Cache ───┤                 ├──▶ a session per stream ──▶ Envoy, gRPC clients
//!  Store: a folder, etcd, yours ──┘            └─ all nodes ─────┘        │        ▲
//!                                                                         │        └── Hooks of your program
//!                                        /metrics, /status.json, CSDS ◀───┘
//! ```
//!
//! The server is not a proxy, and needs no database. It identifies clients only by certificates and by hooks: use one
//! of them, or bind the server to an address that only your clients can reach.
//!
//! The server offers ADS and the services of single resource types, SotW and delta, `Fetch` and REST, in API v2 and v3.
//! Beside discovery it offers LRS, CSDS, health and reflection, and an HTTP port with metrics and status. The protocol
//! itself is in `oxds_core::session`. This crate does the I/O: it moves bytes, wakes the sessions that a change
//! concerns, and runs the timers.
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
//! // At any time, from any thread: validated, encoded once, and sent to the clients that subscribe to it.
//! let blue = Cluster { name: "blue".into(), ..Cluster::default() };
//! cache.apply(ChangeSet::default().put(Resource::of(&blue)?));
//!
//! # let stop = async {};
//! server.run(stop).await;
//! # Ok(())
//! # }
//! ```
//!
//! | task | API |
//! |---|---|
//! | change some resources, or replace all of them | [`Cache::apply`], [`Cache::replace`], [`Cache::replace_type`] |
//! | serve other resources to some nodes | [`Cache::replace_group`], [`Cache::update`] |
//! | serve a folder, and follow its changes | [`DirStore`] with [`Builder::store`] |
//! | follow a source of your own | the trait [`Store`] |
//! | serve the last good state while the store is away at start | [`SavedState`], with [`Builder::state`] |
//! | observe clients, deny calls, prepare the configuration of a node | [`Hooks`], [`Observer`], [`Builder::hooks`] |
//! | authenticate clients by certificates | [`Security`] |
//! | override settings while the server runs | [`Runtime`], with [`Builder::runtime`] |
//! | find out what a client supports | [`ClientApi::supports`] |
//! | read the load reports of clients | [`LoadReports`] |
//! | serve your own resource types | [`Resource::own`], [`Builder::resource_type`] |
//!
//! [`docs/server-library.md`] is the guide; it also maps the parts of go-control-plane to this crate. Its
//! [examples](https://github.com/oxds/oxds/tree/main/crates/server/examples) are complete programs.
//!
//! **Cancellation.** [`Server::run`] is the only long-running future. Dropping it closes all connections at once. The
//! futures of hooks and stores are dropped at an `.await` when a client disconnects, or when the server shuts down.
//!
//! **Dependencies.** A program needs no other crate of oxds: this crate re-exports the types of its signatures, and the
//! messages of the API ([`envoy_types`]). Of other crates the interface exposes [`Status`] and [`Code`] of `tonic`, and
//! `HeaderMap` of `http` in [`Call`]; a new major version of one of these is a new major version of this crate.
//!
//! **Features**, all off by default: `tls` adds rustls, for certificates on the gRPC port; `etcd` adds a store that
//! several replicas share, `store::etcd`.
//!
//! [`docs/server-library.md`]: https://github.com/oxds/oxds/blob/main/docs/server-library.md
#![cfg_attr(docsrs, feature(doc_cfg))]

mod admin;
mod cache;
mod calls;
mod clients;
mod context;
mod csds;
mod deprecations;
mod discovery;
mod disk_layers;
mod durable;
mod files;
mod hooks;
mod load;
mod metrics;
mod not_representable;
mod rollback;
mod security;
mod server;
pub mod store;
mod transport;
mod watches;

pub use cache::{Cache, OlderMajors, OlderMajorsError};
pub use calls::{CsdsAccess, Limits, Timers};
pub use deprecations::{ClientVersion, DeprecatedElement, Deprecations, FirstUse};
pub use files::FileSink;
pub use hooks::{Call, HookFuture, Hooks, Nack, Observer, SentResponse};
pub use load::{ClusterLoad, Counts, LoadReports, LocalityLoad, Metric};
pub use rollback::OnNack;
#[cfg(feature = "tls")]
pub use security::TlsFiles;
pub use security::{HttpSecurity, Security, SecurityError};
pub use server::{Builder, Server};
pub use store::dir::{self, DirStore};
pub use store::{
    ClientCounts, Connection, Demand, DeprecatedUses, Finding, FindingCounts, LaneState, LastGood,
    NoticeCounts, Origin, PlacedUse, Reporter, SavedState, ServerLink, Severity, StateError,
    StateOptions, Store, StoreSpace, TypeDemand, Update,
};
pub use tonic::{Code, Status};
pub use transport::BindError;

// Types of the signatures above, so that a program needs no other crate of oxds.
pub use envoy_types;
pub use oxds_core::group::{Definition, GroupUpdate, Membership, NodeMatcher};
pub use oxds_core::rollout::{RolloutPublish, RolloutSource, Unanswered};
pub use oxds_core::session::{Config, Request, UnknownTypes};
pub use oxds_core::snapshot::Limits as CacheLimits;
pub use oxds_core::snapshot::{ChangeSet, Resource, ResourceOrigin, Revision, Snapshot};
pub use oxds_types::codec::InvalidMessage;
pub use oxds_types::discovery::{Node, VersionedTypeUrl};
pub use oxds_types::identity::{ClientApi, FieldCatalogue, Requirement, SemVer, Support};
pub use oxds_types::lifecycle;
pub use oxds_types::runtime::{self, Runtime};
pub use oxds_types::translate;
pub use oxds_types::{ApiVersion, Glob, Position, Reference, ResourceType, Version};

/// Compiles and runs the snippets of the guide.
#[cfg(doctest)]
#[doc = include_str!("../server-library.md")]
struct Guide;
