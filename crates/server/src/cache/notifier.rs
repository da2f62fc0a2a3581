//! Whether the status may have changed, so that nobody has to ask again and again.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::SystemTime;

use tokio::sync::Notify;

/// Beats with all that the status page tells of: what is served, what clients are sent and answer, their coming and
/// going, and what the store finds.
#[derive(Debug)]
pub(crate) struct ChangeNotifier {
    /// Of this process: another one begins to count anew.
    born: u128,
    beats: AtomicU64,
    heard: Notify,
}

impl ChangeNotifier {
    /// It beats: a counter, and a lock that is hardly ever held.
    pub(crate) fn notify(&self) {
        self.beats.fetch_add(1, SeqCst);
        self.heard.notify_waiters();
    }

    /// A text that is another one after each beat. Take it before looking at what it stands for.
    pub(crate) fn tag(&self) -> String {
        format!("{:x}-{:x}", self.born, self.beats.load(SeqCst))
    }

    /// Waits until the tag is another than this.
    pub(crate) async fn changed_from(&self, tag: &str) {
        loop {
            let mut heard = std::pin::pin!(self.heard.notified());
            // Before looking: what beats from here on is heard.
            heard.as_mut().enable();
            if self.tag() != tag {
                return;
            }
            heard.await;
        }
    }
}

impl Default for ChangeNotifier {
    fn default() -> Self {
        let born = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Self {
            born: born.unwrap_or_default().as_nanos(),
            beats: AtomicU64::new(0),
            heard: Notify::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn who_waits_is_told_of_the_next_beat_and_of_one_that_was() {
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
}
