//! Convergence: how far clients are with each change that concerns them. It is the source of the metric
//! `oxds_convergence_seconds` and of the history.
//!
//! ```text
//!               wake_for_change                    the client answers everything, or ends
//!   session:  ─────────────────▶ pending changes ─────────────────────────────────────────▶ nothing unanswered
//!                                  ▲  │ another change, or a NACK
//!                                  └──┘
//!   change:   begin ─▶ wakes sessions, each counts ─▶ woken ─▶ no count left: observed, answered in the history
//! ```
//!
//! A session has pending changes from the change that wakes it until its client has answered everything for the
//! snapshot of the latest one. If changes arrive faster than answers, the session stays behind. A change is removed
//! from its list once the client has answered a state that contains it. A NACK is an answer, and is counted elsewhere.
//! The work is a lock of the session's own and some atomic operations per wake-up and answer; nothing walks over all
//! clients.

use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Instant as StdInstant;

use futures_util::task::AtomicWaker;
use oxds_core::rollout::{self, RolloutContents, RolloutNack, RolloutSource, Rollouts};
use oxds_core::snapshot::Revision;
use oxds_core::time::Instant;
use prometheus_client::metrics::histogram::Histogram;

use super::notifier::ChangeNotifier;

/// Upper bounds of the histogram, in seconds: from a push on one machine to clients that take minutes.
const BUCKETS: [f64; 14] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0,
];

/// Unanswered changes that are tracked per session. Changes beyond this limit are not tracked, and then not observed.
const MAX_TRACKED: usize = 64;

/// The changes that clients have not answered yet, and the history of all.
#[derive(Debug)]
pub(crate) struct Convergence {
    started: StdInstant,
    /// Sessions with pending changes.
    pending_sessions: AtomicUsize,
    rollouts: Mutex<Rollouts>,
    seconds: Histogram,
    /// Notified when a client has answered changes.
    notifier: Arc<ChangeNotifier>,
}

/// A change, and the number of sessions that have not answered it.
#[derive(Debug)]
pub(super) struct OpenChange {
    number: u64,
    began: Instant,
    /// Sessions that have not answered, and one more until all are woken: the first client may answer before the last
    /// one is woken.
    remaining: AtomicUsize,
    /// Sessions that it concerns.
    concerned: AtomicUsize,
    /// Those of them that had too many pending changes to track this one.
    untracked: AtomicUsize,
}

impl Convergence {
    pub(super) fn new(notifier: Arc<ChangeNotifier>) -> Self {
        Self {
            started: StdInstant::now(),
            pending_sessions: AtomicUsize::new(0),
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
    pub(crate) fn pending_sessions(&self) -> usize {
        self.pending_sessions.load(SeqCst)
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
            remaining: AtomicUsize::new(1),
            concerned: AtomicUsize::new(0),
            untracked: AtomicUsize::new(0),
        })
    }

    /// All sessions that a change concerns are woken.
    pub(super) fn woken(&self, change: &OpenChange) {
        let concerned = change.concerned.load(SeqCst);
        let untracked = change.untracked.load(SeqCst);
        self.rollouts().woken(change.number, concerned, untracked);
        self.answered(change);
    }

    /// A session has answered a change, or has ended.
    fn answered(&self, change: &OpenChange) {
        if change.remaining.fetch_sub(1, SeqCst) > 1 {
            return;
        }
        let now = self.now();
        if change.concerned.load(SeqCst) > 0 && change.untracked.load(SeqCst) == 0 {
            let seconds = now.saturating_since(change.began).as_secs_f64();
            self.seconds.observe(seconds);
        }
        self.rollouts().answered(now, change.number);
    }
}

/// Wakes a session, and knows which changes its client has not answered.
///
/// One lock guards the state. It is the session's own: only a change that wakes the session, and readers of the status,
/// ever wait for it, so no part of the state needs an atomic beside it.
#[derive(Debug)]
pub(super) struct SessionWaker {
    waker: AtomicWaker,
    answering: Mutex<Answering>,
    convergence: Arc<Convergence>,
}

/// Whether a session has a client that answers changes, and how far that is.
#[derive(Debug)]
enum Answering {
    /// The session of a file sink, one that has not begun, or one that has ended.
    NotFollowed,
    Followed(Unanswered),
}

/// The unanswered part of the states that a client was sent. Empty if it has answered everything.
#[derive(Debug, Default)]
struct Unanswered {
    /// The latest change that concerned the session, until the client has answered everything for it.
    latest: Option<u64>,
    /// Changes that are tracked one by one, oldest first.
    changes: Vec<PendingChange>,
    /// Changes for which there was no room.
    untracked: Option<ChangePoint>,
    /// State at which the client connected, until it has answered that, or a later one.
    connected: Option<ChangePoint>,
}

/// A change, and the revision of the client's view after it. For untracked changes: the oldest one, and the revision
/// after the latest one.
#[derive(Debug, Clone, Copy)]
struct ChangePoint {
    number: u64,
    revision: Revision,
}

/// A change that a client has not answered.
#[derive(Debug)]
struct PendingChange {
    change: Arc<OpenChange>,
    revision: Revision,
    /// Whether the client has NACKed a part of it.
    is_nacked: bool,
}

/// The latest thing that a client has not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LatestUnanswered {
    /// The state at which it connected. No change has concerned it since.
    Connected,
    /// The change with this number.
    Change(u64),
}

impl Unanswered {
    fn latest(&self) -> Option<LatestUnanswered> {
        match (self.latest, self.connected) {
            (Some(number), _) => Some(LatestUnanswered::Change(number)),
            (None, Some(_)) => Some(LatestUnanswered::Connected),
            (None, None) => None,
        }
    }

    /// Adds a change. Returns whether the client had answered all changes before.
    fn add(&mut self, change: &Arc<OpenChange>, revision: Revision) -> bool {
        change.concerned.fetch_add(1, SeqCst);
        if self.changes.len() < MAX_TRACKED {
            change.remaining.fetch_add(1, SeqCst);
            self.changes.push(PendingChange {
                change: Arc::clone(change),
                revision,
                is_nacked: false,
            });
        } else {
            change.untracked.fetch_add(1, SeqCst);
            let oldest = self.untracked.map(|untracked| untracked.number);
            self.untracked = Some(ChangePoint {
                number: oldest.unwrap_or(change.number),
                revision,
            });
        }
        let was_settled = self.latest.replace(change.number).is_none();
        debug_assert!(self.is_consistent());
        was_settled
    }

    /// Whether the changes are in their order, within their limit, and belong to a session that a change has concerned.
    fn is_consistent(&self) -> bool {
        let is_ordered = self
            .changes
            .is_sorted_by_key(|pending| pending.change.number);
        let has_changes = !self.changes.is_empty() || self.untracked.is_some();
        is_ordered && self.changes.len() <= MAX_TRACKED && (self.latest.is_some() || !has_changes)
    }
}

impl SessionWaker {
    pub(super) fn new(convergence: Arc<Convergence>) -> Self {
        Self {
            waker: AtomicWaker::new(),
            answering: Mutex::new(Answering::NotFollowed),
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
        let mut answering = self.answering();
        if let Answering::Followed(unanswered) = &mut *answering
            && unanswered.add(change, revision)
        {
            self.convergence.pending_sessions.fetch_add(1, SeqCst);
        }
        drop(answering);
        self.waker.wake();
    }

    /// From now on the session answers changes. Its view is at this revision, or later. Called once.
    pub(super) fn follow(&self, revision: Revision) {
        let number = self.convergence.latest();
        *self.answering() = Answering::Followed(Unanswered {
            connected: Some(ChangePoint { number, revision }),
            ..Unanswered::default()
        });
    }

    pub(super) fn is_followed(&self) -> bool {
        matches!(*self.answering(), Answering::Followed(_))
    }

    /// Whether the client has not answered all changes.
    #[cfg(any(test, feature = "page"))]
    pub(super) fn has_pending(&self) -> bool {
        matches!(self.latest_unanswered(), Some(LatestUnanswered::Change(_)))
    }

    /// Returns the latest thing that the client has not answered. `None` if it has answered everything. Read it before
    /// the snapshot that is compared.
    pub(super) fn latest_unanswered(&self) -> Option<LatestUnanswered> {
        match &*self.answering() {
            Answering::NotFollowed => None,
            Answering::Followed(unanswered) => unanswered.latest(),
        }
    }

    /// Returns what the client has not answered.
    pub(super) fn unanswered(&self) -> rollout::Unanswered {
        let Answering::Followed(unanswered) = &*self.answering() else {
            return rollout::Unanswered::default();
        };
        let oldest = unanswered.changes.first();
        let oldest = oldest.map(|pending| pending.change.number);
        let untracked = unanswered.untracked.map(|untracked| untracked.number);
        rollout::Unanswered {
            change: oldest.into_iter().chain(untracked).min(),
            connected: unanswered.connected.map(|at| at.number),
        }
    }

    /// Whether the client has not answered this change.
    #[cfg(any(test, feature = "page"))]
    pub(super) fn is_pending(&self, number: u64) -> bool {
        let Answering::Followed(unanswered) = &*self.answering() else {
            return false;
        };
        let mut changes = unanswered.changes.iter();
        changes.any(|pending| pending.change.number == number)
    }

    /// The client has NACKed a response. Changes that it has not answered get the NACK, each at most one of a client.
    pub(super) fn nacked(&self, nack: &RolloutNack) {
        let Answering::Followed(unanswered) = &mut *self.answering() else {
            return;
        };
        let changes = unanswered.changes.iter();
        let changes = changes.filter(|pending| !pending.is_nacked);
        let numbers: Vec<u64> = changes.map(|pending| pending.change.number).collect();
        if numbers.is_empty() {
            return;
        }
        let about = self.convergence.rollouts().nacked(&numbers, nack);
        for pending in &mut unanswered.changes {
            pending.is_nacked |= about.contains(&pending.change.number);
        }
    }

    /// The client has answered everything up to this, see [`latest_unanswered`](Self::latest_unanswered).
    pub(super) fn answered(&self, latest: LatestUnanswered) {
        let mut answering = self.answering();
        let Answering::Followed(unanswered) = &mut *answering else {
            return;
        };
        // A later change wakes the session again.
        if unanswered.latest() == Some(latest) {
            let unanswered = mem::take(unanswered);
            drop(answering);
            self.settle(&unanswered.changes, unanswered.latest.is_some());
        }
    }

    /// The client has answered everything of the states up to this revision, and not yet the state that is served.
    pub(super) fn answered_through(&self, revision: Revision) {
        let mut answering = self.answering();
        let Answering::Followed(unanswered) = &mut *answering else {
            return;
        };
        let count = unanswered
            .changes
            .partition_point(|pending| pending.revision <= revision);
        let answered: Vec<PendingChange> = unanswered.changes.drain(..count).collect();
        let is_answered = |point: &mut ChangePoint| point.revision <= revision;
        let was_untracked = unanswered.untracked.take_if(is_answered).is_some();
        let was_new = unanswered.connected.take_if(is_answered).is_some();
        debug_assert!(unanswered.is_consistent());
        drop(answering);
        if was_untracked || was_new || !answered.is_empty() {
            self.settle(&answered, false);
        }
    }

    /// The session has ended. It must not be woken any more.
    pub(super) fn end(&self) {
        let before = mem::replace(&mut *self.answering(), Answering::NotFollowed);
        if let Answering::Followed(unanswered) = before
            && unanswered.latest.is_some()
        {
            self.settle(&unanswered.changes, true);
        }
    }

    /// Counts the answers to these changes. `is_last`: the session has answered all changes, or has ended.
    fn settle(&self, answered: &[PendingChange], is_last: bool) {
        if is_last {
            self.convergence.pending_sessions.fetch_sub(1, SeqCst);
        }
        answered
            .iter()
            .for_each(|pending| self.convergence.answered(&pending.change));
        self.convergence.notifier.notify();
    }

    fn answering(&self) -> MutexGuard<'_, Answering> {
        // Each change leaves a complete state, so poisoning does not matter.
        let answering = self.answering.lock();
        answering.unwrap_or_else(PoisonError::into_inner)
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
    pub(crate) fn unanswered(&self) -> rollout::Unanswered {
        self.0.unanswered()
    }

    /// Whether the client has not answered a change that concerns it.
    #[cfg(feature = "page")]
    pub(crate) fn has_pending(&self) -> bool {
        self.0.has_pending()
    }

    /// Whether the client has not answered the change with this number.
    #[cfg(feature = "page")]
    pub(crate) fn is_pending(&self, number: u64) -> bool {
        self.0.is_pending(number)
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
            session.answered(LatestUnanswered::Connected);
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

        /// Returns how many changes were observed, and how many sessions have pending changes.
        fn state(&self) -> (usize, usize) {
            let mut registry = Registry::default();
            registry.register("c", "c", self.0.histogram());
            let page = crate::metrics::render(&registry, &http::HeaderMap::new()).unwrap();
            let count = page
                .text
                .lines()
                .find_map(|line| line.strip_prefix("c_count "));
            (count.unwrap().parse().unwrap(), self.0.pending_sessions())
        }

        fn rollout(&self, number: u64) -> RolloutState {
            self.0.rollouts().get(number).unwrap().state
        }

        fn is_answered(&self, number: u64) -> bool {
            matches!(self.rollout(number), RolloutState::Answered { .. })
        }
    }

    fn answer(session: &SessionWaker) {
        assert!(session.has_pending());
        session.answered(session.latest_unanswered().unwrap());
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
        assert_eq!((rig.state(), a.has_pending()), ((0, 1), false));
        assert!(!rig.is_answered(both) && !a.is_pending(both) && b.is_pending(both));
        answer(&b);
        assert_eq!(rig.state(), (1, 0));
        assert!(rig.is_answered(both));
    }

    /// Given a session that answers the first of two changes after it was woken for the second, then the second stays
    /// pending.
    #[test]
    fn answer_to_an_older_change_is_not_the_last() {
        let rig = Rig::new();
        let a = rig.session();
        rig.change(&[&a]);
        let first = a.latest_unanswered().unwrap();
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

    /// Given a client that disconnects before it answers, then the others decide. A sink of files has no pending
    /// changes.
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

    /// Given a client that never answers, then its pending changes have a limit. A change beyond it is not observed,
    /// and the history shows that.
    #[test]
    fn pending_changes_are_bounded() {
        let rig = Rig::new();
        let (a, b) = (rig.session(), rig.session());
        let numbers: Vec<u64> = (0..=MAX_TRACKED).map(|_| rig.change(&[&a, &b])).collect();
        let tracked = numbers.iter().filter(|number| a.is_pending(**number));
        assert_eq!(tracked.count(), MAX_TRACKED);
        assert_eq!(a.unanswered().change, Some(numbers[0]));
        answer(&b);
        answer(&a);
        assert_eq!(rig.state(), (MAX_TRACKED, 0));
        let last = rig.rollout(numbers[MAX_TRACKED]);
        let (clients, lost) = (2, 2);
        assert_eq!(last, RolloutState::Open { clients, lost });
    }

    /// Given a client that answers each state after the next change, so that it is always behind, then each change is
    /// answered, and what is unanswered advances; also beyond the changes that are not followed.
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
            assert_eq!(
                (a.unanswered().change, rig.0.pending_sessions()),
                (Some(second), 1)
            );
            a.answered_through(rig.revision());
            assert_eq!(a.unanswered().change, None);
        }
        let numbers: Vec<u64> = (0..=MAX_TRACKED).map(|_| rig.change(&[&a])).collect();
        let revision = rig.revision();
        let last = rig.change(&[&a]);
        a.answered_through(Revision::UNLOADED);
        assert_eq!(a.unanswered().change, Some(numbers[0]));
        a.answered_through(revision);
        assert_eq!(a.unanswered().change, Some(numbers[MAX_TRACKED]));
        a.answered(LatestUnanswered::Change(last));
        let nothing = rollout::Unanswered::default();
        assert_eq!((a.unanswered(), rig.0.pending_sessions()), (nothing, 0));
    }

    /// Given a client that connects, then the state at that time is unanswered until its first answer, and no change is
    /// pending.
    #[test]
    fn g37_new_client_has_not_answered_the_state() {
        let rig = Rig::new();
        let latest = rig.change(&[]);
        let a = SessionWaker::new(Arc::clone(&rig.0));
        a.follow(rig.revision());
        assert_eq!(
            (a.unanswered().connected, a.has_pending()),
            (Some(latest), false)
        );
        let change = rig.change(&[&a]);
        a.answered(LatestUnanswered::Connected);
        assert_eq!(a.unanswered().connected, Some(latest), "a change was later");
        a.answered(LatestUnanswered::Change(change));
        let nothing = rollout::Unanswered::default();
        assert_eq!((a.unanswered(), a.latest_unanswered()), (nothing, None));
        let b = SessionWaker::new(Arc::clone(&rig.0));
        b.follow(rig.revision());
        b.answered_through(rig.revision());
        assert_eq!((b.unanswered(), b.latest_unanswered()), (nothing, None));
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
