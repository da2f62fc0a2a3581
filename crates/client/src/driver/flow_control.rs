//! Flow control: a stream is read no faster than the watchers of its resources read their updates (C-87).

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::timer::after;
use crate::update::WatcherQueue;

/// Watchers of a stream that have not read the updates of the last response. Only the next read waits for them: the ACK
/// of the last response is already sent.
#[derive(Debug, Default)]
pub(super) struct FlowControl {
    unread: Vec<Arc<WatcherQueue>>,
    deadline: Option<Instant>,
}

impl FlowControl {
    /// Lets the next read wait for this watcher. `timeout` starts with the first watcher, and is for all of them
    /// together.
    pub(super) fn wait_for(&mut self, queue: &Arc<WatcherQueue>, timeout: Duration) {
        if !self
            .unread
            .last()
            .is_some_and(|last| Arc::ptr_eq(last, queue))
        {
            self.deadline
                .get_or_insert_with(|| after(Instant::now(), timeout));
            self.unread.push(Arc::clone(queue));
        }
    }

    /// Waits until all watchers have read their updates, or the timeout has passed. Cancel-safe.
    pub(super) async fn ready(&mut self) {
        if let Some(deadline) = self.deadline {
            while let Some(queue) = self.unread.last() {
                if tokio::time::timeout_at(deadline, queue.empty())
                    .await
                    .is_err()
                {
                    self.unread.clear();
                }
                self.unread.pop();
            }
            self.deadline = None;
        }
    }
}
