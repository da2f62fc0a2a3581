//! The server's machine: one per stream.
//!
//! ```text
//!                    handle_request                        poll_transmit(snapshot)
//!   DiscoveryRequest ──────────────▶ ┌───────────────────┐ ──────────────────────▶ TransmitResponse { nonce, frame, … }
//!                                    │ Session           │
//!                    handle_timeout  │  Watch  per kind, │ poll_event
//!   the time has come ─────────────▶ │  in sending order │ ──────────────────────▶ Event: Watched, Acked, Nacked, …
//!                                    │                   │ poll_timeout
//!                                    └───────────────────┘ ──────────────────────▶ when to call handle_timeout
//! ```
//!
//! # The call contract
//!
//! After a request, a timeout, or a change of the snapshot that the session asked to be woken for
//! ([`Event::Watched`]): call `handle_*` if there is one, then [`poll_transmit`](Session::poll_transmit) with the
//! snapshot that is current *now* until it returns `None`, then [`poll_event`](Session::poll_event) until it returns
//! `None`, then arm one timer for [`poll_timeout`](Session::poll_timeout).
//!
//! A session keeps no snapshot, so an idle one pins none; every snapshot it is shown must be of one lineage (made by
//! `apply` from the one before), and never an older one than before.
//!
//! # What it promises
//!
//! - SotW and delta are two encodings of one [`Subscription`](crate::subscription::Subscription).
//! - A response is outstanding per kind until it is answered, and only one, but for names that the client asks for
//!   meanwhile; those are served at once (S-16, S-44).
//! - NackedResource is decided by `error_detail` alone, staleness by the nonce alone.
//! - What was rejected is not sent again until it changes (S-17, S-46). A SotW full state, which goes out again for the
//!   sake of others, carries in its place what the client accepted before (S-80), or nothing if it never had any. The
//!   one exception: a client comes back with a version that says nothing here, and refuses a resource in the first
//!   response. It may have a copy that still serves, and leaving the resource out would take that away. (What a client
//!   took from responses that it refused, it does not say on the next stream, so of that nothing is known.)
//! - Nothing that a client acknowledged is lost to it before it is gone here.
//! - Nothing is sent before what it depends on was accepted, and nothing removed while something that the client has
//!   refers to it, both bounded in time (S-51 … S-55).
//! - What has a TTL is confirmed at half of it, to clients that understand it (S-49).
//! - Memory: a client that asked for everything costs one cursor per kind; one that asked by name costs those names.
//!   Limits are in [`Config`].

mod config;
mod error;
mod error_detail;
mod event;
mod frame;
mod held;
mod nonce;
mod ordering;
mod request;
mod status;
mod watch;

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};

use envoy_types::pb::envoy::config::core::v3::Node;
use oxds_types::{ApiVersion, ResourceType};

pub use config::{Config, Scope, UnknownTypes};
pub use error::StreamError;
pub use error_detail::{ResourceErrorCode, ResourceErrorDetail};
pub use event::{Event, Interest, OverdueChange};
pub use frame::{Frame, TransmitResponse};
pub use held::{HeldBack, HeldChange, WaitsFor};
pub use nonce::Nonce;
pub use request::Request;
pub use status::{Nack, NackedResource, Progress, ResourceStatus, TypeStatus};

use self::{
    frame::Envelope,
    ordering::Peers,
    request::{Parsed, RequestedNames},
    watch::{Claims, Draft, Watch},
};
use crate::{
    snapshot::{Form, Protocol, Snapshot},
    subscription,
    time::Instant,
};

/// The server's side of one xDS stream.
///
/// See the [module](self) for when to call what.
#[derive(Debug)]
pub struct Session {
    // Fixed when the stream opens.
    protocol: Protocol,
    scope: Scope,
    config: Arc<Config>,

    // From the client.
    node: Option<Box<Node>>,
    /// In the order in which kinds are sent.
    watches: Vec<Watch>,
    /// Assignments to be sent whatever the client says it has: their clusters changed while it was away (S-54). Kept
    /// until the client asks for assignments at all, but not for ever.
    owed: BTreeSet<Arc<str>>,
    owed_until: Option<Instant>,

    // From the driver.
    /// RequestedNames of the request that is about to be handled.
    refusals: Vec<(ResourceType, Arc<str>, ResourceErrorDetail)>,

    // To the driver.
    nonce: Nonce,
    events: VecDeque<Event>,
}

impl Session {
    /// The machine for a stream that has just been opened.
    #[must_use]
    pub fn new(protocol: Protocol, scope: Scope, config: Arc<Config>) -> Self {
        Self {
            protocol,
            scope,
            config,
            node: None,
            watches: Vec::new(),
            owed: BTreeSet::new(),
            owed_until: None,
            refusals: Vec::new(),
            nonce: Nonce::default(),
            events: VecDeque::new(),
        }
    }

    /// The request that is about to be handled asked for this, and was not let through: leave the name out of the request
    /// (of every SotW request that repeats it). The client is told why, once, if it understands
    /// `xds.config.supports-resource-errors`; if not, it is treated as a name that does not exist.
    pub fn deny(&mut self, resource_type: ResourceType, name: &str, refusal: ResourceErrorDetail) {
        if self.refusals.len() < self.config.max_names {
            self.refusals.push((resource_type, name.into(), refusal));
        }
    }

    /// A message arrived. An error ends the stream: map it to a gRPC status.
    pub fn handle_request(&mut self, now: Instant, request: Request) -> Result<(), StreamError> {
        let request = Parsed::new(request, self.protocol)?;
        // Only the first message has to say who speaks (S-22); a later one cannot change it (S-60).
        if self.node.is_none() {
            self.node = request.node.map(Box::new);
        }
        let (resource_type, api) = self.resolve(&request.type_url)?;
        request.names.check(&resource_type, &self.config)?;
        let at = self.watch_for(&resource_type, api)?;
        let watch = &mut self.watches[at];
        self.events
            .extend(watch.settle(now, &request.nonce, request.error.as_ref(), &self.config));

        let refusals = std::mem::take(&mut self.refusals).into_iter();
        let refusals = refusals.filter(|(of, ..)| *of == resource_type);
        let refusals = refusals.map(|(_, name, why)| (name, why)).collect();
        match &request.names {
            RequestedNames::Sotw { .. } => watch.refuse_only(refusals),
            RequestedNames::Delta { unsubscribe, .. } => watch.refuse_too(refusals, unsubscribe),
        }
        let is_first = !watch.subscription.is_asked();
        let wanted_all = watch.wants_all();
        let change = watch.ask(&request.names);
        let wants_all = watch.wants_all();
        if watch.asked_names() > self.config.max_names {
            return Err(StreamError::TooManyNames {
                resource_type,
                limit: self.config.max_names,
            });
        }
        if is_first {
            self.begin(at, request.names);
        }
        self.announce(&resource_type, change, wanted_all, wants_all);
        Ok(())
    }

    /// The time that [`poll_timeout`](Self::poll_timeout) named has come.
    pub fn handle_timeout(&mut self, now: Instant) {
        for watch in &mut self.watches {
            watch.expire(now, &self.config, &mut self.events);
        }
        if self.owed_until.is_some_and(|until| until <= now) {
            self.owed.clear();
            self.owed_until = None;
        }
    }

    /// The next response to write, given what is served now. Poll until `None`: after every request, timeout, and
    /// change that the session asked to be woken for.
    pub fn poll_transmit(&mut self, now: Instant, snapshot: &Snapshot) -> Option<TransmitResponse> {
        if !snapshot.is_loaded() {
            self.watches.iter_mut().for_each(Watch::keep_waiting);
            return None;
        }
        self.handle_timeout(now);
        self.poll_types(now, snapshot).or_else(|| {
            // Looking at a later kind may have shown that nothing there needs what an earlier one holds.
            let holding = self.watches.iter().any(Watch::is_holding);
            if holding {
                self.poll_types(now, snapshot)
            } else {
                None
            }
        })
    }

    fn poll_types(&mut self, now: Instant, snapshot: &Snapshot) -> Option<TransmitResponse> {
        let aggregated = self.scope == Scope::Aggregated;
        for at in 0..self.watches.len() {
            let (before, rest) = self.watches.split_at_mut(at);
            let Some((watch, after)) = rest.split_first_mut() else {
                break;
            };
            let peers = Peers {
                before,
                after,
                snapshot,
                aggregated,
            };
            if let Some(draft) = watch.poll(now, watch.head(snapshot), &peers) {
                return Some(self.transmit(now, at, draft));
            }
        }
        None
    }

    /// The next event. Poll until `None` after every other call.
    pub fn poll_event(&mut self) -> Option<Event> {
        let event = self.events.pop_front();
        if event.is_none() {
            // The first request may have caused as many as it has names.
            self.events.shrink_to(EVENTS_KEPT);
        }
        event
    }

    /// When to call [`handle_timeout`](Self::handle_timeout), if nothing else happens before.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let deadlines = self
            .watches
            .iter()
            .filter_map(|watch| watch.deadline(&self.config));
        deadlines.chain(self.owed_until).min()
    }

    /// The kind that a request is about, and the version of the API in which it asks.
    fn resolve(&self, type_url: &str) -> Result<(ResourceType, ApiVersion), StreamError> {
        let (len, limit) = (type_url.len(), self.config.max_name_len);
        if len > limit {
            return Err(StreamError::TypeUrlTooLong { len, limit });
        }
        match (&self.scope, type_url) {
            (Scope::Aggregated, "") => return Err(StreamError::MissingTypeUrl),
            (Scope::Single(resource_type), "") => {
                return Ok((resource_type.clone(), ApiVersion::V3));
            }
            _ => {}
        }
        let (asked, api) = ResourceType::from_type_url(type_url)
            .ok_or_else(|| StreamError::MalformedTypeUrl(excerpt(type_url)))?;
        match &self.scope {
            Scope::Single(served) if *served != asked => Err(StreamError::WrongType {
                asked: excerpt(type_url),
                served: served.clone(),
            }),
            _ => Ok((asked, api)),
        }
    }

    /// Where the watch of a kind is; a new one if there was none. It stays with the version of the API in which the
    /// kind was asked for first (S-62).
    fn watch_for(
        &mut self,
        resource_type: &ResourceType,
        api: ApiVersion,
    ) -> Result<usize, StreamError> {
        let at = match self
            .watches
            .binary_search_by(|watch| watch.resource_type.cmp(resource_type))
        {
            Ok(at) => return Ok(at),
            Err(at) => at,
        };
        if self.watches.len() >= self.config.max_types {
            return Err(StreamError::TooManyTypes {
                limit: self.config.max_types,
            });
        }
        if !self.config.knows(resource_type) {
            if self.config.unknown_types == UnknownTypes::EndStream {
                return Err(StreamError::UnknownType(excerpt(resource_type.type_url())));
            }
            self.events
                .push_back(Event::UnknownType(resource_type.clone()));
        }
        let form = Form {
            protocol: self.protocol,
            api,
            ttl: self.understands_ttl(),
        };
        let understands_errors = self.understands(&[features::ERRORS]);
        let watch = Watch::new(resource_type.clone(), form, understands_errors);
        self.watches.insert(at, watch);
        Ok(at)
    }

    /// Whether the client said that it understands one of these.
    fn understands(&self, any_of: &[&str]) -> bool {
        let features = self.node.iter().flat_map(|node| &node.client_features);
        features
            .into_iter()
            .any(|feature| any_of.contains(&&**feature))
    }

    /// Whether it understands TTLs in the form in which this stream can carry them (S-49).
    fn understands_ttl(&self) -> bool {
        let wraps = || self.protocol == Protocol::Delta || self.understands(features::WRAPPED);
        self.understands(&[features::TTL]) && wraps()
    }

    /// What is particular to the first request of a kind.
    fn begin(&mut self, at: usize, names: RequestedNames) {
        let watch = &mut self.watches[at];
        match names {
            RequestedNames::Sotw { version, .. } if !version.is_empty() => {
                watch.claim(Claims::Version(version));
            }
            RequestedNames::Delta {
                initial_versions, ..
            } if !initial_versions.is_empty() => {
                watch.claim(Claims::Resources(initial_versions));
            }
            RequestedNames::Sotw { .. } | RequestedNames::Delta { .. } => watch.claim_nothing(),
        }
        if watch.resource_type == ResourceType::ENDPOINT {
            watch.disclaim(&std::mem::take(&mut self.owed));
            self.owed_until = None;
        }
        // A kind that is not known here is answered, be it with nothing (S-59). So is a delta client that named
        // something, and a SotW client of a full-state kind: absence tells it something. To other SotW clients an
        // empty response tells nothing (S-8).
        let absence_tells = self.protocol == Protocol::Delta
            || watch.resource_type.all_resources_required_in_sotw();
        if !self.config.knows(&watch.resource_type)
            || absence_tells && !watch.subscription.is_empty()
        {
            watch.owe_answer();
        }
    }

    /// Tells the driver what to wake the session for.
    fn announce(
        &mut self,
        resource_type: &ResourceType,
        change: subscription::SubscriptionChange,
        wanted_all: bool,
        wants_all: bool,
    ) {
        let (gained, lost) = (wants_all && !wanted_all, wanted_all && !wants_all);
        let interests = |all: bool, names: Vec<Arc<str>>| -> Vec<Interest> {
            let all = all.then_some(Interest::All).into_iter();
            all.chain(names.into_iter().map(Interest::Name)).collect()
        };
        let watched = interests(gained, change.added);
        if !watched.is_empty() {
            self.events
                .push_back(Event::Watched(resource_type.clone(), watched));
        }
        let unwatched = interests(lost, change.dropped);
        if !unwatched.is_empty() {
            self.events
                .push_back(Event::Unwatched(resource_type.clone(), unwatched));
        }
    }

    /// Gives a response its nonce, and what it means for other kinds.
    fn transmit(&mut self, now: Instant, at: usize, draft: Draft) -> TransmitResponse {
        self.nonce = self.nonce.next();
        let nonce = self.nonce;
        let Draft {
            response,
            version,
            content,
            kept,
            rewarm,
        } = draft;
        let is_first = self.watches[at].record.sent.is_none();
        self.rewarm(now, rewarm, is_first);
        let watch = &mut self.watches[at];
        let (resources, removed) = (response.resources, response.removed);
        let frame = response.finish(Envelope {
            type_url: watch
                .resource_type
                .type_url_in(watch.form.api)
                .unwrap_or(watch.resource_type.type_url()),
            version,
            nonce,
            identifier: self.config.identifier.as_deref().unwrap_or_default(),
        });
        watch.sent(now, nonce, version, content, kept);
        TransmitResponse {
            resource_type: watch.resource_type.clone(),
            api: watch.form.api,
            nonce,
            version,
            resources,
            removed,
            frame,
        }
    }

    /// Clusters change: their assignments follow, so that warming ends (S-54).
    fn rewarm(&mut self, now: Instant, assignments: Vec<Arc<str>>, is_first: bool) {
        match self
            .watches
            .iter_mut()
            .find(|watch| watch.resource_type == ResourceType::ENDPOINT)
        {
            Some(watch) => assignments.iter().for_each(|name| watch.rewarm(name)),
            // After a reconnect, the client is about to say which assignments it has. Later it has none.
            None if is_first && self.scope == Scope::Aggregated && !assignments.is_empty() => {
                self.owed.extend(assignments);
                self.owed_until = Some(now + self.config.hold);
            }
            None => {}
        }
    }
}

/// What clients say in `Node.client_features`.
mod features {
    /// A resource may have a TTL.
    pub(super) const TTL: &str = "xds.config.supports-resource-ttl";
    /// `resource_errors` are read. In no registry: TP3 lets them be sent to all, as who does not know the field ignores
    /// it; but in SotW such a response has nothing else in it, and should not reach who makes nothing of it.
    pub(super) const ERRORS: &str = "xds.config.supports-resource-errors";
    /// SotW: a resource may come wrapped in a `Resource`. Envoy's registry has the first; its protocol page says the
    /// second.
    pub(super) const WRAPPED: &[&str] = &[
        "xds.config.resource-in-sotw",
        "xds.config.supports-resource-in-sotw",
    ];
}

/// Room that stays for events: those of an acknowledgement and a response.
const EVENTS_KEPT: usize = 4;

/// Enough of a client's text to recognise it by.
fn excerpt(text: &str) -> String {
    text.chars().take(128).collect()
}
