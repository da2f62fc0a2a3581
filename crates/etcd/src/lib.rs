//! A configuration in etcd, which several servers follow and several writers publish.
//!
//! **Internal to oxds; no stability is promised.** Its version stays 0.0.x. Use `oxds_server::store::etcd`.
//!
//! ```text
//!  writer ──publish──▶  etcd: prefix ─┬─ lane ─┬─ head      seq, publish id, parent, digest
//!                                     │        ├─ entries   resources and matchers, as `Stored`
//!                                     │        └─ stage     entries of a large publish, until they are moved
//!                                     └─ status, NACK reports, rollback decisions of the replicas
//! ```
//!
//! The head is the truth: a replica serves a state only if a head vouches for it by its digest.
//!
//! | module | content |
//! |---|---|
//! | [`names`] | prefix, lanes, groups, replicas and publish ids |
//! | [`entry`] | the places of resources and matchers in a lane |
//! | [`keys`] | all keys below a prefix: built and parsed |
//! | [`head`] | the value of a head key |
//! | [`stored`] | the value of an entry |
//! | [`digest`] | the sum over all entries of a lane |
//! | [`publisher`] | the machine that makes one change of one lane |
//! | [`format`](mod@format) | the version of this layout |
//! | [`published`] | one read of all that is published |
//! | [`fleet`] | heads and statuses of all replicas: who has not settled what |
//! | [`replica_status`] | the value of a replica's status key |
//! | [`rollback`] | rollbacks of all replicas together |
//! | [`settled`] | what all clients of a replica have answered |
//! | [`shedding`] | when a replica asks clients to reconnect, so that they spread |
//! | [`status_pace`] | when a replica writes it |
//! | [`space`] | how full the database of etcd is |
//! | [`follower`] | a replica's half: the published state, whatever the store does |
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod digest;
pub mod entry;
pub mod fleet;
pub mod follower;
pub mod format;
pub mod head;
mod key_error;
pub mod keys;
mod lane_state;
mod matcher;
pub mod names;
mod pages;
pub mod published;
pub mod publisher;
pub mod replica_status;
pub mod rollback;
pub mod settled;
pub mod shedding;
pub mod space;
pub mod status_pace;
pub mod stored;

pub use digest::Digest;
pub use entry::{Entry, Place};
pub use format::{FORMAT, FormatError};
pub use head::{Head, HeadError};
pub use key_error::KeyError;
pub use keys::{BadVersion, Key, KeyRange};
pub use names::{Prefix, PublishId, Segment};
pub use replica_status::{ReplicaStatus, ServedPublish};
pub use space::{Space, SpaceLevel};
pub use status_pace::StatusPace;
pub use stored::{Origin, Staged, Stored, StoredError};
