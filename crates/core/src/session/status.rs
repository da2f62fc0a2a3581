//! Everything a session knows, to be read: for CSDS, the status page and "is my change live everywhere?" (S-68).

use std::sync::Arc;

use envoy_types::pb::envoy::config::core::v3::Node;
use oxds_types::{ApiVersion, ResourceType, Version};

use super::{Session, watch::Watch};
use crate::{snapshot::Snapshot, subscription::SubscribedName, time::Instant};

/// How far a client is with a kind, compared with what is served now. The worse, the greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Progress {
    /// It accepted all that there is for it.
    Synced,
    /// It asked, and was sent nothing yet.
    NotSent,
    /// It was sent, or has, something else, and did not answer yet.
    Stale,
    /// It refused what it was sent last.
    Nacked,
}

impl Progress {
    /// As tools write it: `SYNCED`, `NOT_SENT`, `STALE`, `NACKED`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Synced => "SYNCED",
            Self::NotSent => "NOT_SENT",
            Self::Stale => "STALE",
            Self::Nacked => "NACKED",
        }
    }
}

/// What one kind's part of a stream looks like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypeStatus {
    /// The kind.
    pub resource_type: ResourceType,
    /// The version in which the client asks for it.
    pub api: ApiVersion,
    /// Whether it subscribed to everything.
    pub wildcard: bool,
    /// How many names it subscribed to.
    pub names: usize,
    /// The version of the latest response.
    pub sent: Option<Version>,
    /// The version of the latest response that was accepted.
    pub acked: Option<Version>,
    /// When the client accepted something last.
    pub acked_at: Option<Instant>,
    /// Since when a response has been without an answer.
    pub waiting_since: Option<Instant>,
    /// How much is held back, so that nothing breaks at the client (S-53): removals, each counted, and updates and a
    /// first answer, which are one each. [`Session::held_back`] says what.
    pub held: usize,
    /// The latest rejection that nothing accepted came after.
    pub nack: Option<Nack>,
    /// Responses accepted, and rejected, on this stream.
    pub acks: u64,
    /// Responses rejected on this stream.
    pub nacks: u64,
}

/// A rejected response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nack {
    /// Its version.
    pub version: Version,
    /// What the client said.
    pub reason: Arc<str>,
    /// When.
    pub at: Instant,
}

/// A resource that the client rejected, as far as its message tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NackedResource {
    /// The version of the content.
    pub version: Version,
    /// What the client said.
    pub reason: Arc<str>,
    /// When.
    pub at: Instant,
}

/// What the client has of one resource.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResourceStatus {
    /// The version sent last; `None`: never sent, or told that it does not exist.
    pub sent: Option<Version>,
    /// The version that the client accepted last and was not told to drop.
    pub acked: Option<Version>,
    /// Present if what was sent last was rejected.
    pub nacked: Option<NackedResource>,
}

impl Session {
    /// Who the client is: what its first message said (S-22).
    #[must_use]
    pub fn node(&self) -> Option<&Node> {
        self.node.as_deref()
    }

    /// Every kind that the client asked for on this stream, in the order in which they are sent.
    #[must_use]
    pub fn status(&self) -> Vec<TypeStatus> {
        self.watches.iter().map(TypeStatus::of).collect()
    }

    /// What the client has of one resource; `None` if it did not ask for it.
    #[must_use]
    pub fn resource_status(
        &self,
        resource_type: &ResourceType,
        name: &str,
    ) -> Option<ResourceStatus> {
        let watch = self
            .watch(resource_type)
            .filter(|watch| watch.covers(name))?;
        let (sent, acked) = watch.versions(name);
        let rejected = watch
            .record
            .rejections
            .get(name)
            .map(|rejected| rejected.what.clone());
        Some(ResourceStatus {
            sent,
            acked,
            nacked: rejected,
        })
    }

    /// What the client asked for by name, in order.
    pub fn names(&self, resource_type: &ResourceType) -> impl Iterator<Item = &Arc<str>> {
        self.watch(resource_type)
            .into_iter()
            .flat_map(|watch| watch.subscription.iter())
            .map(SubscribedName::name)
    }

    /// What the client rejected and has not accepted a better version of since, by name.
    pub fn nacked_resources(
        &self,
        resource_type: &ResourceType,
    ) -> impl Iterator<Item = (&Arc<str>, &NackedResource)> {
        let rejections = self
            .watch(resource_type)
            .into_iter()
            .flat_map(|watch| &watch.record.rejections);
        rejections.map(|(name, rejected)| (name, &rejected.what))
    }

    /// Whether the client has accepted all that `snapshot` holds for it.
    #[must_use]
    pub fn is_in_sync(&self, snapshot: &Snapshot) -> bool {
        self.watches
            .iter()
            .all(|watch| watch.has_accepted_all(watch.head(snapshot)))
    }

    /// How far the client is with a kind, given what is served now; `None` if it did not ask for it.
    #[must_use]
    pub fn progress(&self, resource_type: &ResourceType, snapshot: &Snapshot) -> Option<Progress> {
        let watch = self.watch(resource_type)?;
        let record = &watch.record;
        Some(if record.nack.is_some() || !record.rejections.is_empty() {
            Progress::Nacked
        } else if record.sent.is_none() {
            Progress::NotSent
        } else if watch.has_accepted_all(watch.head(snapshot)) {
            Progress::Synced
        } else {
            Progress::Stale
        })
    }

    /// How many entries the session keeps: names, and exceptions from "the client has it all". This is what its memory
    /// grows with (P-8).
    #[must_use]
    pub fn footprint(&self) -> usize {
        self.owed.len()
            + self.events.len()
            + self.watches.iter().map(Watch::footprint).sum::<usize>()
    }

    fn watch(&self, resource_type: &ResourceType) -> Option<&Watch> {
        self.watches
            .iter()
            .find(|watch| watch.resource_type == *resource_type)
    }
}

impl TypeStatus {
    /// Since when the client has been as far as it is; `None` where nothing tells.
    #[must_use]
    pub fn since(&self, progress: Progress) -> Option<Instant> {
        match progress {
            Progress::Synced => self.acked_at,
            Progress::NotSent => None,
            Progress::Stale => self.waiting_since,
            Progress::Nacked => self.nack.as_ref().map(|nack| nack.at),
        }
    }

    fn of(watch: &Watch) -> Self {
        Self {
            resource_type: watch.resource_type.clone(),
            api: watch.form.api,
            wildcard: watch.subscription.is_wildcard(),
            names: watch.subscription.len(),
            sent: watch.record.sent,
            acked: watch.record.acked,
            acked_at: watch.record.acked_at,
            waiting_since: watch.waiting_since(),
            held: watch.held_count(),
            nack: watch.record.nack.clone(),
            acks: watch.record.acks,
            nacks: watch.record.nacks,
        }
    }
}
