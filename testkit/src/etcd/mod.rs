//! An etcd in memory that a test scripts.
//!
//! ```text
//!   ScriptedEtcd ──► Member: faults, sockets ──► service: gRPC by path ──► requests ──┐
//!        │                                           └──► watches ──► Outbox: faults  ├──► Cluster: Mvcc, leases, users
//!        └── join() ──► another Member ───────────────────────────────────────────────┘
//! ```
//!
//! It answers the part of the v3 API whose messages `oxds_types::etcd` has, as etcd 3.7 does: `interop` compares the
//! answers. On command a member breaks each guarantee ([`CallFault`], [`WatchFault`], the `set_…` methods), goes back
//! to a backup, or becomes another cluster. Each revision is one response of a watch, except for a watch that catches
//! up, so that a test knows what the next fault applies to.

mod cluster;
mod faults;
mod leases;
mod listen;
mod member;
mod mvcc;
mod outbox;
pub mod refusal;
pub mod request;
mod requests;
mod scripted_etcd;
mod service;
mod txn;
mod users;
mod watches;

pub use faults::{CallFault, WatchFault};
pub use member::Activity;
pub use scripted_etcd::{Backup, ScriptedEtcd};
pub use users::{Permission, User};
