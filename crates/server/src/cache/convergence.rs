//! Convergence: how long it takes until all clients that a change concerns have answered it.
//!
//! ```text
//!              ┌── a change that concerns a session ──┐       the last session that is behind answers or ends
//!   converged ─┘                                      └─► open ───────────────────────────────────────────────► converged
//!                                                         │  ▲                      each open change is observed
//!                                                         └──┘ another change
//! ```
//!
//! A session is behind from the change that wakes it until its client has answered everything for the snapshot of that change. A
//! NACK is an answer, and is counted elsewhere. The work is an atomic operation per wake-up and answer; nothing walks over all clients.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;
use std::time::Instant;

use futures_util::task::AtomicWaker;
use prometheus_client::metrics::histogram::Histogram;

/// Upper bounds of the histogram, in seconds: from a push on one machine to clients that take minutes.
const BUCKETS: [f64; 14] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0,
];

/// Open changes that are observed one by one. Further ones begin while clients are this far behind, and are not observed.
const MAX_OPEN: usize = 64;

/// The changes that clients have not answered yet.
#[derive(Debug)]
pub(crate) struct Convergence {
    /// Number of the latest change.
    latest: AtomicU64,
    /// Sessions that are behind, and one more while a change wakes sessions.
    behind: AtomicUsize,
    /// Whether the change that wakes sessions at present has concerned one.
    concerns: AtomicBool,
    /// Times of the open changes. Changes begin with the lock.
    open: Mutex<Vec<Instant>>,
    seconds: Histogram,
}

impl Default for Convergence {
    fn default() -> Self {
        Self {
            latest: AtomicU64::new(0),
            behind: AtomicUsize::new(0),
            concerns: AtomicBool::new(false),
            open: Mutex::default(),
            seconds: Histogram::new(BUCKETS),
        }
    }
}

impl Convergence {
    /// Returns the histogram of all changes that were answered.
    pub(crate) fn histogram(&self) -> Histogram {
        self.seconds.clone()
    }

    /// Returns the number of sessions whose clients have not answered all changes.
    pub(crate) fn behind(&self) -> usize {
        self.behind.load(SeqCst)
    }

    /// Runs `wake`, which wakes the sessions that a change concerns. One writer at a time.
    pub(super) fn change<T>(&self, wake: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        self.latest.fetch_add(1, SeqCst);
        self.concerns.store(false, SeqCst);
        let is_open = {
            let mut open = self.lock();
            // Counted like a session: the first client may answer before the last one is woken.
            self.behind.fetch_add(1, SeqCst);
            let is_open = open.len() < MAX_OPEN;
            if is_open {
                open.push(began);
            }
            is_open
        };
        let result = wake();
        if is_open && !self.concerns.load(SeqCst) {
            self.lock().pop();
        }
        self.answered();
        result
    }

    /// A session is no longer behind.
    fn answered(&self) {
        if self.behind.fetch_sub(1, SeqCst) > 1 {
            return;
        }
        let mut open = self.lock();
        // Another change may have begun meanwhile: its end observes these, too.
        if self.behind.load(SeqCst) == 0 {
            for began in open.drain(..) {
                self.seconds.observe(began.elapsed().as_secs_f64());
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Instant>> {
        // Each change leaves a complete list, so poisoning does not matter.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Value of [`SessionWaker::behind`] for sessions whose clients do not answer, such as those of file sinks.
const NOT_FOLLOWED: u64 = u64::MAX;

/// Wakes a session, and knows since which change its client is behind.
#[derive(Debug)]
pub(super) struct SessionWaker {
    waker: AtomicWaker,
    /// Number of the latest change that concerned the session; 0 after the client has answered it.
    behind: AtomicU64,
    convergence: Arc<Convergence>,
}

impl SessionWaker {
    pub(super) fn new(convergence: Arc<Convergence>) -> Self {
        Self {
            waker: AtomicWaker::new(),
            behind: AtomicU64::new(NOT_FOLLOWED),
            convergence,
        }
    }

    pub(super) fn register(&self, waker: &Waker) {
        self.waker.register(waker);
    }

    pub(super) fn wake(&self) {
        self.waker.wake();
    }

    /// Wakes the session for a change, see [`Convergence::change`].
    pub(super) fn wake_for_change(&self) {
        let latest = self.convergence.latest.load(SeqCst);
        let followed = |behind| (behind != NOT_FOLLOWED).then_some(latest);
        if let Ok(before) = self.behind.fetch_update(SeqCst, SeqCst, followed) {
            self.convergence.concerns.store(true, SeqCst);
            if before == 0 {
                self.convergence.behind.fetch_add(1, SeqCst);
            }
        }
        self.waker.wake();
    }

    /// From now on the session answers changes. Called once.
    pub(super) fn follow(&self) {
        self.behind.store(0, SeqCst);
    }

    pub(super) fn is_followed(&self) -> bool {
        self.behind.load(SeqCst) != NOT_FOLLOWED
    }

    /// Returns the change that the client has not answered, if any. Read it before the snapshot that is compared.
    pub(super) fn behind(&self) -> Option<u64> {
        Some(self.behind.load(SeqCst)).filter(|change| ![0, NOT_FOLLOWED].contains(change))
    }

    /// The client has answered everything up to this change.
    pub(super) fn answered(&self, change: u64) {
        let exchanged = self.behind.compare_exchange(change, 0, SeqCst, SeqCst);
        if exchanged.is_ok() {
            self.convergence.answered();
        }
    }

    /// The session has ended. It must not be woken any more.
    pub(super) fn end(&self) {
        let change = self.behind.swap(NOT_FOLLOWED, SeqCst);
        if ![0, NOT_FOLLOWED].contains(&change) {
            self.convergence.answered();
        }
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::registry::Registry;

    use super::*;

    struct Rig(Arc<Convergence>);

    impl Rig {
        fn session(&self) -> SessionWaker {
            let session = SessionWaker::new(Arc::clone(&self.0));
            session.follow();
            session
        }

        fn change(&self, concerned: &[&SessionWaker]) {
            self.0.change(|| {
                concerned
                    .iter()
                    .for_each(|session| session.wake_for_change());
            });
        }

        /// Returns how many changes were observed, and how many sessions are behind.
        fn state(&self) -> (usize, usize) {
            let mut registry = Registry::default();
            registry.register("c", "c", self.0.histogram());
            let text = crate::metrics::render(&registry).unwrap();
            let count = text.lines().find_map(|line| line.strip_prefix("c_count "));
            (count.unwrap().parse().unwrap(), self.0.behind())
        }
    }

    fn answer(session: &SessionWaker) {
        session.answered(session.behind().unwrap());
    }

    /// Given two sessions, then a change is observed when the second one answers, and a change of none is not observed.
    #[test]
    fn convergence_is_observed_with_the_last_answer() {
        let rig = Rig(Arc::default());
        let (a, b) = (rig.session(), rig.session());
        rig.change(&[]);
        assert_eq!(rig.state(), (0, 0));
        rig.change(&[&a, &b]);
        answer(&a);
        assert_eq!((rig.state(), a.behind()), ((0, 1), None));
        answer(&b);
        assert_eq!(rig.state(), (1, 0));
    }

    /// Given a session that answers the first of two changes after it was woken for the second, then it stays behind.
    #[test]
    fn answer_to_an_older_change_is_not_the_last() {
        let rig = Rig(Arc::default());
        let a = rig.session();
        rig.change(&[&a]);
        let first = a.behind().unwrap();
        rig.change(&[&a]);
        a.answered(first);
        assert_eq!(rig.state(), (0, 1));
        answer(&a);
        assert_eq!(rig.state(), (2, 0));
    }

    /// Given a client that disconnects while it is behind, then the others decide. A sink of files is never behind.
    #[test]
    fn ended_and_unfollowed_sessions_do_not_count() {
        let rig = Rig(Arc::default());
        let (a, sink) = (rig.session(), SessionWaker::new(Arc::clone(&rig.0)));
        rig.change(&[&sink]);
        assert_eq!(rig.state(), (0, 0));
        rig.change(&[&a, &sink]);
        a.end();
        assert_eq!(rig.state(), (1, 0));
        sink.end();
        assert_eq!(rig.state(), (1, 0));
    }

    /// Given a client that never answers, then the list of open changes has a limit.
    #[test]
    fn open_changes_are_bounded() {
        let rig = Rig(Arc::default());
        let a = rig.session();
        (0..2 * MAX_OPEN).for_each(|_| rig.change(&[&a]));
        assert_eq!(rig.0.lock().len(), MAX_OPEN);
        answer(&a);
        assert_eq!(rig.state(), (MAX_OPEN, 0));
    }
}
