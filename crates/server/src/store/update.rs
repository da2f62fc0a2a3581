//! The contract of a store, and the updates that it yields.

use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use oxds_core::group::GroupUpdate;
use oxds_core::rollout::{RolloutPublish, RolloutSource};
use oxds_core::snapshot::ChangeSet;

use super::demand::Demand;
use super::finding::{Finding, FindingCounts};
use super::link::ServerLink;
use super::uses::{DeprecatedUses, NoticeCounts};

/// A source of change sets. The server applies each change set atomically (S-69).
///
/// The first update is the whole initial state, or [continues](Update::continues_last_good) an earlier one; updates
/// that are [unavailable](Update::is_unavailable) do not count. After an error a store reports it in
/// [`Update::findings`] and continues serving its last good state. A store ends only when its source ends.
pub trait Store: Send + 'static {
    /// Returns the next update, or `None` when no more can come. Then the last state stays served.
    ///
    /// The server drops the future only when it shuts down, so it need not be cancel-safe. The future runs on the
    /// runtime of the streams: use `spawn_blocking` for work that blocks.
    fn next(&mut self) -> impl Future<Output = Option<Update>> + Send;

    /// Receives a handle to what clients ask for. The server calls this once, before the first [`next`](Self::next).
    ///
    /// The default ignores it: a store that knows all of its resources yields all of them. A store that has to fetch
    /// resources on demand (a relay, for example) keeps the handle and waits in `next` for [`Demand::changed`] beside
    /// its own source.
    fn watch_demand(&mut self, demand: Demand) {
        drop(demand);
    }

    /// Receives a link to the server. The server calls this once, before the first [`next`](Self::next).
    ///
    /// The default ignores it. A store with a source that may be away reports by it how it is connected.
    fn link(&mut self, server: ServerLink) {
        drop(server);
    }

    /// Ends what the store has at its source, such as a registration of this process. The server calls it once, as the
    /// last method, when it shuts down; it waits at most one second. The default does nothing.
    fn close(&mut self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// Returns whether the store decides about rollbacks, together with others that share its source. Then
    /// [`OnNack::Rollback`](crate::OnNack::Rollback) does not change what is served by itself. By default it does not.
    fn decides_rollbacks(&self) -> bool {
        false
    }

    /// Returns whether the source outlives the process or is shared with others, so that clients which reconnect may
    /// have its state already. Then clients that wait for the first update get nothing that they have. By default it is
    /// not: a client that waits gets a response with the first update, even an empty one (S-26).
    fn is_shared(&self) -> bool {
        false
    }
}

/// One change of a store's content. Begin with `Update::from(changes)`, then set the other fields.
///
/// ```
/// use oxds_core::snapshot::ChangeSet;
/// use oxds_server::{Finding, Origin, Update};
///
/// let mut update = Update::from(ChangeSet::default());
/// update.origin = Origin::new("consul").revision(42);
/// update.findings.push(Finding::error("consul:services/shop", "no port"));
/// assert_eq!(update.findings[0].to_string(), "consul:services/shop: error: no port");
/// assert_eq!(update.origin.to_string(), "consul revision 42");
/// ```
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Update {
    /// The changes for all nodes; may be empty.
    pub changes: ChangeSet,
    /// The changes for some nodes (S-74); applied together with `changes`.
    pub groups: Vec<GroupUpdate>,
    /// Every error and warning about the source at present, not only the new ones. Every update carries them, so a
    /// store lists a bounded number, and counts the others.
    pub findings: Vec<Finding>,
    /// The errors and warnings that are only counted.
    pub more_findings: FindingCounts,
    /// All uses of deprecated elements at present.
    pub deprecated_uses: DeprecatedUses,
    /// The numbers of deprecated, unfinished and accepted unknown fields in the documents that were read for this
    /// update.
    pub notices: NoticeCounts,
    /// How long the store took to make this update.
    pub took: Duration,
    /// The source of this update, for log lines and relays.
    pub origin: Origin,
    /// Whether the store could not read its source since it started. Then the update has findings, and no content: the
    /// server serves the state of an earlier process, if there is one ([`SavedState`](crate::SavedState)), and
    /// otherwise lets clients wait.
    pub is_unavailable: bool,
    /// Whether the first update continues the state of an earlier process ([`LastGood`](crate::LastGood)), and has only
    /// what changed since. A store may do so if it knows that state, and if that [lacks no
    /// secrets](crate::LastGood::lacks_secrets).
    pub continues_last_good: bool,
    /// Position of the store after this update, for the store alone. It is kept with the state on disk, which gives it
    /// back as [`LastGood::position`](crate::LastGood::position). `None`: as before.
    pub position: Option<Arc<[u8]>>,
}

impl From<ChangeSet> for Update {
    fn from(changes: ChangeSet) -> Self {
        Self {
            changes,
            ..Self::default()
        }
    }
}

/// The source of an [`Update`]: the store, the documents that changed, and the store's revision.
///
/// `Display` names at most three documents, for log lines: `dir: a.yaml, b.yaml, c.yaml and 7 more`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Origin {
    /// The name of the store: `dir`, for example. Empty if the store gave none.
    pub store: Cow<'static, str>,
    /// The files or keys that were read or deleted for this update.
    pub documents: Vec<Arc<Path>>,
    /// The store's own revision after this update, if it counts revisions.
    pub revision: Option<u64>,
    /// The latest publish of each part of the source that this update has news of, if writers describe their publishes.
    pub publishes: Vec<RolloutPublish>,
}

impl Origin {
    /// Documents that `Display` names.
    const NAMED: usize = 3;

    /// Creates the origin of an update of the store with this name.
    #[must_use]
    pub fn new(store: impl Into<Cow<'static, str>>) -> Self {
        Self {
            store: store.into(),
            ..Self::default()
        }
    }

    /// Sets the store's own revision.
    #[must_use]
    pub fn revision(mut self, revision: u64) -> Self {
        self.revision = Some(revision);
        self
    }

    /// Sets the publishes that the update has.
    #[must_use]
    pub fn publishes(mut self, publishes: impl IntoIterator<Item = RolloutPublish>) -> Self {
        self.publishes = publishes.into_iter().collect();
        self
    }

    /// Sets the files or keys that were read or deleted.
    #[must_use]
    pub fn documents(mut self, documents: impl IntoIterator<Item = Arc<Path>>) -> Self {
        self.documents = documents.into_iter().collect();
        self
    }
}

impl From<&Origin> for RolloutSource {
    fn from(origin: &Origin) -> Self {
        let documents = origin.documents.iter();
        Self::new(&origin.store)
            .documents(documents.map(|document| document.display().to_string()))
            .publishes(origin.publishes.iter().cloned())
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.store.is_empty() {
            "unnamed store"
        } else {
            &self.store
        })?;
        if let Some(revision) = self.revision {
            write!(f, " revision {revision}")?;
        }
        for (at, document) in self.documents.iter().take(Self::NAMED).enumerate() {
            let separator = if at == 0 { ": " } else { ", " };
            write!(f, "{separator}{}", document.display())?;
        }
        match self.documents.len().saturating_sub(Self::NAMED) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origin_names_three_documents_and_counts_the_rest() {
        let origin = |count: usize| {
            let documents = (0..count).map(|i| Arc::from(Path::new(&format!("{i}.yaml"))));
            Origin::new("dir").documents(documents).to_string()
        };
        assert_eq!(origin(0), "dir");
        assert_eq!(origin(2), "dir: 0.yaml, 1.yaml");
        assert_eq!(origin(5), "dir: 0.yaml, 1.yaml, 2.yaml and 2 more");
        assert_eq!(Origin::default().to_string(), "unnamed store");
    }
}
