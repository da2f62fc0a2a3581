//! The machine of one stream: it finds the type that a request is about, and polls the types in order.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};

use envoy_types::pb::envoy::config::core::v3::Node;
use oxds_types::{ApiVersion, ResourceType};

use super::{
    Config, Event, HeldBack, Interest, NackedResource, Nonce, Progress, Request,
    ResourceErrorDetail, ResourceStatus, Scope, StreamError, TransmitResponse, TypeStatus,
    UnknownTypes,
    error::excerpt,
    request::RequestedNames,
    type_session::{Draft, PeerType, Peers, SentResponse, TypeContext, TypeSession},
};
use crate::{
    snapshot::{Form, Protocol, Revision, Snapshot},
    subscription::{SubscribedName, SubscriptionChange},
    time::Instant,
};

/// The server's side of one xDS stream.
///
/// The [module](super) describes in which order to call its methods.
#[derive(Debug)]
pub struct Session {
    // Fixed when the stream opens.
    protocol: Protocol,
    scope: Scope,
    config: Arc<Config>,

    // From the client.
    node: Option<Box<Node>>,
    /// Sorted in the order in which types are sent.
    types: Vec<TypeSession>,
    /// Assignments whose clusters changed while the client was away: sent whatever version the client reports (S-54).
    /// Kept until the client subscribes to assignments, or until `repeat_until`.
    repeat: BTreeSet<Arc<str>>,
    repeat_until: Option<Instant>,

    // From the driver.
    /// Names of the next request that authorization denies.
    denied: Vec<(ResourceType, Arc<str>, ResourceErrorDetail)>,

    // To the driver.
    nonce: Nonce,
    events: VecDeque<Event>,
}

impl Session {
    /// Creates the machine of a new stream.
    #[must_use]
    pub fn new(protocol: Protocol, scope: Scope, config: Arc<Config>) -> Self {
        Self {
            protocol,
            scope,
            config,
            node: None,
            types: Vec::new(),
            repeat: BTreeSet::new(),
            repeat_until: None,
            denied: Vec::new(),
            nonce: Nonce::default(),
            events: VecDeque::new(),
        }
    }

    /// Denies a name of the next request. The caller removes the name from the request (from each SotW request that
    /// repeats it). A client that supports `xds.config.supports-resource-errors` is sent the reason once; to others
    /// the resource does not exist.
    pub fn deny(&mut self, resource_type: ResourceType, name: &str, detail: ResourceErrorDetail) {
        if self.denied.len() < self.config.max_names {
            self.denied.push((resource_type, name.into(), detail));
        }
    }

    /// Handles a message of the client.
    ///
    /// # Errors
    ///
    /// An error ends the stream: map it to a gRPC status.
    pub fn handle_request(
        &mut self,
        now: Instant,
        mut request: Request,
    ) -> Result<(), StreamError> {
        if request.protocol() != self.protocol {
            return Err(StreamError::WrongProtocol);
        }
        // discovery.proto: only the first message must identify the node (S-22); a later one cannot change it (S-60).
        if self.node.is_none() {
            self.node = request.node_mut().take().map(Box::new);
        }
        let (resource_type, api) = self.resolve(request.type_url())?;
        let names = request.take_names()?;
        names.check(&resource_type, &self.config)?;
        let at = self.type_for(&resource_type, api)?;
        // xDS protocol, "Resource updates": one request both answers a response and changes the subscription (S-45).
        let session = &mut self.types[at];
        let (nonce, error) = (request.nonce(), request.error_detail());
        let is_answer = session.settle(now, nonce, error, &self.config, &mut self.events);

        let denied = std::mem::take(&mut self.denied).into_iter();
        let denied = denied.filter(|(of, ..)| *of == resource_type);
        let denied = denied.map(|(_, name, detail)| (name, detail)).collect();
        let is_first = !session.subscription().is_asked();
        let wanted_all = session.wants_all();
        let change = session.subscribe(&names, denied);
        let wants_all = session.wants_all();
        if session.requested_names() > self.config.max_names {
            return Err(StreamError::TooManyNames {
                resource_type,
                limit: self.config.max_names,
            });
        }
        if is_first {
            self.begin(at, names);
        }
        self.announce(&resource_type, change, wanted_all, wants_all);
        if is_answer && resource_type == ResourceType::ENDPOINT {
            self.note_assignments(now);
        }
        debug_assert!(self.is_consistent());
        Ok(())
    }

    /// Envoy subscribes to the secrets of a new cluster once it has its assignment.
    fn note_assignments(&mut self, now: Instant) {
        if let Ok(at) = self.position(&ResourceType::CLUSTER) {
            self.types[at].note_assignments(now, &self.config);
        }
    }

    /// Handles a deadline that [`poll_timeout`](Self::poll_timeout) returned.
    pub fn handle_timeout(&mut self, now: Instant) {
        for session in &mut self.types {
            session.expire(now, &self.config, &mut self.events);
        }
        if self.repeat_until.is_some_and(|until| until <= now) {
            self.repeat.clear();
            self.repeat_until = None;
        }
        debug_assert!(self.is_consistent());
    }

    /// Whether the invariants of the types, and those between them, hold; for debug assertions.
    fn is_consistent(&self) -> bool {
        let mut types = self.types.iter();
        let names = self.types.iter().map(TypeSession::resource_type);
        let waits_for_assignments = self.position(&ResourceType::ENDPOINT).is_err();
        self.types.len() <= self.config.max_types
            && names.is_sorted_by(|a, b| a < b)
            && types.all(|session| session.is_consistent(&self.config, self.nonce))
            && self.repeat.is_empty() == self.repeat_until.is_none()
            && (self.repeat.is_empty() || waits_for_assignments)
    }

    /// Returns the next response to write, given the current snapshot, or `None`. Poll until `None` after every
    /// request, timeout, and change that the session asked to be woken for.
    pub fn poll_transmit(&mut self, now: Instant, snapshot: &Snapshot) -> Option<TransmitResponse> {
        if snapshot.awaits_first_load() {
            return None;
        }
        if !snapshot.is_loaded() {
            self.types.iter_mut().for_each(TypeSession::note_unloaded);
            return None;
        }
        self.handle_timeout(now);
        let transmit = self.poll_types(now, snapshot).or_else(|| {
            // Polling a later type may have shown that it does not need what an earlier one holds.
            let holding = self.types.iter().any(TypeSession::is_holding);
            holding.then(|| self.poll_types(now, snapshot)).flatten()
        });
        debug_assert!(self.is_consistent());
        transmit
    }

    fn poll_types(&mut self, now: Instant, snapshot: &Snapshot) -> Option<TransmitResponse> {
        // xDS protocol, "Aggregated Discovery Services (ADS)": one stream, so that updates are sequenced (S-51).
        let aggregated = self.scope == Scope::Aggregated;
        for at in 0..self.types.len() {
            let (before, rest) = self.types.split_at_mut(at);
            let Some((session, after)) = rest.split_first_mut() else {
                break;
            };
            if snapshot.is_awaited(session.resource_type()) {
                continue;
            }
            let peers = Peers {
                head: session.head(snapshot),
                before,
                after,
                snapshot,
                aggregated,
            };
            if let Some(draft) = session.poll(now, &peers) {
                return Some(self.transmit(now, at, draft));
            }
        }
        None
    }

    /// Returns the next event, or `None`. Poll until `None` after every other call.
    pub fn poll_event(&mut self) -> Option<Event> {
        let event = self.events.pop_front();
        if event.is_none() {
            // The first request may cause one event per name; that room is not needed again.
            self.events.shrink_to(EVENTS_KEPT);
        }
        event
    }

    /// Returns when to call [`handle_timeout`](Self::handle_timeout), if nothing else happens before.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let types = self.types.iter();
        let deadlines = types.filter_map(|session| session.deadline(&self.config));
        deadlines.chain(self.repeat_until).min()
    }

    /// Returns the resource type that a request is about, and the API version in which it asks.
    fn resolve(&self, type_url: &str) -> Result<(ResourceType, ApiVersion), StreamError> {
        let (len, limit) = (type_url.len(), self.config.max_name_len);
        if len > limit {
            return Err(StreamError::TypeUrlTooLong { len, limit });
        }
        let single = self.scope.single();
        if type_url.is_empty() {
            // discovery.proto: "This is required for ADS"; on a stream of one type it is implied (S-58).
            let implied = single.ok_or(StreamError::MissingTypeUrl)?;
            return Ok((implied.clone(), ApiVersion::V3));
        }
        let (asked, api) = ResourceType::from_type_url(type_url)
            .ok_or_else(|| StreamError::MalformedTypeUrl(excerpt(type_url)))?;
        match single {
            Some(served) if *served != asked => Err(StreamError::WrongType {
                asked: excerpt(type_url),
                served: served.clone(),
            }),
            _ => Ok((asked, api)),
        }
    }

    /// Returns the index of a type, which is added at its first request. It keeps the API version of that request
    /// (S-62).
    fn type_for(
        &mut self,
        resource_type: &ResourceType,
        api: ApiVersion,
    ) -> Result<usize, StreamError> {
        let at = match self.position(resource_type) {
            Ok(at) => return Ok(at),
            Err(at) => at,
        };
        if self.types.len() >= self.config.max_types {
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
        let session = TypeSession::new(TypeContext {
            resource_type: resource_type.clone(),
            form: Form {
                protocol: self.protocol,
                api,
                ttl: self.supports_ttl(),
            },
            reads_errors: self.supports(&[features::ERRORS]),
            is_polled: matches!(self.scope, Scope::Polled(_)),
        });
        self.types.insert(at, session);
        Ok(at)
    }

    /// Whether the client supports one of these features.
    fn supports(&self, any_of: &[&str]) -> bool {
        let mut features = self.node.iter().flat_map(|node| &node.client_features);
        features.any(|feature| any_of.contains(&&**feature))
    }

    /// Whether the client supports TTLs in the form that this stream carries (S-49).
    fn supports_ttl(&self) -> bool {
        let wraps = || self.protocol == Protocol::Delta || self.supports(features::WRAPPED);
        self.supports(&[features::TTL]) && wraps()
    }

    /// Applies what only the first request of a type reports.
    fn begin(&mut self, at: usize, names: RequestedNames) {
        let session = &mut self.types[at];
        // An unknown type is answered, even with nothing (S-59). So are delta subscriptions by name, and SotW ones of
        // a full-state type, where absence carries information. For other SotW subscriptions an empty response
        // carries none (S-8).
        let context = session.context();
        let absence_matters = context.is_delta() || context.is_full_state();
        let has_names = !session.subscription().is_empty();
        // A poll that got no answer would be repeated.
        let answer = !self.config.knows(session.resource_type())
            || absence_matters && has_names
            || context.is_polled;
        session.begin(names, answer);
        if *session.resource_type() == ResourceType::ENDPOINT {
            session.distrust(&std::mem::take(&mut self.repeat));
            self.repeat_until = None;
        }
    }

    /// Reports changes that must wake the session, and those that need not any more.
    fn announce(
        &mut self,
        resource_type: &ResourceType,
        change: SubscriptionChange,
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

    /// Gives a response its nonce, and marks assignments of changed clusters as due.
    fn transmit(&mut self, now: Instant, at: usize, draft: Draft) -> TransmitResponse {
        self.nonce = self.nonce.next();
        let nonce = self.nonce;
        let is_first = !self.types[at].was_sent_any();
        self.repeat_assignments(now, draft.assignments, is_first);
        let session = &mut self.types[at];
        let (resource_type, api) = (session.resource_type().clone(), session.context().form.api);
        let (resources, removed) = (draft.response.resources, draft.response.removed);
        let type_url = resource_type.type_url_in(api);
        let type_url = type_url.unwrap_or(resource_type.type_url());
        let identifier = self.config.identifier.as_deref().unwrap_or_default();
        let frame = draft
            .response
            .finish(type_url, draft.version, nonce, identifier);
        session.note_sent(SentResponse {
            nonce,
            sent_at: now,
            version: draft.version,
            content: draft.content,
            kept: draft.kept,
            covers: draft.covers,
        });
        TransmitResponse {
            resource_type,
            api,
            nonce,
            version: draft.version,
            resources,
            removed,
            frame,
        }
    }

    /// Envoy warms a changed cluster until its assignment arrives, so the assignment is sent again (S-54).
    fn repeat_assignments(&mut self, now: Instant, assignments: Vec<Arc<str>>, is_first: bool) {
        match self.position(&ResourceType::ENDPOINT) {
            Ok(at) => {
                let session = &mut self.types[at];
                assignments
                    .iter()
                    .for_each(|name| session.repeat_assignment(name));
            }
            // After a reconnect the client is about to report versions of assignments. Later it has none.
            Err(_) if is_first && self.scope == Scope::Aggregated && !assignments.is_empty() => {
                self.repeat.extend(assignments);
                self.repeat_until = Some(now + self.config.hold);
            }
            Err(_) => {}
        }
    }
}

// Read access: for CSDS, the status page and `oxds wait` (S-68).
impl Session {
    /// Returns the node of the client, from its first message (S-22).
    #[must_use]
    pub fn node(&self) -> Option<&Node> {
        self.node.as_deref()
    }

    /// Returns the number of entries that the session keeps: names, and exceptions from "the client has everything".
    /// Its memory grows with it (P-8).
    #[must_use]
    pub fn footprint(&self) -> usize {
        let types = self.types.iter().map(TypeSession::footprint);
        self.repeat.len() + self.events.len() + types.sum::<usize>()
    }
    /// Returns the status of every type that the client subscribed to on this stream, in the order of sending.
    #[must_use]
    pub fn status(&self) -> Vec<TypeStatus> {
        self.types.iter().map(TypeSession::status).collect()
    }

    /// Returns what the client has of one resource; `None` if it is not subscribed.
    #[must_use]
    pub fn resource_status(
        &self,
        resource_type: &ResourceType,
        name: &str,
    ) -> Option<ResourceStatus> {
        self.find(resource_type)?.resource_status(name)
    }

    /// Returns the names that the client subscribed to, in order.
    pub fn names(&self, resource_type: &ResourceType) -> impl Iterator<Item = &Arc<str>> {
        let session = self.find(resource_type).into_iter();
        let names = session.flat_map(|session| session.subscription().iter());
        names.map(SubscribedName::name)
    }

    /// Returns the resources that the client NACKed, until it accepts other content of them, by name. Suspects are not
    /// among them while they are isolated.
    pub fn nacked_resources(
        &self,
        resource_type: &ResourceType,
    ) -> impl Iterator<Item = (&Arc<str>, &NackedResource)> {
        let session = self.find(resource_type).into_iter();
        session.flat_map(TypeSession::nacked_resources)
    }

    /// Returns the resources of which at least one was NACKed, while they are sent again in parts.
    pub fn suspects(&self, resource_type: &ResourceType) -> impl Iterator<Item = &Arc<str>> {
        let session = self.find(resource_type).into_iter();
        session.flat_map(TypeSession::suspects)
    }

    /// Returns whether the client has accepted everything that `snapshot` serves to it.
    #[must_use]
    pub fn is_in_sync(&self, snapshot: &Snapshot) -> bool {
        let mut types = self.types.iter();
        types.all(|session| session.has_accepted_all(session.head(snapshot)))
    }

    /// Whether the client has answered everything that `snapshot` holds for it: with ACKs, or with NACKs.
    #[must_use]
    pub fn has_answered_all(&self, snapshot: &Snapshot) -> bool {
        let mut types = self.types.iter();
        types.all(|session| session.has_answered_all(session.head(snapshot)))
    }

    /// Returns the latest revision for which the client has certainly answered everything of the states up to it: with
    /// ACKs, or with NACKs. `None` if there is a type of which it has answered nothing.
    ///
    /// While changes follow each other faster than answers, [`has_answered_all`](Self::has_answered_all) may never be
    /// true.
    #[must_use]
    pub fn answered_through(&self, snapshot: &Snapshot) -> Option<Revision> {
        let of = |session: &TypeSession| {
            if session.has_answered_all(session.head(snapshot)) {
                Some(snapshot.revision())
            } else {
                session.answered_through()
            }
        };
        let mut through = Some(snapshot.revision());
        for session in &self.types {
            through = through.min(of(session));
        }
        through
    }

    /// Returns how far the client is with a type, compared with `snapshot`; `None` if it is not subscribed.
    #[must_use]
    pub fn progress(&self, resource_type: &ResourceType, snapshot: &Snapshot) -> Option<Progress> {
        let session = self.find(resource_type)?;
        Some(if session.has_nacked() {
            Progress::Nacked
        } else if !session.was_sent_any() {
            Progress::NotSent
        } else if session.has_accepted_all(session.head(snapshot)) {
            Progress::Synced
        } else {
            Progress::Stale
        })
    }

    /// Returns the changes of a type that make-before-break holds back, given the current snapshot;
    /// [`TypeStatus::held`] is their number. The cause of each is found when it is asked for.
    pub fn held_back<'a>(
        &'a self,
        resource_type: &ResourceType,
        snapshot: &'a Snapshot,
    ) -> impl Iterator<Item = HeldBack> + use<'a> {
        let at = self.position(resource_type).ok();
        let held = at.and_then(|at| {
            let (before, rest) = self.types.split_at_checked(at)?;
            let (session, after) = rest.split_first()?;
            let peers = Peers {
                head: session.head(snapshot),
                before,
                after,
                snapshot,
                aggregated: self.scope == Scope::Aggregated,
            };
            Some(session.held_back(peers))
        });
        held.into_iter().flatten()
    }

    fn find(&self, resource_type: &ResourceType) -> Option<&TypeSession> {
        self.types.get(self.position(resource_type).ok()?)
    }

    /// Index of a type, or the index at which it belongs.
    fn position(&self, resource_type: &ResourceType) -> Result<usize, usize> {
        let order = |session: &TypeSession| session.resource_type().cmp(resource_type);
        self.types.binary_search_by(order)
    }
}

/// Values of `Node.client_features`.
mod features {
    /// Resources may have a TTL.
    pub(super) const TTL: &str = "xds.config.supports-resource-ttl";
    /// The client reads `resource_errors`. This name is in no registry: TP3 allows to send errors to all clients, as
    /// those that do not know the field ignore it; but a SotW response that carries only errors would look empty to
    /// them.
    pub(super) const ERRORS: &str = "xds.config.supports-resource-errors";
    /// SotW: a resource may be wrapped in a `Resource`. The first name is in Envoy's registry, the second on its
    /// protocol page.
    pub(super) const WRAPPED: &[&str] = &[
        "xds.config.resource-in-sotw",
        "xds.config.supports-resource-in-sotw",
    ];
}

/// Event slots that are kept: enough for an ACK and a response.
const EVENTS_KEPT: usize = 4;
