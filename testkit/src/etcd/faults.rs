//! Guarantees of etcd that a member breaks on command.

use std::collections::VecDeque;

use tonic::Status;

/// A fault of one call.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum CallFault {
    /// The request has no effect, and this status is the answer.
    Refused(Status),
    /// The request takes effect, and this status is the answer: the client cannot know the outcome (G-11).
    EffectAndError(Status),
    /// The request has no effect and gets no answer.
    Silence,
    /// The request takes effect but gets no answer.
    EffectAndSilence,
}

/// A fault of the next response with events, of any watch of the member (G-21).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WatchFault {
    /// The response comes twice (etcd#15220, #18089).
    Duplicate,
    /// The response never comes (etcd#17529).
    Drop,
    /// The response comes after the next one.
    Swap,
    /// Each event comes in a fragment of its own.
    Split,
    /// The same without the mark that tells fragments from responses.
    SplitUnmarked,
    /// The response, and all after it, come after [`release`](super::ScriptedEtcd::release).
    Delay,
    /// The same, but progress is reported as if they had come (etcd#15220).
    FalseProgress,
    /// After the response, the one before it comes again (etcd#15271).
    BackInTime,
    /// The response lacks deletions (etcd#17780, #20221).
    OmitDeletes,
}

/// Settings and pending faults of a member.
#[derive(Debug)]
pub(super) struct Faults {
    /// Version that the member reports.
    pub(super) version: String,
    /// Whether expired tokens are reported as etcd 3.4 does (etcd#12385).
    pub(super) denies_expired_tokens: bool,
    /// The member knows no leader.
    pub(super) is_leaderless: bool,
    /// The member has not joined the cluster completely.
    pub(super) is_learner: bool,
    /// Reads of the latest state are answered as of this revision (etcd#20418).
    pub(super) stale_at: Option<i64>,
    /// Ids of cluster and member are left out, as kine does.
    pub(super) has_no_ids: bool,
    /// Sizes of the database that the member reports: file, in use, quota.
    pub(super) sizes: [i64; 3],
    /// Calls that are still answered; the ones after it are held. `None`: all are answered.
    pub(super) calls_left: Option<usize>,
    /// Methods with the faults of their next calls, in order.
    pub(super) calls: VecDeque<(String, CallFault)>,
    /// Faults of the next responses with events, in order.
    pub(super) watches: VecDeque<WatchFault>,
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            version: "3.7.3".to_owned(),
            denies_expired_tokens: false,
            is_leaderless: false,
            is_learner: false,
            stale_at: None,
            has_no_ids: false,
            sizes: [20_480, 16_384, 2 << 30],
            calls_left: None,
            calls: VecDeque::new(),
            watches: VecDeque::new(),
        }
    }
}

impl Faults {
    /// Returns whether a call is held, and counts it otherwise.
    pub(super) fn holds_call(&mut self) -> bool {
        match &mut self.calls_left {
            None => false,
            Some(0) => true,
            Some(left) => {
                *left -= 1;
                false
            }
        }
    }

    /// Takes the next fault for calls of this method, if any.
    pub(super) fn take_call(&mut self, method: &str) -> Option<CallFault> {
        let found = self.calls.iter().position(|(of, _)| of == method)?;
        self.calls.remove(found).map(|(_, fault)| fault)
    }
}
