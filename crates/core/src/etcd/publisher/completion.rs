//! Completion of a large publish, of this writer or of another one: each staged entry is moved to its place.
//!
//! ```text
//!  Reading ──page──▶ Moving ──page moved──▶ Reading … ──last page moved──▶ Finishing ──▶ done
//! ```
//! All transactions are guarded by the head, so they can be repeated, and several writers can complete the same publish. For
//! replicas, which apply the stage at its commit, the moves change nothing.

use std::collections::VecDeque;

use bytes::Bytes;
use oxds_types::etcd::KeyValue;

use super::request::{PublishAnswer, PublishRequest};
use super::transactions::{LaneKeys, finish, move_batch};
use crate::etcd::lane_state::SeenHead;
use crate::etcd::pages::{Pages, ReadAt};

/// Publish that is being completed.
#[derive(Debug)]
pub(super) struct Completion {
    keys: LaneKeys,
    seen: SeenHead,
    request_limit: usize,
    pages: Pages,
    /// Entries of the page that were not moved: key below the stage, and value.
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
    /// Makes the completion of the publish of a head that names a stage.
    pub(super) fn new(keys: LaneKeys, seen: SeenHead, request_limit: usize) -> Self {
        let stage = keys.stage(seen.head.publish);
        Self {
            keys,
            seen,
            request_limit,
            // Each page at the latest revision: the stage does not change but by moves.
            pages: Pages::new(stage, ReadAt::Latest),
            unmoved: VecDeque::new(),
            batch: 0,
            state: CompletionState::Reading,
        }
    }

    pub(super) fn seen(&self) -> &SeenHead {
        &self.seen
    }

    /// Returns the read of the stage, if a page of it was requested.
    pub(super) fn pages_mut(&mut self) -> Option<&mut Pages> {
        matches!(self.state, CompletionState::Reading).then_some(&mut self.pages)
    }

    /// Returns the next request. The same request is returned until it is answered.
    pub(super) fn request(&mut self) -> PublishRequest {
        match self.state {
            CompletionState::Reading => PublishRequest::Range(self.pages.request()),
            CompletionState::Moving => {
                let unmoved = self.unmoved.make_contiguous();
                let (request, batch) =
                    move_batch(&self.keys, &self.seen, unmoved, self.request_limit);
                self.batch = batch;
                PublishRequest::Txn(request)
            }
            CompletionState::Finishing => PublishRequest::Txn(finish(&self.keys, &self.seen)),
        }
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
        self.state = match (self.unmoved.is_empty(), self.pages.is_complete()) {
            (false, _) => CompletionState::Moving,
            (true, false) => CompletionState::Reading,
            (true, true) => CompletionState::Finishing,
        };
        Completed::More
    }
}
