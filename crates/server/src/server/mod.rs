//! The server: set-up, listeners, connections, the gRPC port, and what all calls share.
//!
//! ```text
//!  Builder ──bind──▶ Server ──run──▶ ┌ feed      store ──▶ rollback ──▶ cache
//!                                    ├ gRPC port  listener ──▶ connection ──▶ discovery, LRS, CSDS, health, reflection
//!                                    └ HTTP port  listener ──▶ connection ──▶ admin
//! ```

mod budget;
mod builder;
mod client_log;
mod clock;
mod connection;
mod csds_access;
mod feed;
#[cfg(feature = "etcd")]
mod fleet_member;
mod grpc;
mod limits;
mod listener;
mod metered;
mod peer;
mod run;
mod services;
mod shared;

#[cfg(test)]
pub(crate) use budget::Budgets;
pub(crate) use budget::{Budget, Kept, OverBudget, Share};
pub use builder::Builder;
pub(crate) use client_log::{Admitted, ClientLine};
pub(crate) use clock::Clock;
pub(crate) use connection::{Connection, Ports};
pub use csds_access::CsdsAccess;
pub use limits::Limits;
pub use listener::BindError;
pub(crate) use listener::Bound;
pub(crate) use peer::Peer;
pub use run::Server;
pub(crate) use shared::Shared;
