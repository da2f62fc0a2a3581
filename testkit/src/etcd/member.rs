//! A member: its faults, and the calls of its clients.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use oxds_types::etcd::ResponseHeader;
use tokio::sync::watch;

use super::cluster::{Cluster, Data};
use super::faults::Faults;

/// A member of a cluster.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) id: u64,
    pub(super) cluster: Arc<Cluster>,
    faults: Mutex<Faults>,
    pub(super) activity: watch::Sender<Activity>,
    /// Sockets stay open, and nothing is read or written.
    pub(super) is_silent: watch::Sender<bool>,
    /// Counts the releases of delayed responses.
    pub(super) releases: watch::Sender<u64>,
}

/// Calls and connections of clients.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Activity {
    /// Number of connections since the start.
    pub accepted: usize,
    /// Number of connections that are open, or have calls that have not ended.
    pub connections: usize,
    /// Number of open watches.
    pub watches: usize,
    /// Number of requests for progress since the start.
    pub progress_requests: usize,
    /// Number of calls since the start, by method, such as `Range`.
    pub calls: BTreeMap<String, usize>,
}

impl Member {
    pub(super) fn new(id: u64, cluster: Arc<Cluster>) -> Self {
        Self {
            id,
            cluster,
            faults: Mutex::default(),
            activity: watch::Sender::default(),
            is_silent: watch::Sender::default(),
            releases: watch::Sender::default(),
        }
    }

    /// Locks the faults.
    pub(super) fn faults(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a call.
    pub(super) fn count(&self, method: &str) {
        self.activity.send_modify(|activity| {
            *activity.calls.entry(method.to_owned()).or_default() += 1;
        });
    }

    /// Returns the header of a response.
    pub(super) fn header(&self, data: &Data) -> ResponseHeader {
        let has_ids = !self.faults().has_no_ids;
        ResponseHeader {
            cluster_id: if has_ids { data.id } else { 0 },
            member_id: if has_ids { self.id } else { 0 },
            revision: data.store.revision(),
            raft_term: data.term,
        }
    }
}
