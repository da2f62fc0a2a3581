//! One client, as the status and CSDS see it.

use std::net::SocketAddr;
use std::sync::Arc;

use oxds_core::session::{HeldBack, NackedResource, Progress, ResourceStatus, Session, TypeStatus};
use oxds_core::snapshot::Snapshot;
use oxds_core::time::Instant;
use oxds_types::ResourceType;
use oxds_types::discovery::Node;

use crate::cache::Answers;

/// Held-back changes that the status shows per resource type. Changes that wait together mostly wait for the same
/// resource.
const HELD_SHOWN: usize = 10;

/// Suspects of a NACK that the status shows per resource type. Their number halves with each answer of the client.
const SUSPECTS_SHOWN: usize = 10;

/// One client: a stream, or a client that polls.
#[derive(Debug)]
pub(crate) struct Client<'a> {
    /// Address of the client; `None` for a client that polls, which may use another connection each time.
    pub(crate) peer: Option<SocketAddr>,
    /// `sotw`, `delta`, `fetch` or `rest`.
    pub(crate) protocol: &'static str,
    /// Time of the call, or of the first poll.
    pub(crate) since: Instant,
    /// Node, if the client has sent it.
    pub(crate) node: Option<&'a Node>,
    /// How far it is with each change; `None` for a client that polls, and before the first request.
    pub(crate) answers: Option<Answers>,
    pub(super) sessions: Sessions<'a>,
}

/// The sessions of a client.
#[derive(Debug)]
pub(super) enum Sessions<'a> {
    /// One for all resource types.
    Stream(&'a Session),
    /// One per resource type.
    Polls(Vec<(&'a ResourceType, &'a Session)>),
}

impl Client<'_> {
    /// Returns every resource type that the client subscribes to.
    pub(crate) fn resource_types(&self) -> Vec<TypeStatus> {
        match &self.sessions {
            Sessions::Stream(session) => session.status(),
            Sessions::Polls(polls) => {
                let sessions = polls.iter();
                let mut types: Vec<TypeStatus> = Vec::new();
                for status in sessions.flat_map(|(_, session)| session.status()) {
                    let same =
                        |known: &&mut TypeStatus| known.resource_type == status.resource_type;
                    match types.iter_mut().find(same) {
                        Some(known) => add(known, status),
                        None => types.push(status),
                    }
                }
                types
            }
        }
    }

    /// Returns the progress with a resource type, compared with `snapshot`: of several subscriptions the worst.
    pub(crate) fn progress(&self, resource_type: &ResourceType, snapshot: &Snapshot) -> Progress {
        let progress = self
            .sessions(resource_type)
            .filter_map(|session| session.progress(resource_type, snapshot));
        progress.max().unwrap_or(Progress::NotSent)
    }

    /// Whether the client has accepted all that `snapshot` holds for it.
    pub(crate) fn is_in_sync(&self, snapshot: &Snapshot) -> bool {
        match &self.sessions {
            Sessions::Stream(session) => session.is_in_sync(snapshot),
            Sessions::Polls(polls) => {
                let mut sessions = polls.iter();
                sessions.all(|(_, session)| session.is_in_sync(snapshot))
            }
        }
    }

    /// Returns some of the changes that make-before-break holds back (S-53).
    pub(crate) fn held_back(
        &self,
        resource_type: &ResourceType,
        snapshot: &Snapshot,
    ) -> Vec<HeldBack> {
        let sessions = self.sessions(resource_type);
        let held = sessions.flat_map(|session| session.held_back(resource_type, snapshot));
        held.take(HELD_SHOWN).collect()
    }

    /// Returns the names that the client subscribes to.
    pub(crate) fn names(&self, resource_type: &ResourceType) -> Vec<Arc<str>> {
        let sessions = self.sessions(resource_type);
        let names = sessions.flat_map(|session| session.names(resource_type));
        names.cloned().collect()
    }

    /// Returns what the client has of one resource; `None` if it does not subscribe to it.
    pub(crate) fn resource(
        &self,
        resource_type: &ResourceType,
        name: &str,
    ) -> Option<ResourceStatus> {
        let mut sessions = self.sessions(resource_type);
        sessions.find_map(|session| session.resource_status(resource_type, name))
    }

    /// Returns the resources that the client rejects.
    pub(crate) fn nacked_resources(
        &self,
        resource_type: &ResourceType,
    ) -> Vec<(Arc<str>, NackedResource)> {
        let sessions = self.sessions(resource_type);
        let nacked = sessions.flat_map(|session| session.nacked_resources(resource_type));
        nacked
            .map(|(name, nacked)| (Arc::clone(name), nacked.clone()))
            .collect()
    }

    /// Returns some of the suspects of a NACK that names no resource, while they are sent again in parts.
    pub(crate) fn suspects(&self, resource_type: &ResourceType) -> Vec<Arc<str>> {
        let sessions = self.sessions(resource_type);
        let suspects = sessions.flat_map(|session| session.suspects(resource_type));
        suspects.take(SUSPECTS_SHOWN).cloned().collect()
    }

    /// Returns the sessions that carry a resource type: of a client that polls, one per subscription.
    fn sessions<'a>(
        &'a self,
        resource_type: &'a ResourceType,
    ) -> impl Iterator<Item = &'a Session> {
        let (stream, polls) = match &self.sessions {
            Sessions::Stream(session) => (Some(*session), &[][..]),
            Sessions::Polls(polls) => (None, &polls[..]),
        };
        let polls = polls.iter().filter(move |(of, _)| *of == resource_type);
        stream.into_iter().chain(polls.map(|(_, session)| *session))
    }
}

/// Adds the status of another subscription to the same type. A version that is not the same for all is left out.
fn add(sum: &mut TypeStatus, other: TypeStatus) {
    let TypeStatus {
        resource_type: _,
        api: _,
        wildcard,
        names,
        sent,
        acked,
        acked_at,
        waiting_since,
        held,
        nack,
        isolating,
        acks,
        nacks,
    } = other;
    sum.wildcard |= wildcard;
    sum.names += names;
    sum.sent = sum.sent.filter(|version| sent == Some(*version));
    sum.acked = sum.acked.filter(|version| acked == Some(*version));
    sum.acked_at = sum.acked_at.max(acked_at);
    sum.waiting_since = [sum.waiting_since, waiting_since]
        .into_iter()
        .flatten()
        .min();
    sum.held += held;
    let earlier = sum.nack.take();
    sum.nack = [earlier, nack]
        .into_iter()
        .flatten()
        .max_by_key(|nack| nack.at);
    sum.isolating = sum.isolating.or(isolating);
    sum.acks += acks;
    sum.nacks += nacks;
}
