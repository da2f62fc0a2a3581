//! Wishes of the caller: what is published, where, and what may be overwritten.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::entry::Entry;
use crate::names::{Prefix, PublishId, Segment};
use crate::stored::Stored;

/// Default of etcd's `--max-request-bytes`, in bytes.
pub const DEFAULT_REQUEST_LIMIT: usize = 1536 * 1024;

/// Content of a publish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// The state of a whole folder: entries that differ are written. Others are removed only with
    /// [`PublishOptions::prune`].
    State(Arc<BTreeMap<Entry, Arc<Stored>>>),
    /// Changes: a new value, or `None` for a removal. Removals of entries that do not exist have no effect.
    Changes(BTreeMap<Entry, Option<Arc<Stored>>>),
}

/// Treatment of entries that were changed without a publish (G-14).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Foreign {
    /// The publish fails and names them.
    #[default]
    Fail,
    /// The published state is restored.
    Repair,
    /// The changes are published.
    Adopt,
}

/// Options of a publish.
#[derive(Debug, Clone)]
pub struct PublishOptions {
    /// Prefix of all keys.
    pub prefix: Prefix,
    /// The lane.
    pub lane: Segment,
    /// Id of the publish. A second attempt has another id: the next number.
    pub id: PublishId,
    /// User and machine, for the head.
    pub by: String,
    /// Time by the writer's clock, in milliseconds since 1970, for the head.
    pub at: u64,
    /// Text for the head.
    pub note: String,
    /// Remove entries of the lane that the wanted state does not have.
    pub prune: bool,
    /// Overwrite entries that another writer has changed since the base.
    pub force: bool,
    /// Publish that the wanted state was made from; `None` for the state that the first read finds. Entries that were
    /// published after the base and are changed here, too, are conflicts (G-10).
    pub base: Option<PublishId>,
    /// Treatment of entries that were changed without a publish.
    pub foreign: Foreign,
    /// Publish resources of type `Secret` (G-15).
    pub with_secrets: bool,
    /// Publish although replicas serve a later seq than the store has (G-27).
    pub accept_restored: bool,
    /// Write nothing, and report what would be written.
    pub dry_run: bool,
    /// Greatest size of a request, in bytes: etcd's `--max-request-bytes`.
    pub request_limit: usize,
    /// Number of members that the driver asks in turn. The delay after a failure grows when each was asked.
    pub members: usize,
    /// Time after which a request that fails again and again is given up.
    pub give_up_after: Duration,
}

impl PublishOptions {
    /// Makes options with the limits of etcd's defaults, and with nothing that is dangerous allowed.
    #[must_use]
    pub fn new(prefix: Prefix, lane: Segment, id: PublishId) -> Self {
        Self {
            prefix,
            lane,
            id,
            by: String::new(),
            at: 0,
            note: String::new(),
            prune: false,
            force: false,
            base: None,
            foreign: Foreign::Fail,
            with_secrets: false,
            accept_restored: false,
            dry_run: false,
            request_limit: DEFAULT_REQUEST_LIMIT,
            members: 1,
            give_up_after: Duration::from_secs(30),
        }
    }
}
