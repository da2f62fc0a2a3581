//! What a client says of itself, in one place: log events, metrics, channelz.
//!
//! What it logs is listed on the crate's front page; what it counts, in [`metrics`](crate::metrics).

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use oxds_core::ads::{
    CacheState, CacheStatus, Client, ClientEvent, ResponseSummary, ServerId, WatchError,
    WatchErrorReason,
};
use oxds_types::{ResourceName, ResourceType};

use super::feed::Feed;
use super::shown::Shown;
use crate::channelz::Registry;
use crate::metrics::{self, Recorder};
use crate::transport::Ends;

/// The `grpc.xds.authority` of names that have none.
const NO_AUTHORITY: &str = "#old";

/// Writes down what happens to a client. Dropping it ends its gauges.
#[derive(Debug)]
pub(super) struct Journal {
    servers: Vec<Known>,
    recorded: Option<Recorded>,
    registry: Registry,
}

/// A server, and whether it answered when last looked at.
#[derive(Debug)]
struct Known {
    id: ServerId,
    uri: String,
    connected: Option<bool>,
    /// While something is asked of it.
    shown: Option<Arc<Shown>>,
}

/// A recorder, and what it must be told of the resources. Only who records pays for this.
#[derive(Debug)]
struct Recorded {
    recorder: Arc<dyn Recorder>,
    target: Arc<str>,
    /// The `grpc.xds.cache_state` of each watched resource.
    states: HashMap<(ResourceType, Arc<str>), &'static str>,
    /// How many there are of an authority, in a state, of a kind.
    counts: HashMap<Cell, i64>,
}

type Cell = (Arc<str>, &'static str, ResourceType);

/// Who looks at what happens to a client.
#[derive(Debug, Clone, Default)]
pub(super) struct Observers {
    pub(super) record: Option<Record>,
    /// Where its connections are shown.
    pub(super) registry: Registry,
}

impl Observers {
    /// Those of a source beside the client's own servers.
    pub(super) fn of_source(&self, uri: &str) -> Self {
        Self {
            record: self.record.as_ref().map(|record| record.of_source(uri)),
            registry: self.registry.clone(),
        }
    }
}

/// Who counts what happens to a client, and under which name.
#[derive(Debug, Clone)]
pub(super) struct Record {
    recorder: Arc<dyn Recorder>,
    target: Arc<str>,
}

impl Record {
    pub(super) fn new(recorder: Arc<dyn Recorder>, target: &str) -> Self {
        Self {
            recorder,
            target: target.into(),
        }
    }

    /// Of a source, whose gauges are not to be taken for those of the target's servers.
    fn of_source(&self, uri: &str) -> Self {
        Self::new(
            Arc::clone(&self.recorder),
            &format!("{}#{uri}", self.target),
        )
    }
}

impl Recorded {
    fn new(record: Record) -> Self {
        Self {
            recorder: record.recorder,
            target: record.target,
            states: HashMap::new(),
            counts: HashMap::new(),
        }
    }
}

impl Journal {
    pub(super) fn new(feeds: &[(ServerId, Feed)], observers: Observers) -> Self {
        let known = feeds.iter().map(|(id, feed)| Known {
            id: *id,
            uri: feed.uri().to_string(),
            connected: None,
            shown: None,
        });
        Self {
            servers: known.collect(),
            recorded: observers.record.map(Recorded::new),
            registry: observers.registry,
        }
    }

    fn known(&self, id: ServerId) -> Option<&Known> {
        self.servers.iter().find(|known| known.id == id)
    }

    fn uri(&self, id: ServerId) -> &str {
        self.known(id).map_or("", |known| &known.uri)
    }

    fn shown(&self, id: ServerId) -> Option<&Shown> {
        self.known(id)?.shown.as_deref()
    }

    pub(super) fn opening(&mut self, server: ServerId) {
        let registry = &self.registry;
        let known = self.servers.iter_mut().find(|known| known.id == server);
        if let Some(known) = known {
            let shown = known.shown.get_or_insert_with(|| {
                let shown = Shown::new(&known.uri);
                registry.add(&shown);
                shown
            });
            shown.connecting();
        }
    }

    pub(super) fn opened(&self, server: ServerId, ends: Option<Ends>) {
        tracing::debug!(target: "oxds::ads", server = self.uri(server), "stream opened");
        if let (Some(shown), Some(ends)) = (self.shown(server), ends) {
            shown.opened(ends);
        }
    }

    /// Nothing is asked of a server any more.
    pub(super) fn let_go(&mut self, server: ServerId) {
        let known = self.servers.iter_mut().find(|known| known.id == server);
        if let Some(known) = known {
            known.shown = None;
        }
    }

    pub(super) fn closed(&self, server: ServerId, cause: &str) {
        if let Some(shown) = self.shown(server) {
            shown.closed();
        }
        tracing::info!(target: "oxds::ads", server = self.uri(server), cause, "stream closed");
    }

    pub(super) fn unanswered(&self, server: ServerId, cause: &str) {
        tracing::info!(target: "oxds::ads", server = self.uri(server), cause, "no answer");
    }

    pub(super) fn request(&self, server: ServerId, request: &impl fmt::Debug) {
        tracing::trace!(target: "oxds::ads", server = self.uri(server), ?request, "request");
    }

    pub(super) fn response(&self, server: ServerId, response: &impl fmt::Debug) {
        tracing::trace!(target: "oxds::ads", server = self.uri(server), ?response, "response");
    }

    /// What a response brought.
    pub(super) fn judged(&self, server: ServerId, updates: Option<&ResponseSummary>) {
        let Some(updates) = updates else { return };
        let (uri, resource_type) = (self.uri(server), updates.resource_type.message());
        let (valid, invalid) = (updates.valid as u64, updates.invalid as u64);
        match &updates.rejection {
            None => tracing::debug!(
                target: "oxds::ads", server = uri, r#type = resource_type, valid, "response accepted"
            ),
            Some(cause) => tracing::warn!(
                target: "oxds::ads", server = uri, r#type = resource_type, valid, invalid, cause, "response rejected"
            ),
        }
        if let Some(recorded) = &self.recorded {
            let labels = [&*recorded.target, uri, resource_type];
            let counted = [
                (&metrics::RESOURCE_UPDATES_VALID, valid),
                (&metrics::RESOURCE_UPDATES_INVALID, invalid),
            ];
            for (counter, by) in counted {
                recorded.recorder.add(counter, &labels, by);
            }
        }
    }

    /// What watchers are told of a resource.
    pub(super) fn event(&self, event: &ClientEvent, cached: Option<&CacheStatus<'_>>) {
        let held = cached.and_then(|cached| cached.held);
        let (server, version) =
            held.map_or(("", ""), |held| (self.uri(held.server), &*held.version));
        match event {
            ClientEvent::Changed {
                resource_type,
                name,
                resource: Ok(_),
            } => tracing::debug!(
                target: "oxds::resource", server, r#type = resource_type.message(), name = &**name, version, "resource changed"
            ),
            ClientEvent::Changed {
                resource_type,
                name,
                resource: Err(cause),
            } => log_error(resource_type, name, cause, "no resource"),
            ClientEvent::Ambient {
                resource_type,
                name,
                error: Some(cause),
            } => log_error(
                resource_type,
                name,
                cause,
                "resource kept, but it may be old",
            ),
            ClientEvent::Ambient {
                resource_type,
                name,
                error: None,
            } => tracing::info!(
                target: "oxds::resource", server, r#type = resource_type.message(), name = &**name, version, "resource is current again"
            ),
            ClientEvent::DeletionIgnored {
                resource_type,
                name,
            } => tracing::warn!(
                target: "oxds::resource", server, r#type = resource_type.message(), name = &**name, "the server deleted a resource that stays in use"
            ),
        }
    }

    /// How a resource stands now; `None` if nobody watches it any more.
    pub(super) fn resource(
        &mut self,
        resource_type: &ResourceType,
        name: &Arc<str>,
        cached: Option<&CacheStatus<'_>>,
    ) {
        let Some(recorded) = &mut self.recorded else {
            return;
        };
        let key = (resource_type.clone(), Arc::clone(name));
        let state = cached.map(|cached| state_name(cached.state, cached.held.is_some()));
        let before = match state {
            Some(state) => recorded.states.insert(key, state),
            None => recorded.states.remove(&key),
        };
        if before != state {
            let authority = authority(name);
            for (state, by) in [(before, -1), (state, 1)] {
                if let Some(state) = state {
                    recorded.count((Arc::clone(&authority), state, resource_type.clone()), by);
                }
            }
        }
    }

    /// How all resources stand that were written down, if any of them may be watched no more.
    pub(super) fn reconcile(&mut self, machine: &Client) {
        let states = self
            .recorded
            .iter()
            .flat_map(|recorded| recorded.states.keys());
        let gone =
            states.filter(|(resource_type, name)| machine.cached(resource_type, name).is_none());
        for (resource_type, name) in gone.cloned().collect::<Vec<_>>() {
            self.resource(&resource_type, &name, None);
        }
    }

    /// How the servers stand now.
    pub(super) fn settle(&mut self, machine: &Client) {
        for known in &mut self.servers {
            let now = machine.is_connected(known.id);
            let before = std::mem::replace(&mut known.connected, now);
            if before == now {
                continue;
            }
            let uri = &*known.uri;
            match now {
                Some(false) => {
                    tracing::warn!(target: "oxds::ads", server = uri, "server does not answer");
                }
                Some(true) if before == Some(false) => {
                    tracing::info!(target: "oxds::ads", server = uri, "server answers again");
                }
                _ => {}
            }
            if let Some(recorded) = &self.recorded {
                recorded.connected(uri, now);
            }
        }
    }
}

impl Recorded {
    fn connected(&self, uri: &str, connected: Option<bool>) {
        let labels = [&*self.target, uri];
        match connected {
            Some(connected) => {
                self.recorder
                    .set(&metrics::CONNECTED, &labels, connected.into());
            }
            None => self.recorder.end(&metrics::CONNECTED, &labels),
        }
        if connected == Some(false) {
            self.recorder.add(&metrics::SERVER_FAILURE, &labels, 1);
        }
    }

    fn count(&mut self, cell: Cell, by: i64) {
        let (authority, state, resource_type) = &cell;
        let labels = [&*self.target, authority, state, resource_type.message()];
        let count = self.counts.get(&cell).copied().unwrap_or(0) + by;
        if count == 0 {
            self.recorder.end(&metrics::RESOURCES, &labels);
            self.counts.remove(&cell);
        } else {
            self.recorder.set(&metrics::RESOURCES, &labels, count);
            self.counts.insert(cell, count);
        }
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        let Some(recorded) = &self.recorded else {
            return;
        };
        let (recorder, target) = (&recorded.recorder, &*recorded.target);
        for known in self
            .servers
            .iter()
            .filter(|known| known.connected.is_some())
        {
            recorder.end(&metrics::CONNECTED, &[target, &known.uri]);
        }
        for (authority, state, resource_type) in recorded.counts.keys() {
            recorder.end(
                &metrics::RESOURCES,
                &[target, authority, state, resource_type.message()],
            );
        }
    }
}

fn log_error(resource_type: &ResourceType, name: &str, cause: &WatchError, what: &'static str) {
    let resource_type = resource_type.message();
    match cause.reason {
        // The server's own event says it once, for all of its resources.
        WatchErrorReason::Unreachable => {
            tracing::debug!(target: "oxds::resource", r#type = resource_type, name, %cause, "{what}");
        }
        _ => {
            tracing::warn!(target: "oxds::resource", r#type = resource_type, name, %cause, "{what}")
        }
    }
}

/// As gRFC A78 has it, and A88 where A78 had no such state yet.
fn state_name(state: CacheState, is_held: bool) -> &'static str {
    match (state, is_held) {
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
