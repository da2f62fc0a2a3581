//! One client, as the status and CSDS see it.

use std::net::SocketAddr;
use std::sync::Arc;

use oxds_core::session::{HeldBack, NackedResource, Progress, ResourceStatus, Session, TypeStatus};
use oxds_core::snapshot::Snapshot;
use oxds_core::time::Instant;
use oxds_types::ResourceType;
use oxds_types::discovery::Node;

/// Held-back changes that the status shows per resource type. Changes that wait together mostly wait for the same
/// resource.
const HELD_SHOWN: usize = 10;

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
                sessions.flat_map(|(_, session)| session.status()).collect()
            }
        }
    }

    /// Returns the progress with a resource type, compared with `snapshot`.
    pub(crate) fn progress(&self, resource_type: &ResourceType, snapshot: &Snapshot) -> Progress {
        let session = self.session(resource_type);
        let progress = session.and_then(|session| session.progress(resource_type, snapshot));
        progress.unwrap_or(Progress::NotSent)
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
        let sessions = self.session(resource_type).into_iter();
        let held = sessions.flat_map(|session| session.held_back(resource_type, snapshot));
        held.take(HELD_SHOWN).collect()
    }

    /// Returns the names that the client subscribes to.
    pub(crate) fn names(&self, resource_type: &ResourceType) -> Vec<Arc<str>> {
        let sessions = self.session(resource_type).into_iter();
        let names = sessions.flat_map(|session| session.names(resource_type));
        names.cloned().collect()
    }

    /// Returns what the client has of one resource; `None` if it does not subscribe to it.
    pub(crate) fn resource(
        &self,
        resource_type: &ResourceType,
        name: &str,
    ) -> Option<ResourceStatus> {
        self.session(resource_type)?
            .resource_status(resource_type, name)
    }

    /// Returns the resources that the client rejects.
    pub(crate) fn nacked_resources(
        &self,
        resource_type: &ResourceType,
    ) -> Vec<(Arc<str>, NackedResource)> {
        let sessions = self.session(resource_type).into_iter();
        let nacked = sessions.flat_map(|session| session.nacked_resources(resource_type));
        nacked
            .map(|(name, nacked)| (Arc::clone(name), nacked.clone()))
            .collect()
    }

    fn session(&self, resource_type: &ResourceType) -> Option<&Session> {
        match &self.sessions {
            Sessions::Stream(session) => Some(session),
            Sessions::Polls(polls) => {
                let found = polls.iter().find(|(of, _)| *of == resource_type);
                found.map(|(_, session)| *session)
            }
        }
    }
}
