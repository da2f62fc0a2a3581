//! How a store is connected to its source.

use std::collections::BTreeMap;
use std::time::{Instant, SystemTime};

/// How a store is connected to its source: for status, metrics and readiness.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Connection {
    /// Whether the store follows its source.
    pub is_connected: bool,
    /// Since when `is_connected` has had this value.
    pub since: Option<Instant>,
    /// Why the store is not connected.
    pub cause: Option<String>,
    /// Address that the store uses.
    pub member: Option<String>,
    /// Parts of the source, by name: lanes, for example.
    pub lanes: Vec<LaneState>,
    /// Why clients must not use this server although it has a configuration; `None` if they may.
    pub not_ready: Option<String>,
    /// Number of connections that failed.
    pub failures: u64,
    /// Number of times that the whole source was read.
    pub reads: u64,
    /// Size of the database of the source, once it is known.
    pub space: Option<StoreSpace>,
}

/// Size of the database of a source, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreSpace {
    /// Size of the file, free pages included.
    pub size: u64,
    /// The part of it that is in use.
    pub in_use: u64,
    /// Greatest size of the file, at which the source refuses writes; `None` if there is no limit.
    pub quota: Option<u64>,
}

/// The state of one part of a source.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LaneState {
    /// Name of the part.
    pub lane: String,
    /// Number of the latest change that was handed to the server.
    pub seq: u64,
    /// Id of that change.
    pub publish: String,
    /// Checksum of the state.
    pub digest: String,
    /// Number of later changes that are known.
    pub lag: u64,
    /// Since when there have been later changes.
    pub lag_since: Option<Instant>,
    /// Whether later changes are held back.
    pub is_held: bool,
    /// Since when the content of the source has not had its checksum.
    pub diverged_since: Option<Instant>,
}

/// A server that follows the same source, as it describes itself there.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ReplicaState {
    pub(crate) id: String,
    /// Whether it is this server.
    pub(crate) is_this: bool,
    /// Version of the program.
    pub(crate) build: String,
    /// Start of the process, by its own clock.
    pub(crate) started: SystemTime,
    /// Address of the HTTP port, as the server knows it; empty without one.
    pub(crate) http: String,
    /// Number of the publish that it serves, by lane.
    pub(crate) lanes: BTreeMap<String, u64>,
    pub(crate) streams: u64,
    pub(crate) in_sync: u64,
    pub(crate) nacked: u64,
    /// Whether it holds back publishes of a lane.
    pub(crate) is_held: bool,
    /// Since when it has described itself so.
    pub(crate) since: Instant,
}
