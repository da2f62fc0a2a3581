//! Change notifier: tells readers of the status that it may have changed, so that they need not poll.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::SystemTime;

use tokio::sync::Notify;

/// Counter of all changes that the status shows: resources, responses and their ACKs or NACKs, streams that open or
/// end, and store errors. What other servers report is counted apart: it changes what pages show, and nothing about
/// this server.
#[derive(Debug)]
pub(crate) struct ChangeNotifier {
    /// Start time of this process, in nanoseconds: a tag of another process must not match.
    epoch: u128,
    changes: AtomicU64,
    /// Changes of other servers.
    others: AtomicU64,
    notify: Notify,
}

impl ChangeNotifier {
    /// Counts a change, and wakes the waiting readers. Costs an atomic addition and a lock that is rarely contended.
    pub(crate) fn notify(&self) {
        self.changes.fetch_add(1, SeqCst);
        self.notify.notify_waiters();
    }

    /// Counts a change of other servers, and wakes the waiting readers of pages.
    #[cfg(feature = "etcd")]
    pub(crate) fn notify_of_others(&self) {
        self.others.fetch_add(1, SeqCst);
        self.notify.notify_waiters();
    }

    /// Returns a tag of the current state, other servers included. Read it before the state.
    pub(crate) fn tag(&self) -> String {
        let others = self.others.load(SeqCst);
        format!("{:x}-{:x}-{others:x}", self.epoch, self.own())
    }

    /// Returns the number of changes of this server. Read it before the state.
    pub(crate) fn own(&self) -> u64 {
        self.changes.load(SeqCst)
    }

    /// Waits until the tag differs from this one.
    pub(crate) async fn changed_from(&self, tag: &str) {
        self.until(|| self.tag() != tag).await;
    }

    /// Waits for a change of this server after this many.
    #[cfg(feature = "etcd")]
    pub(crate) async fn changed_after(&self, own: u64) {
        self.until(|| self.own() != own).await;
    }

    async fn until(&self, is_over: impl Fn() -> bool) {
        loop {
            let mut notified = std::pin::pin!(self.notify.notified());
            // Before the state is compared: a change from here on completes the future.
            notified.as_mut().enable();
            if is_over() {
                return;
            }
            notified.await;
        }
    }
}

impl Default for ChangeNotifier {
    fn default() -> Self {
        let epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Self {
            epoch: epoch.unwrap_or_default().as_nanos(),
            changes: AtomicU64::new(0),
            others: AtomicU64::new(0),
            notify: Notify::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn wait_ends_with_the_next_change_or_an_earlier_one() {
        let notifier = ChangeNotifier::default();
        let tag = notifier.tag();
        let mut waiting = std::pin::pin!(notifier.changed_from(&tag));
        let soon = timeout(Duration::from_millis(20), waiting.as_mut()).await;
        assert!(soon.is_err());
        notifier.notify();
        waiting.await;
        notifier.changed_from(&tag).await;
        assert_ne!(notifier.tag(), tag);
    }

    /// Given a change of another server, then pages have another tag, and nothing about this server has changed.
    #[cfg(feature = "etcd")]
    #[tokio::test]
    async fn changes_of_others_are_no_own_changes() {
        let notifier = ChangeNotifier::default();
        let (tag, own) = (notifier.tag(), notifier.own());
        let mut waiting = std::pin::pin!(notifier.changed_after(own));
        notifier.notify_of_others();
        notifier.changed_from(&tag).await;
        assert!(futures_util::poll!(waiting.as_mut()).is_pending());
        notifier.notify();
        waiting.await;
    }
}
