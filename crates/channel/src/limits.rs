//! Circuit breakers: limits of concurrent requests, which all channels of the process share (gRFC A32).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use oxds_client::load::ClusterLoad;
use oxds_core::lb::{RequestCount, RequestPermit};
use oxds_core::resource::Cluster;

/// Name of a cluster and its EDS service name.
type Key = (Arc<str>, Arc<str>);

/// Limit of concurrent requests to one cluster.
#[derive(Debug)]
pub(crate) struct RequestLimit {
    count: Arc<RequestCount>,
    max: u32,
    /// Counts the requests that are dropped, if the cluster reports load.
    load: Option<ClusterLoad>,
}

impl RequestLimit {
    /// Returns the limit of a cluster.
    pub(crate) fn of(cluster: &Cluster, load: Option<ClusterLoad>) -> Self {
        let key = (
            Arc::clone(&cluster.name),
            Arc::clone(&cluster.eds_service_name),
        );
        Self {
            count: count(key),
            max: cluster.max_requests,
            load,
        }
    }

    /// Counts the start of a request. Returns `None`, and counts a drop, if the limit is reached.
    pub(crate) fn begin(&self) -> Option<RequestPermit> {
        let permit = self.count.try_begin(self.max);
        if permit.is_none()
            && let Some(load) = &self.load
        {
            load.drop_uncategorized();
        }
        permit
    }

    pub(crate) fn max(&self) -> u32 {
        self.max
    }
}

/// Returns the count of the process for a cluster.
fn count(key: Key) -> Arc<RequestCount> {
    // gRFC A32: channels share the count, also those of different pools (C-246).
    static COUNTS: OnceLock<Mutex<HashMap<Key, Weak<RequestCount>>>> = OnceLock::new();
    let counts = COUNTS.get_or_init(Mutex::default).lock();
    let mut counts = counts.unwrap_or_else(PoisonError::into_inner);
    if let Some(count) = counts.get(&key).and_then(Weak::upgrade) {
        return count;
    }
    // Remove the counts of removed clusters before the table grows: its size follows those in use.
    if counts.len() == counts.capacity() {
        counts.retain(|_, count| count.strong_count() > 0);
    }
    let count = Arc::default();
    counts.insert(key, Arc::downgrade(&count));
    count
}
