//! Stores: where the resources of a server come from.
//!
//! ```text
//!  files, keys, …             documents                                              cache
//!  ┌────────────┐ id, bytes ┌───────────────────────────────────────────┐  Update  ┌───────┐
//!  │ watch loop │ ────────▶ │ decode → ownership of names → references  │ ───────▶ │ serve │
//!  └────────────┘           └───────────────────────────────────────────┘          └───────┘
//!        ▲ Demand: the resources that clients ask for (optional)                       │
//!        └─────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! - [`Store`] is the contract: a source of [`Update`]s. `Update::origin` names the source of each.
//! - [`ServerLink`] is the way back: a store reports how it is connected to its source.
//! - [`documents`] is the pure part of a store of YAML, JSON or binary documents. It uses no file system, clock or
//!   task.
//! - [`dir`] is the store for a folder: a scan and a watch around [`documents`].
//! - `etcd` (feature `etcd`) is the store that several replicas share, with a client of etcd.
//!
//! A store for another source of documents (a key-value store, a Git repository) is a watch loop of its own around
//! [`Documents`](documents::Documents).

mod connection;
mod demand;
pub mod dir;
pub mod documents;
#[cfg(feature = "etcd")]
pub mod etcd;
mod finding;
mod health;
mod link;
mod state;
mod state_status;
mod update;
mod uses;

pub(crate) use connection::ReplicaState;
pub use connection::{Connection, LaneState, StoreSpace};
pub use demand::{Demand, TypeDemand};
pub use finding::{Finding, FindingCounts, Severity};
pub use health::Reporter;
pub(crate) use health::{Findings, Health, Stale};
#[cfg(feature = "etcd")]
pub(crate) use link::FleetMember;
pub use link::{ClientCounts, ServerLink};
pub use state::{LastGood, SavedState, StateError, StateOptions};
pub(crate) use state::{Recorder, Started};
pub(crate) use state_status::StateStatus;
pub use update::{Origin, Store, Update};
pub use uses::{DeprecatedUses, NoticeCounts, PlacedUse};
