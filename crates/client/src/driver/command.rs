//! Commands from handles and watches to the driver.

use std::sync::Arc;

use oxds_core::ads::AuthorityId;
use oxds_core::resource::ResourceParser;
use oxds_types::ResourceType;
use tokio::sync::oneshot;

use super::status::ResourceStatus;
use crate::update::WatcherQueue;

/// Command for the driver.
#[derive(Debug)]
pub(crate) enum Command {
    Watch(AuthorityId, WatchEntry),
    Unwatch(WatchEntry),
    /// Reads the resources of a type with this parser from now on.
    Register(ResourceParser),
    /// Sends the status of all watched resources. The receiver may be gone.
    Dump(oneshot::Sender<Vec<ResourceStatus>>),
}

/// A watched name and one of its watchers.
#[derive(Debug, Clone)]
pub(crate) struct WatchEntry {
    pub(crate) resource_type: ResourceType,
    /// Canonical name, which servers are asked for.
    pub(crate) name: Arc<str>,
    pub(crate) watcher: Watcher,
}

/// Receiver of the updates of a name.
#[derive(Debug, Clone)]
pub(crate) struct Watcher {
    /// Name as the application spells it; its updates carry this spelling.
    pub(crate) spelled: Arc<str>,
    pub(crate) queue: Arc<WatcherQueue>,
}

impl Watcher {
    pub(super) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.queue, &other.queue) && self.spelled == other.spelled
    }
}
