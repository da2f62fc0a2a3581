//! Which sessions to wake when nodes may be in other groups than before.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::task::AtomicWaker;
use oxds_core::group::NodeMatcher;
use oxds_types::discovery::Node;

/// The nodes that have a session.
#[derive(Debug, Default)]
pub(super) struct NodeRegistry(Mutex<Entries>);

#[derive(Debug, Default)]
struct Entries {
    next: u64,
    nodes: HashMap<u64, Entry>,
}

/// As much of a node as tells most of them apart.
#[derive(Debug)]
struct Entry {
    id: String,
    cluster: String,
    waker: Arc<AtomicWaker>,
}

/// A place in the node_registry, given back when dropped.
#[derive(Debug)]
pub(super) struct Entered {
    node_registry: Arc<NodeRegistry>,
    number: u64,
}

impl NodeRegistry {
    pub(super) fn enter(self: &Arc<Self>, node: &Node, waker: &Arc<AtomicWaker>) -> Entered {
        let mut entries = self.lock();
        let number = entries.next;
        entries.next += 1;
        let entry = Entry {
            id: node.id.clone(),
            cluster: node.cluster.clone(),
            waker: Arc::clone(waker),
        };
        entries.nodes.insert(number, entry);
        Entered {
            node_registry: Arc::clone(self),
            number,
        }
    }

    /// Wakes the sessions of nodes that one of these may match, so that each looks; how many.
    pub(super) fn wake(&self, matchers: &[NodeMatcher]) -> usize {
        let entries = self.lock();
        let concerned = entries.nodes.values().filter(|node| {
            let mut matchers = matchers.iter();
            matchers.any(|matcher| matcher.may_match(&node.id, &node.cluster))
        });
        concerned.inspect(|node| node.waker.wake()).count()
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        // Each change of the entries is complete in itself, so a panic leaves nothing torn.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.node_registry.lock().nodes.remove(&self.number);
    }
}
