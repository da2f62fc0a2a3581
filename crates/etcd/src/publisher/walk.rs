//! Walk through the heads that a lane had, from the latest back, in the history of etcd.

use bytes::Bytes;
use oxds_types::etcd::{RangeRequest, RangeResponse};

use crate::head::HeadError;
use crate::lane_state::SeenHead;
use crate::names::PublishId;

/// Greatest number of heads that a walk reads. A publish is rarely more than a few publishes old when it is looked for.
const MAX_STEPS: usize = 1_000;

/// Walk back to a publish.
#[derive(Debug)]
pub(super) struct Walk {
    key: Bytes,
    wanted: PublishId,
    /// Revision of a head before which the publish cannot be.
    oldest: i64,
    /// Revision to read the head at.
    at: i64,
    steps: usize,
}

/// Result of a step.
#[derive(Debug)]
pub(super) enum Step {
    /// Read the next head.
    More,
    /// The publish, by its latest head.
    Found(Box<SeenHead>),
    /// The lane never had the publish.
    Absent,
    /// Too many heads.
    GaveUp,
}

impl Walk {
    /// Makes a walk from the head before `latest`. It ends at the head of revision `oldest`, which is not the wanted
    /// one.
    pub(super) fn new(key: Bytes, wanted: PublishId, latest: i64, oldest: i64) -> Self {
        Self {
            key,
            wanted,
            oldest,
            at: latest - 1,
            steps: 0,
        }
    }

    pub(super) fn request(&self) -> RangeRequest {
        head_at(&self.key, self.at)
    }

    /// Returns whether a head before can still be the wanted one.
    pub(super) fn is_over(&self) -> bool {
        self.at <= self.oldest
    }

    pub(super) fn take(&mut self, response: &RangeResponse) -> Result<Step, HeadError> {
        let Some(kv) = response.kvs.first() else {
            return Ok(Step::Absent);
        };
        let seen = SeenHead::decode(kv)?;
        if seen.head.publish == self.wanted {
            return Ok(Step::Found(Box::new(seen)));
        }
        self.at = seen.mod_revision - 1;
        self.steps += 1;
        Ok(match () {
            () if self.is_over() => Step::Absent,
            () if self.steps >= MAX_STEPS => Step::GaveUp,
            () => Step::More,
        })
    }
}

/// Returns the request for a head as it was at a revision; at revision 0 the latest, linearizably.
pub(super) fn head_at(key: &Bytes, revision: i64) -> RangeRequest {
    RangeRequest {
        key: key.clone(),
        revision,
        ..RangeRequest::default()
    }
}
