//! Node registry: the sessions to wake when the groups of their nodes may have changed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use oxds_core::group::NodeMatcher;
use oxds_types::discovery::Node;

use super::convergence::SessionWaker;

/// Nodes with a session.
#[derive(Debug, Default)]
pub(super) struct NodeRegistry(Mutex<NodeEntries>);

#[derive(Debug, Default)]
struct NodeEntries {
    next: u64,
    nodes: HashMap<u64, NodeEntry>,
}

/// The part of a node that most matchers decide by.
#[derive(Debug)]
struct NodeEntry {
    id: String,
    cluster: String,
    waker: Arc<SessionWaker>,
}

/// Registration of a node; deregisters on drop.
#[derive(Debug)]
pub(super) struct NodeRegistration {
    registry: Arc<NodeRegistry>,
    id: u64,
}

impl NodeRegistry {
    /// Registers the session of a node.
    pub(super) fn register(
        self: &Arc<Self>,
        node: &Node,
        waker: &Arc<SessionWaker>,
    ) -> NodeRegistration {
        let mut entries = self.lock();
        let id = entries.next;
        entries.next += 1;
        let entry = NodeEntry {
            id: node.id.clone(),
            cluster: node.cluster.clone(),
            waker: Arc::clone(waker),
        };
        entries.nodes.insert(id, entry);
        NodeRegistration {
            registry: Arc::clone(self),
            id,
        }
    }

    /// Wakes the sessions of all nodes that one of these matchers may match. Returns the number of sessions.
    pub(super) fn wake(&self, matchers: &[NodeMatcher]) -> usize {
        let entries = self.lock();
        let concerned = entries.nodes.values().filter(|node| {
            let mut matchers = matchers.iter();
            matchers.any(|matcher| matcher.may_match(&node.id, &node.cluster))
        });
        concerned.inspect(|node| node.waker.wake()).count()
    }

    fn lock(&self) -> MutexGuard<'_, NodeEntries> {
        // Each change leaves complete entries, so poisoning does not matter.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for NodeRegistration {
    fn drop(&mut self) {
        self.registry.lock().nodes.remove(&self.id);
    }
}
