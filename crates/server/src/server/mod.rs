//! The server: set-up, start and shutdown, the feed of the cache, and the gRPC port with its services.
//!
//! ```text
//!  Builder ──bind──▶ Server ──run──▶ ┌ feed      store ──▶ rollback ──▶ cache
//!                                    ├ gRPC port  listener ──▶ connection ──▶ discovery, LRS, CSDS, health, reflection
//!                                    └ HTTP port  listener ──▶ connection ──▶ admin
//! ```

mod builder;
mod feed;
#[cfg(feature = "etcd")]
mod fleet_member;
mod grpc;
mod run;
mod services;

pub use builder::Builder;
pub use run::Server;
