//! How fast a stream is read: no faster than those read who watch what it brings (C-87).

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::mailbox::Mailbox;

/// Who has yet to read what the last response brought. The answer to it has gone out: nobody waits for that.
#[derive(Debug, Default)]
pub(super) struct Pace {
    slow: Vec<Arc<Mailbox>>,
    until: Option<Instant>,
}

impl Pace {
    /// The next response waits for this reader, but no longer than so long for all of them.
    pub(super) fn wait_for(&mut self, reader: &Arc<Mailbox>, patience: Duration) {
        if !self
            .slow
            .last()
            .is_some_and(|last| Arc::ptr_eq(last, reader))
        {
            self.until.get_or_insert_with(|| Instant::now() + patience);
            self.slow.push(Arc::clone(reader));
        }
    }

    /// Waits until they have read, or have had their time. Cancel-safe.
    pub(super) async fn keep(&mut self) {
        if let Some(until) = self.until {
            while let Some(slow) = self.slow.last() {
                if tokio::time::timeout_at(until, slow.empty()).await.is_err() {
                    self.slow.clear();
                }
                self.slow.pop();
            }
            self.until = None;
        }
    }
}
