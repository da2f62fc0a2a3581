//! Metrics of a client (gRFC A78).

use std::collections::HashMap;
use std::sync::Arc;

use oxds_core::ads::{CacheState, CacheStatus, Client};
use oxds_types::{ResourceName, ResourceType};

use crate::metrics::{self, Recorder};

/// Value of the label `grpc.xds.authority` for names without an authority (gRFC A78).
const NO_AUTHORITY: &str = "#old";

/// Recorder of a client's metrics, and the value of their label `grpc.target`.
#[derive(Debug, Clone)]
pub(crate) struct MetricsTarget {
    recorder: Arc<dyn Recorder>,
    target: Arc<str>,
}

impl MetricsTarget {
    pub(crate) fn new(recorder: Arc<dyn Recorder>, target: &str) -> Self {
        Self {
            recorder,
            target: target.into(),
        }
    }

    /// Returns the target for a source. It differs from the client's own, so that gauges of the two are not mixed up.
    pub(super) fn of_source(&self, uri: &str) -> Self {
        Self::new(
            Arc::clone(&self.recorder),
            &format!("{}#{uri}", self.target),
        )
    }
}

/// Metrics of one client, and the state that its gauges need. It exists only if a recorder is set. Dropping it ends the
/// resource gauges.
#[derive(Debug)]
pub(super) struct ResourceMetrics {
    to: MetricsTarget,
    /// Value of `grpc.xds.cache_state` of each watched resource.
    states: HashMap<(ResourceType, Arc<str>), &'static str>,
    /// Number of resources per authority, cache state and type.
    counts: HashMap<GaugeKey, i64>,
}

/// Authority, cache state and resource type of a gauge.
type GaugeKey = (Arc<str>, &'static str, ResourceType);

impl ResourceMetrics {
    pub(super) fn new(to: MetricsTarget) -> Self {
        Self {
            to,
            states: HashMap::new(),
            counts: HashMap::new(),
        }
    }

    /// Counts the resources of a response.
    pub(super) fn updates(&self, uri: &str, resource_type: &str, valid: u64, invalid: u64) {
        let labels = [&*self.to.target, uri, resource_type];
        let counts = [
            (&metrics::RESOURCE_UPDATES_VALID, valid),
            (&metrics::RESOURCE_UPDATES_INVALID, invalid),
        ];
        for (counter, by) in counts {
            self.to.recorder.add(counter, &labels, by);
        }
    }

    /// Records whether a server answers; `None` ends the gauge.
    pub(super) fn connected(&self, uri: &str, connected: Option<bool>) {
        let (recorder, labels) = (&self.to.recorder, [&*self.to.target, uri]);
        match connected {
            Some(connected) => recorder.set(&metrics::CONNECTED, &labels, connected.into()),
            None => recorder.end(&metrics::CONNECTED, &labels),
        }
        // gRFC A78: counts transitions from healthy to unhealthy, not failed attempts.
        if connected == Some(false) {
            recorder.add(&metrics::SERVER_FAILURE, &labels, 1);
        }
    }

    /// Records the current state of a resource; `None` if it is not watched any more.
    pub(super) fn resource(
        &mut self,
        resource_type: &ResourceType,
        name: &Arc<str>,
        cached: Option<&CacheStatus<'_>>,
    ) {
        let key = (resource_type.clone(), Arc::clone(name));
        let state = cached.map(|cached| state_name(cached.state, cached.held.is_some()));
        let before = match state {
            Some(state) => self.states.insert(key, state),
            None => self.states.remove(&key),
        };
        if before != state {
            let authority = authority(name);
            for (state, by) in [(before, -1), (state, 1)] {
                if let Some(state) = state {
                    self.count((Arc::clone(&authority), state, resource_type.clone()), by);
                }
            }
        }
    }

    /// Removes the resources that are not watched any more.
    pub(super) fn remove_unwatched(&mut self, machine: &Client) {
        let unwatched = self
            .states
            .keys()
            .filter(|(resource_type, name)| machine.cached(resource_type, name).is_none());
        for (resource_type, name) in unwatched.cloned().collect::<Vec<_>>() {
            self.resource(&resource_type, &name, None);
        }
    }

    fn count(&mut self, key: GaugeKey, by: i64) {
        let (authority, state, resource_type) = &key;
        let labels = [&*self.to.target, authority, state, resource_type.message()];
        let count = self.counts.get(&key).copied().unwrap_or(0) + by;
        if count == 0 {
            self.to.recorder.end(&metrics::RESOURCES, &labels);
            self.counts.remove(&key);
        } else {
            self.to.recorder.set(&metrics::RESOURCES, &labels, count);
            self.counts.insert(key, count);
        }
    }
}

impl Drop for ResourceMetrics {
    fn drop(&mut self) {
        for (authority, state, resource_type) in self.counts.keys() {
            self.to.recorder.end(
                &metrics::RESOURCES,
                &[&self.to.target, authority, state, resource_type.message()],
            );
        }
    }
}

/// Returns the value of `grpc.xds.cache_state`: from gRFC A78, or from A88 for the states that A88 adds.
fn state_name(state: CacheState, is_cached: bool) -> &'static str {
    match (state, is_cached) {
        (CacheState::Requested, _) => "requested",
        (CacheState::DoesNotExist, false) => "does_not_exist",
        (CacheState::DoesNotExist, true) => "does_not_exist_but_cached",
        (CacheState::Timeout, _) => "timeout",
        (CacheState::Acked, _) => "acked",
        (CacheState::Nacked, false) => "nacked",
        (CacheState::Nacked, true) => "nacked_but_cached",
        (CacheState::ReceivedError, false) => "received_error",
        (CacheState::ReceivedError, true) => "received_error_but_cached",
    }
}

fn authority(name: &str) -> Arc<str> {
    match ResourceName::parse(name) {
        Ok(ResourceName::Xdstp(parsed)) => parsed.authority.into(),
        _ => NO_AUTHORITY.into(),
    }
}
