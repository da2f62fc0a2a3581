//! The store that several replicas share: a configuration in etcd.
//!
//! ```text
//!  etcd ◀──▶ Io (tasks) ──inputs──▶ Driver: Follower of `oxds_core` ──▶ Update ──▶ EtcdStore::next
//!                 ▲                    │                │
//!                 └──── transmits ─────┘                └── Connection ──▶ ServerLink
//! ```
//!
//! The driver is a task of its own, so that the store is followed, and its status is true, while the server is busy
//! with an update. An update is made when the server takes it: publishes that come before that are one update (G-23).
//!
//! | module | content |
//! |---|---|
//! | [`client`] | a client of one member |
//! | [`writer`] | the driver of a publish, and one read of all published resources |
//! | `options` | what is followed, and where |
//! | `etcd_store` | the store |
//! | `driver`, `io` | the loop around the machine; connections, reads and watches |
//! | `unknown_fields` | warnings about resources of a newer API |
//! | `update`, `report` | events of the machine as updates, log lines and status |
//! | `rollback_keys` | rollbacks of all replicas together |
//! | `space_check` | how full the database is |
//! | `status_key` | what other replicas and commands read of this one |

pub mod client;
mod clock;
mod driver;
mod etcd_store;
mod failure;
mod io;
mod options;
mod report;
mod rollback_keys;
mod space_check;
mod status_key;
mod unknown_fields;
mod update;
pub mod writer;

pub use etcd_store::{EtcdStore, Unusable};
pub use options::EtcdStoreOptions;
// The writer returns many types of it.
pub use oxds_etcd;
pub use oxds_etcd::follower::FollowerTiming;
pub use oxds_etcd::{KeyError, Prefix, Segment};
