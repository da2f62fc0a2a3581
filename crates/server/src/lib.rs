//! An xDS management server, as a library.
//!
//! ```text
//!  Store ──ChangeSet──▶ Cache ──Snapshot──▶ session per stream ──▶ Envoy, gRPC clients
//!  (a folder, your own)   ▲                        │
//!                         └─ your program          └──▶ /metrics, /status.json
//! ```
//!
//! It serves ADS and the services of single kinds, SotW and delta, `Fetch` and REST, with health and reflection beside, and says on an HTTP port what it serves, to whom,
//! and what clients rejected. The protocol itself is `oxds_core::session`; this crate moves bytes, wakes whom a change
//! concerns and keeps the time.
//!
//! ```no_run
//! use oxds_server::{DirStore, Server, dir};
//!
//! # async fn serve() -> Result<(), Box<dyn std::error::Error>> {
//! let store = DirStore::open("resources", dir::Options::default())?;
//! let server = Server::builder()
//!     .grpc("127.0.0.1:18000".parse()?)
//!     .http("127.0.0.1:18001".parse()?)
//!     .store(store)
//!     .bind()
//!     .await?;
//! println!("serving ADS on {}", server.grpc_addr());
//! server.run(async { tokio::signal::ctrl_c().await.unwrap_or_default() }).await;
//! # Ok(())
//! # }
//! ```
//!
//! A program that makes its resources itself keeps a handle of the [`Cache`] and needs no store.
//!
//! It is not a proxy. Who its clients are it knows by their certificates only: see [`Security`], or bind it where only
//! they can reach it.
//!
//! Features: `tls` (off by default) brings rustls, and with it certificates on the gRPC port.

mod ads;
mod builder;
mod cache;
mod clients;
mod csds;
pub mod dir;
mod fetch;
mod grpc;
mod limits;
mod load;
mod metrics;
mod pages;
mod security;
mod server;
mod services;
mod store;

pub use builder::{BindError, Builder};
pub use cache::Cache;
pub use dir::DirStore;
pub use limits::Limits;
pub use load::{ClusterLoad, Counts, LoadReports, LocalityLoad, Metric};
#[cfg(feature = "tls")]
pub use security::TlsFiles;
pub use security::{Security, SecurityError};
pub use server::Server;
pub use store::{Finding, Severity, Store, Update};
