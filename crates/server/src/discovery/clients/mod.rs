//! Who gets resources from here, by a stream or by polling, as CSDS and the status page see them.

mod polls;
mod streams;

use std::net::SocketAddr;
use std::sync::Arc;

use oxds_core::session::{HeldBack, NackedResource, Progress, ResourceStatus, Session, TypeStatus};
use oxds_core::snapshot::Snapshot;
use oxds_core::time::Instant;
use oxds_types::ResourceType;
use oxds_types::discovery::Node;

pub(crate) use polls::{Answered, Polls, Via};
pub(crate) use streams::{OpenStream, StreamRegistration, StreamRegistry, lock};

use crate::cache::{Cache, ChangeNotifier};
use crate::metrics::protocol_name;
use crate::server::Clock;

/// How much of what is held back from a client is shown, kind by kind: what waits together mostly waits for the same.
const HELD_SHOWN: usize = 10;

/// What is known of a client besides what it has.
#[derive(Debug)]
pub(crate) struct About {
    /// Where it is; of those that poll nobody knows for how long.
    pub(crate) peer: Option<SocketAddr>,
    /// `sotw`, `delta`, `fetch` or `rest`.
    pub(crate) protocol: &'static str,
    /// Since when it is there.
    pub(crate) since: Instant,
}

/// What a client has.
pub(crate) trait Subscriber {
    /// Who it is, if it said so.
    fn node(&self) -> Option<&Node>;
    /// Every kind that it asked for.
    fn resource_types(&self) -> Vec<TypeStatus>;
    /// How far it is with one of them, given what is served.
    fn progress(&self, resource_type: &ResourceType, snapshot: &Snapshot) -> Progress;
    /// Whether it has accepted all that is served to it.
    fn is_in_sync(&self, snapshot: &Snapshot) -> bool;
    /// What it is not told yet, so that nothing breaks (S-53), of one of them: some of it.
    fn held_back(&self, resource_type: &ResourceType, snapshot: &Snapshot) -> Vec<HeldBack>;
    /// What it asked for by name.
    fn names(&self, resource_type: &ResourceType) -> Vec<Arc<str>>;
    /// What it has of one resource; `None` if it did not ask for it.
    fn resource(&self, resource_type: &ResourceType, name: &str) -> Option<ResourceStatus>;
    /// What it refused.
    fn rejections(&self, resource_type: &ResourceType) -> Vec<(Arc<str>, NackedResource)>;
}

/// All clients of a server: open streams, and clients that poll.
#[derive(Debug)]
pub(crate) struct Clients {
    pub(crate) streams: Arc<StreamRegistry>,
    pub(crate) polls: Polls,
    clock: Clock,
}

impl Clients {
    pub(crate) fn new(clock: Clock, notifier: &Arc<ChangeNotifier>) -> Self {
        Self {
            streams: Arc::new(StreamRegistry::new(notifier)),
            polls: Polls::default(),
            clock,
        }
    }

    /// Calls `see` for every client with the snapshot that its node sees: streams, oldest first, then poll clients.
    pub(crate) fn each(
        &self,
        cache: &Cache,
        mut see: impl FnMut(&About, &dyn Subscriber, &Snapshot),
    ) {
        for open in self.streams.list() {
            let about = About {
                peer: Some(open.peer.address),
                protocol: protocol_name(open.protocol),
                since: open.since,
            };
            let snapshot = open.view(cache).snapshot();
            see(&about, &*open.session(), &snapshot);
        }
        self.polls.each(self.clock.now(), |about, poller| {
            let node = poller.node().cloned().unwrap_or_default();
            see(about, poller, &cache.snapshot_for(&node));
        });
    }
}

impl Subscriber for Session {
    fn node(&self) -> Option<&Node> {
        Session::node(self)
    }

    fn resource_types(&self) -> Vec<TypeStatus> {
        self.status()
    }

    fn progress(&self, resource_type: &ResourceType, snapshot: &Snapshot) -> Progress {
        Session::progress(self, resource_type, snapshot).unwrap_or(Progress::NotSent)
    }

    fn is_in_sync(&self, snapshot: &Snapshot) -> bool {
        Session::is_in_sync(self, snapshot)
    }

    fn held_back(&self, resource_type: &ResourceType, snapshot: &Snapshot) -> Vec<HeldBack> {
        Session::held_back(self, resource_type, snapshot)
            .take(HELD_SHOWN)
            .collect()
    }

    fn names(&self, resource_type: &ResourceType) -> Vec<Arc<str>> {
        Session::names(self, resource_type).cloned().collect()
    }

    fn resource(&self, resource_type: &ResourceType, name: &str) -> Option<ResourceStatus> {
        self.resource_status(resource_type, name)
    }

    fn rejections(&self, resource_type: &ResourceType) -> Vec<(Arc<str>, NackedResource)> {
        let rejections = Session::nacked_resources(self, resource_type);
        rejections
            .map(|(name, rejection)| (Arc::clone(name), rejection.clone()))
            .collect()
    }
}
