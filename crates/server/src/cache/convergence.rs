//! Convergence: how far clients are with each change that concerns them. It is the source of the metric `oxds_convergence_seconds` and
//! of the history.
//!
//! ```text
//!               wake_for_change                        the client answers everything, or ends
//!   session:  ─────────────────▶ behind: owes changes ───────────────────────────────────────▶ owes nothing
//!                                  ▲  │ another change, or a NACK
//!                                  └──┘
//!   change:   begin ─▶ wakes sessions, each counts ─▶ woken ─▶ the last count is gone: observed, and answered in the history
//! ```
//!
//! A session is behind from the change that wakes it until its client has answered everything for the snapshot of that change. While
//! changes follow each other faster than its answers, it stays behind, and each change leaves what it owes when the client has answered
//! the state with that change. A NACK is an answer, and is counted elsewhere. The work is a lock of the session's own and some atomic operations per wake-up and
//! answer; nothing walks over all clients.

use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Instant as StdInstant;

use futures_util::task::AtomicWaker;
use oxds_core::rollout::{RolloutContents, RolloutNack, RolloutSource, Rollouts, Unanswered};
use oxds_core::snapshot::Revision;
use oxds_core::time::Instant;
use prometheus_client::metrics::histogram::Histogram;

use super::notifier::ChangeNotifier;

/// Upper bounds of the histogram, in seconds: from a push on one machine to clients that take minutes.
const BUCKETS: [f64; 14] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0,
];

/// Changes that a session may owe one by one. It is lost for further ones, which are then not observed.
const MAX_OWED: usize = 64;

/// The changes that clients have not answered yet, and the history of all.
#[derive(Debug)]
pub(crate) struct Convergence {
    started: StdInstant,
    /// Sessions that are behind.
    behind: AtomicUsize,
    rollouts: Mutex<Rollouts>,
    seconds: Histogram,
    /// Notified when a session is no longer behind.
    notifier: Arc<ChangeNotifier>,
}

/// A change, and how many sessions owe an answer.
#[derive(Debug)]
pub(super) struct OpenChange {
    number: u64,
    began: Instant,
    /// Sessions that owe an answer, and one more until all are woken: the first client may answer before the last one is woken.
    owing: AtomicUsize,
    /// Sessions that it concerns.
    concerned: AtomicUsize,
    /// Those of them that are too far behind to be followed.
    lost: AtomicUsize,
}

impl Convergence {
    pub(super) fn new(notifier: Arc<ChangeNotifier>) -> Self {
        Self {
            started: StdInstant::now(),
            behind: AtomicUsize::new(0),
            rollouts: Mutex::default(),
            seconds: Histogram::new(BUCKETS),
            notifier,
        }
    }

    /// Returns the histogram of all changes that were answered.
    pub(crate) fn histogram(&self) -> Histogram {
        self.seconds.clone()
    }

    /// Returns the number of sessions whose clients have not answered all changes.
    pub(crate) fn behind(&self) -> usize {
        self.behind.load(SeqCst)
    }

    /// Returns the latest changes. Hold the lock for a short time: answers wait for it.
    pub(crate) fn rollouts(&self) -> MutexGuard<'_, Rollouts> {
        // Each call of the machine leaves a complete state, so poisoning does not matter.
        self.rollouts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of the latest change; 0 before the first one.
    pub(crate) fn latest(&self) -> u64 {
        self.rollouts().latest()
    }

    /// Returns the time of the history.
    pub(crate) fn now(&self) -> Instant {
        Instant::from_epoch(self.started.elapsed())
    }

    /// Begins a change. Wake the sessions that it concerns, then call [`woken`](Self::woken). One writer at a time.
    pub(super) fn begin(
        &self,
        source: RolloutSource,
        contents: RolloutContents,
    ) -> Arc<OpenChange> {
        let began = self.now();
        Arc::new(OpenChange {
            number: self.rollouts().begin(began, source, contents),
            began,
            owing: AtomicUsize::new(1),
            concerned: AtomicUsize::new(0),
            lost: AtomicUsize::new(0),
        })
    }

    /// All sessions that a change concerns are woken.
    pub(super) fn woken(&self, change: &OpenChange) {
        let (concerned, lost) = (change.concerned.load(SeqCst), change.lost.load(SeqCst));
        self.rollouts().woken(change.number, concerned, lost);
        self.answered(change);
    }

    /// A session owes no answer to a change any more.
    fn answered(&self, change: &OpenChange) {
        if change.owing.fetch_sub(1, SeqCst) > 1 {
            return;
        }
        let now = self.now();
        if change.concerned.load(SeqCst) > 0 && change.lost.load(SeqCst) == 0 {
            let seconds = now.saturating_since(change.began).as_secs_f64();
            self.seconds.observe(seconds);
        }
        self.rollouts().answered(now, change.number);
    }
}

/// Value of [`SessionWaker::behind`] for sessions whose clients do not answer, such as those of file sinks.
const NOT_FOLLOWED: u64 = u64::MAX;

/// Wakes a session, and knows which changes its client has not answered.
#[derive(Debug)]
pub(super) struct SessionWaker {
    waker: AtomicWaker,
    /// Number of the latest change that concerned the session; 0 after the client has answered it. Changed with the lock of `owed`.
    behind: AtomicU64,
    /// The client has not answered anything yet. Changed with the lock of `owed`.
    is_new: AtomicBool,
    owed: Mutex<Debt>,
    convergence: Arc<Convergence>,
}

/// Changes that a client has not answered.
#[derive(Debug, Default)]
struct Debt {
    /// Oldest first.
    changes: Vec<Owed>,
    /// Changes for which there was no room.
    lost: Option<Lost>,
    /// State at which the client connected, until it has answered that, or a later one.
    connected: Option<At>,
}

/// A change, and the revision of the client's view after it.
#[derive(Debug, Clone, Copy)]
struct At {
    number: u64,
    revision: Revision,
}

/// The oldest of the changes that are not followed, and the revision of the latest one.
#[derive(Debug)]
struct Lost {
    number: u64,
    revision: Revision,
}

/// A change that a client has not answered.
#[derive(Debug)]
struct Owed {
    change: Arc<OpenChange>,
    revision: Revision,
    /// Whether the client has NACKed a part of it.
    is_nacked: bool,
}

impl SessionWaker {
    pub(super) fn new(convergence: Arc<Convergence>) -> Self {
        Self {
            waker: AtomicWaker::new(),
            behind: AtomicU64::new(NOT_FOLLOWED),
            is_new: AtomicBool::new(false),
            owed: Mutex::default(),
            convergence,
        }
    }

    pub(super) fn register(&self, waker: &Waker) {
        self.waker.register(waker);
    }

    pub(super) fn wake(&self) {
        self.waker.wake();
    }

    /// Wakes the session for a change that made this revision of its view, see [`Convergence::begin`].
    pub(super) fn wake_for_change(&self, change: &Arc<OpenChange>, revision: Revision) {
        let mut owed = self.owed();
        let before = self.behind.load(SeqCst);
        if before != NOT_FOLLOWED {
            change.concerned.fetch_add(1, SeqCst);
            if owed.changes.len() < MAX_OWED {
                change.owing.fetch_add(1, SeqCst);
                owed.changes.push(Owed {
                    change: Arc::clone(change),
                    revision,
                    is_nacked: false,
                });
            } else {
                change.lost.fetch_add(1, SeqCst);
                let number = owed.lost.as_ref().map_or(change.number, |lost| lost.number);
                owed.lost = Some(Lost { number, revision });
            }
            self.behind.store(change.number, SeqCst);
            if before == 0 {
                self.convergence.behind.fetch_add(1, SeqCst);
            }
        }
        drop(owed);
        self.waker.wake();
    }

    /// From now on the session answers changes. Its view is at this revision, or later. Called once.
    pub(super) fn follow(&self, revision: Revision) {
        let number = self.convergence.latest();
        let mut owed = self.owed();
        owed.connected = Some(At { number, revision });
        self.is_new.store(true, SeqCst);
        self.behind.store(0, SeqCst);
    }

    pub(super) fn is_followed(&self) -> bool {
        self.behind.load(SeqCst) != NOT_FOLLOWED
    }

    /// Returns the latest change that the client has not answered, if any.
    #[cfg(any(test, feature = "page"))]
    pub(super) fn behind(&self) -> Option<u64> {
        self.open().filter(|change| *change != 0)
    }

    /// Returns the latest change that the client has not answered, or 0 if that is only the state at which it connected. `None` if it has
    /// answered everything. Read it before the snapshot that is compared.
    pub(super) fn open(&self) -> Option<u64> {
        let change = self.behind.load(SeqCst);
        let is_open = change != 0 || self.is_new.load(SeqCst);
        (is_open && change != NOT_FOLLOWED).then_some(change)
    }

    /// Returns what the client has not answered.
    pub(super) fn unanswered(&self) -> Unanswered {
        let owed = self.owed();
        let oldest = owed.changes.first().map(|owed| owed.change.number);
        let lost = owed.lost.as_ref().map(|lost| lost.number);
        Unanswered {
            change: oldest.into_iter().chain(lost).min(),
            connected: owed.connected.map(|at| at.number),
        }
    }

    /// Whether the client has not answered this change.
    #[cfg(any(test, feature = "page"))]
    pub(super) fn owes(&self, number: u64) -> bool {
        let owed = self.owed();
        let mut owed = owed.changes.iter();
        owed.any(|owed| owed.change.number == number)
    }

    /// The client has NACKed a response. Changes that it has not answered get the NACK, each at most one of a client.
    pub(super) fn nacked(&self, nack: &RolloutNack) {
        let mut owed = self.owed();
        let unknown = owed.changes.iter().filter(|owed| !owed.is_nacked);
        let numbers: Vec<u64> = unknown.map(|owed| owed.change.number).collect();
        if numbers.is_empty() {
            return;
        }
        let about = self.convergence.rollouts().nacked(&numbers, nack);
        for owed in &mut owed.changes {
            owed.is_nacked |= about.contains(&owed.change.number);
        }
    }

    /// The client has answered everything up to this change, see [`open`](Self::open).
    pub(super) fn answered(&self, change: u64) {
        let mut owed = self.owed();
        if self.behind.load(SeqCst) != change {
            return;
        }
        self.behind.store(0, SeqCst);
        self.is_new.store(false, SeqCst);
        let answered = mem::take(&mut *owed).changes;
        drop(owed);
        self.settle(&answered, change != 0);
    }

    /// The client has answered everything of the states up to this revision, and not yet the state that is served.
    pub(super) fn answered_through(&self, revision: Revision) {
        let mut owed = self.owed();
        let count = owed
            .changes
            .partition_point(|owed| owed.revision <= revision);
        let answered: Vec<Owed> = owed.changes.drain(..count).collect();
        let was_lost = owed
            .lost
            .take_if(|lost| lost.revision <= revision)
            .is_some();
        let was_new = owed
            .connected
            .take_if(|at| at.revision <= revision)
            .is_some();
        if was_new {
            self.is_new.store(false, SeqCst);
        }
        drop(owed);
        if was_lost || was_new || !answered.is_empty() {
            self.settle(&answered, false);
        }
    }

    /// The session has ended. It must not be woken any more.
    pub(super) fn end(&self) {
        let mut owed = self.owed();
        let change = self.behind.swap(NOT_FOLLOWED, SeqCst);
        let answered = mem::take(&mut *owed).changes;
        drop(owed);
        if ![0, NOT_FOLLOWED].contains(&change) {
            self.settle(&answered, true);
        }
    }

    /// The client owes these changes no more.
    fn settle(&self, answered: &[Owed], was_behind: bool) {
        if was_behind {
            self.convergence.behind.fetch_sub(1, SeqCst);
        }
        answered
            .iter()
            .for_each(|owed| self.convergence.answered(&owed.change));
        self.convergence.notifier.notify();
    }

    fn owed(&self) -> MutexGuard<'_, Debt> {
        // Each change leaves a complete list, so poisoning does not matter.
        self.owed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Handle to how far the client of a session is.
#[derive(Debug, Clone)]
pub(crate) struct Answers(Arc<SessionWaker>);

impl Answers {
    pub(super) fn new(waker: &Arc<SessionWaker>) -> Self {
        Self(Arc::clone(waker))
    }

    /// Returns what the client has not answered.
    pub(crate) fn unanswered(&self) -> Unanswered {
        self.0.unanswered()
    }

    /// Whether the client has not answered a change that concerns it.
    #[cfg(feature = "page")]
    pub(crate) fn is_behind(&self) -> bool {
        self.0.behind().is_some()
    }

    /// Whether the client has not answered the change with this number.
    #[cfg(feature = "page")]
    pub(crate) fn owes(&self, number: u64) -> bool {
        self.0.owes(number)
    }
}

#[cfg(test)]
mod tests {
    use oxds_core::rollout::{ChangeSort, RolloutState};
    use oxds_types::ResourceType;
    use prometheus_client::registry::Registry;

    use super::*;

    struct Rig(Arc<Convergence>);

    impl Rig {
        fn new() -> Self {
            Self(Arc::new(Convergence::new(Arc::default())))
        }

        fn session(&self) -> SessionWaker {
            let session = SessionWaker::new(Arc::clone(&self.0));
            session.follow(Revision::UNLOADED);
            session.answered(0);
            session
        }

        /// Changes a cluster that these sessions watch, and returns the number of the change.
        fn change(&self, concerned: &[&SessionWaker]) -> u64 {
            let mut contents = RolloutContents::default();
            let key = (ResourceType::CLUSTER, "a".into());
            contents.add(ChangeSort::Changed, &key, None);
            let change = self.0.begin(RolloutSource::default(), contents);
            concerned
                .iter()
                .for_each(|session| session.wake_for_change(&change, self.revision()));
            self.0.woken(&change);
            change.number
        }

        /// Returns the revision of the state after the latest change.
        fn revision(&self) -> Revision {
            let nothing = oxds_core::snapshot::ChangeSet::default;
            let first = oxds_core::snapshot::Snapshot::unloaded();
            let states = (0..self.0.latest()).fold(first, |state, n| {
                let cluster = envoy_types::pb::envoy::config::cluster::v3::Cluster {
                    name: n.to_string(),
                    ..Default::default()
                };
                let cluster = oxds_core::snapshot::Resource::of(&cluster).unwrap();
                state.apply(nothing().put(cluster)).0
            });
            states.revision()
        }

        /// Returns how many changes were observed, and how many sessions are behind.
        fn state(&self) -> (usize, usize) {
            let mut registry = Registry::default();
            registry.register("c", "c", self.0.histogram());
            let page = crate::metrics::render(&registry, &http::HeaderMap::new()).unwrap();
            let count = page
                .text
                .lines()
                .find_map(|line| line.strip_prefix("c_count "));
            (count.unwrap().parse().unwrap(), self.0.behind())
        }

        fn rollout(&self, number: u64) -> RolloutState {
            self.0.rollouts().get(number).unwrap().state
        }

        fn is_answered(&self, number: u64) -> bool {
            matches!(self.rollout(number), RolloutState::Answered { .. })
        }
    }

    fn answer(session: &SessionWaker) {
        session.answered(session.behind().unwrap());
    }

    /// Given two sessions, then a change is observed when the second one answers, and a change of none is not observed.
    #[test]
    fn convergence_is_observed_with_the_last_answer() {
        let rig = Rig::new();
        let (a, b) = (rig.session(), rig.session());
        let alone = rig.change(&[]);
        assert_eq!(rig.state(), (0, 0));
        assert_eq!(rig.rollout(alone), RolloutState::NoClient);
        let both = rig.change(&[&a, &b]);
        answer(&a);
        assert_eq!((rig.state(), a.behind()), ((0, 1), None));
        assert!(!rig.is_answered(both) && !a.owes(both) && b.owes(both));
        answer(&b);
        assert_eq!(rig.state(), (1, 0));
        assert!(rig.is_answered(both));
    }

    /// Given a session that answers the first of two changes after it was woken for the second, then it stays behind.
    #[test]
    fn answer_to_an_older_change_is_not_the_last() {
        let rig = Rig::new();
        let a = rig.session();
        rig.change(&[&a]);
        let first = a.behind().unwrap();
        rig.change(&[&a]);
        a.answered(first);
        assert_eq!(rig.state(), (0, 1));
        answer(&a);
        assert_eq!(rig.state(), (2, 0));
    }

    /// Given a client that does not answer, when a change concerns only another one, then that change is observed.
    #[test]
    fn silent_client_delays_only_what_concerns_it() {
        let rig = Rig::new();
        let (silent, other) = (rig.session(), rig.session());
        let open = rig.change(&[&silent]);
        let done = rig.change(&[&other]);
        answer(&other);
        assert_eq!(rig.state(), (1, 1));
        assert!(rig.is_answered(done) && !rig.is_answered(open));
    }

    /// Given a client that disconnects while it is behind, then the others decide. A sink of files is never behind.
    #[test]
    fn ended_and_unfollowed_sessions_do_not_count() {
        let rig = Rig::new();
        let (a, sink) = (rig.session(), SessionWaker::new(Arc::clone(&rig.0)));
        rig.change(&[&sink]);
        assert_eq!(rig.state(), (0, 0));
        rig.change(&[&a, &sink]);
        a.end();
        assert_eq!(rig.state(), (1, 0));
        sink.end();
        assert_eq!(rig.state(), (1, 0));
    }

    /// Given a client that never answers, then what it owes has a limit. A change beyond it is not observed, and says so.
    #[test]
    fn owed_changes_are_bounded() {
        let rig = Rig::new();
        let (a, b) = (rig.session(), rig.session());
        let numbers: Vec<u64> = (0..=MAX_OWED).map(|_| rig.change(&[&a, &b])).collect();
        assert_eq!(a.owed().changes.len(), MAX_OWED);
        assert_eq!(a.unanswered().change, Some(numbers[0]));
        answer(&b);
        answer(&a);
        assert_eq!(rig.state(), (MAX_OWED, 0));
        let last = rig.rollout(numbers[MAX_OWED]);
        let (clients, lost) = (2, 2);
        assert_eq!(last, RolloutState::Open { clients, lost });
    }

    /// Given a client that answers each state after the next change, so that it is always behind, then each change is answered, and what
    /// is unanswered advances; also beyond the changes that are not followed.
    #[test]
    fn g37_client_that_is_always_behind_answers_changes() {
        let rig = Rig::new();
        let a = rig.session();
        for _ in 0..3 {
            let first = rig.change(&[&a]);
            let answered = rig.revision();
            let second = rig.change(&[&a]);
            assert_eq!(a.unanswered().change, Some(first));
            a.answered_through(answered);
            assert!(rig.is_answered(first) && !rig.is_answered(second));
            assert_eq!((a.unanswered().change, rig.0.behind()), (Some(second), 1));
            a.answered_through(rig.revision());
            assert_eq!(a.unanswered().change, None);
        }
        let numbers: Vec<u64> = (0..=MAX_OWED).map(|_| rig.change(&[&a])).collect();
        let revision = rig.revision();
        let last = rig.change(&[&a]);
        a.answered_through(Revision::UNLOADED);
        assert_eq!(a.unanswered().change, Some(numbers[0]));
        a.answered_through(revision);
        assert_eq!(a.unanswered().change, Some(numbers[MAX_OWED]));
        a.answered(last);
        assert_eq!((a.unanswered(), rig.0.behind()), (Unanswered::default(), 0));
    }

    /// Given a client that connects, then the state at that time is unanswered until its first answer, and it is not behind.
    #[test]
    fn g37_new_client_has_not_answered_the_state() {
        let rig = Rig::new();
        let latest = rig.change(&[]);
        let a = SessionWaker::new(Arc::clone(&rig.0));
        a.follow(rig.revision());
        assert_eq!((a.unanswered().connected, a.behind()), (Some(latest), None));
        let change = rig.change(&[&a]);
        a.answered(0);
        assert_eq!(a.unanswered().connected, Some(latest), "a change was later");
        a.answered(change);
        assert_eq!((a.unanswered(), a.open()), (Unanswered::default(), None));
        let b = SessionWaker::new(Arc::clone(&rig.0));
        b.follow(rig.revision());
        b.answered_through(rig.revision());
        assert_eq!((b.unanswered(), b.open()), (Unanswered::default(), None));
    }

    /// Given a client that NACKs a change twice, as while the invalid resource is isolated, then it counts once.
    #[test]
    fn nacks_of_one_client_count_once() {
        let rig = Rig::new();
        let a = rig.session();
        let number = rig.change(&[&a]);
        let nack = RolloutNack {
            node: "a".into(),
            resource_type: ResourceType::CLUSTER,
            names: Vec::new(),
            reason: "no".into(),
        };
        a.nacked(&nack);
        a.nacked(&nack);
        answer(&a);
        a.nacked(&nack);
        let rollouts = rig.0.rollouts();
        let rollout = rollouts.get(number).unwrap();
        assert_eq!((rollout.nacked, rollout.nacks.len()), (1, 1));
    }
}
