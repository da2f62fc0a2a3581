//! Completion of a large publish, of this writer or of another one: each staged entry is moved to its place.
//!
//! ```text
//!  of another:  Reading ──page──▶ Moving ──page moved──▶ Reading … ──last page moved──▶ Finishing ──▶ done
//!  own:         Moving, after a pause ──all moved──▶ Finishing ──▶ done
//! ```
//! A writer knows what it has staged. It lets the replicas have the stage first: etcd sends nothing while it applies a
//! transaction.
//!
//! All transactions are guarded by the head, so they can be repeated, and several writers can complete the same
//! publish. For replicas, which apply the stage at its commit, the moves change nothing.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use oxds_types::etcd::KeyValue;

use super::plan::Write;
use super::request::{PublishAnswer, PublishRequest};
use super::transactions::{LaneKeys, finish, move_batch};
use crate::lane_state::SeenHead;
use crate::pages::{Pages, ReadAt};
use oxds_core::time::Instant;

/// Pause between the commit of a stage and the first move: replicas read 5,000 entries in 35 ms (measured with etcd
/// 3.7.3) if their watches have not shown them.
const PAUSE: Duration = Duration::from_millis(250);

/// Publish that is being completed.
#[derive(Debug)]
pub(super) struct Completion {
    keys: LaneKeys,
    seen: SeenHead,
    request_limit: usize,
    /// Nothing is asked before.
    not_before: Option<Instant>,
    /// Read of the stage; `None` if this writer staged it.
    pages: Option<Pages>,
    /// Entries of the page, or of the own stage, that were not moved: key below the stage, and value.
    unmoved: VecDeque<(Bytes, Bytes)>,
    /// Entries of the batch that etcd was asked for.
    batch: usize,
    state: CompletionState,
}

#[derive(Debug, Clone, Copy)]
enum CompletionState {
    Reading,
    Moving,
    Finishing,
}

/// Progress of a completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Completed {
    More,
    /// This writer completed it.
    Done,
    /// Another writer did.
    ByAnother,
}

impl Completion {
    /// Makes the completion of the publish of another writer, whose head names its stage.
    pub(super) fn of_another(keys: LaneKeys, seen: SeenHead, request_limit: usize) -> Self {
        let stage = keys.stage(seen.head.publish);
        Self {
            keys,
            seen,
            request_limit,
            not_before: None,
            // Each page at the latest revision: the stage does not change but by moves.
            pages: Some(Pages::new(stage, ReadAt::Latest)),
            unmoved: VecDeque::new(),
            batch: 0,
            state: CompletionState::Reading,
        }
    }

    /// Makes the completion of the own publish, which staged these writes and was committed now.
    pub(super) fn own(
        keys: LaneKeys,
        seen: SeenHead,
        request_limit: usize,
        writes: &[Write],
        now: Instant,
    ) -> Self {
        let unmoved = writes.iter().map(|write| {
            let value = write.value.clone().unwrap_or_default();
            (write.rest.clone(), value)
        });
        Self {
            keys,
            seen,
            request_limit,
            not_before: Some(now + PAUSE),
            pages: None,
            unmoved: unmoved.collect(),
            batch: 0,
            state: CompletionState::Moving,
        }
    }

    /// Returns when the pause ends, until the first request after it.
    pub(super) fn pause_until(&self) -> Option<Instant> {
        self.not_before
    }

    pub(super) fn seen(&self) -> &SeenHead {
        &self.seen
    }

    /// Returns the read of the stage, if a page of it was requested.
    pub(super) fn pages_mut(&mut self) -> Option<&mut Pages> {
        let pages = self.pages.as_mut();
        pages.filter(|_| matches!(self.state, CompletionState::Reading))
    }

    /// Returns the next request; `None` during the pause. The same request is returned until it is answered.
    pub(super) fn request(&mut self, now: Instant) -> Option<PublishRequest> {
        if self.not_before.is_some_and(|at| now < at) {
            return None;
        }
        self.not_before = None;
        Some(match self.state {
            CompletionState::Reading => PublishRequest::Range(self.pages.as_ref()?.request()),
            CompletionState::Moving => {
                let unmoved = self.unmoved.make_contiguous();
                let (request, batch) =
                    move_batch(&self.keys, &self.seen, unmoved, self.request_limit);
                self.batch = batch;
                PublishRequest::Txn(request)
            }
            CompletionState::Finishing => PublishRequest::Txn(finish(&self.keys, &self.seen)),
        })
    }

    /// Handles an answer. The pages have checked theirs before.
    pub(super) fn take(&mut self, answer: PublishAnswer) -> Completed {
        match (self.state, answer) {
            (CompletionState::Reading, PublishAnswer::Range(response)) => {
                let stage = self.keys.stage(self.seen.head.publish).start;
                let entry = |kv: KeyValue| {
                    let rest = kv.key.strip_prefix(&stage[..])?;
                    // The `alive` key, and keys that no writer makes, end with the stage.
                    let is_entry = rest.starts_with(b"r/") || rest.starts_with(b"g/");
                    is_entry.then(|| (kv.key.slice_ref(rest), kv.value.clone()))
                };
                self.unmoved
                    .extend(response.kvs.into_iter().filter_map(entry));
            }
            (_, PublishAnswer::Txn(response)) if !response.succeeded => {
                return Completed::ByAnother;
            }
            (CompletionState::Moving, PublishAnswer::Txn(_)) => {
                self.unmoved.drain(..self.batch.min(self.unmoved.len()));
            }
            (CompletionState::Finishing, PublishAnswer::Txn(_)) => return Completed::Done,
            _ => {}
        }
        let is_read = self.pages.as_ref().is_none_or(Pages::is_complete);
        self.state = match (self.unmoved.is_empty(), is_read) {
            (false, _) => CompletionState::Moving,
            (true, false) => CompletionState::Reading,
            (true, true) => CompletionState::Finishing,
        };
        Completed::More
    }
}
