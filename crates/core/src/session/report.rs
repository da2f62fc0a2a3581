//! Read access to everything that a session knows: for CSDS, the status page and `oxds wait` (S-68).

use std::sync::Arc;

use oxds_types::ResourceType;

use super::{
    HeldBack, NackedResource, Progress, ResourceStatus, Session, TypeStatus,
    type_session::{PeerType, Peers, TypeSession, held_changes},
};
use crate::{snapshot::Snapshot, subscription::SubscribedName};

impl Session {
    /// Returns the status of every type that the client subscribed to on this stream, in the order of sending.
    #[must_use]
    pub fn status(&self) -> Vec<TypeStatus> {
        self.types().iter().map(TypeSession::status).collect()
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

    /// Returns the resources that the client NACKed, until it accepts other content of them, by name.
    pub fn nacked_resources(
        &self,
        resource_type: &ResourceType,
    ) -> impl Iterator<Item = (&Arc<str>, &NackedResource)> {
        let session = self.find(resource_type).into_iter();
        session.flat_map(TypeSession::nacked_resources)
    }

    /// Returns whether the client has accepted everything that `snapshot` serves to it.
    #[must_use]
    pub fn is_in_sync(&self, snapshot: &Snapshot) -> bool {
        let mut types = self.types().iter();
        types.all(|session| session.has_accepted_all(session.head(snapshot)))
    }

    /// Returns how far the client is with a type, compared with `snapshot`; `None` if it is not subscribed.
    #[must_use]
    pub fn progress(&self, resource_type: &ResourceType, snapshot: &Snapshot) -> Option<Progress> {
        let session = self.find(resource_type)?;
        let has_nacked = session.nacked_resources().next().is_some();
        Some(if session.status().nack.is_some() || has_nacked {
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
        let mut types = self.types().iter();
        let at = types.position(|session| session.resource_type() == resource_type);
        let held = at.and_then(|at| {
            let (before, rest) = self.types().split_at_checked(at)?;
            let (session, after) = rest.split_first()?;
            let peers = Peers {
                head: session.head(snapshot),
                before,
                after,
                snapshot,
                aggregated: self.is_aggregated(),
            };
            Some(held_changes(session, peers))
        });
        held.into_iter().flatten()
    }

    fn find(&self, resource_type: &ResourceType) -> Option<&TypeSession> {
        let mut types = self.types().iter();
        types.find(|session| session.resource_type() == resource_type)
    }
}
