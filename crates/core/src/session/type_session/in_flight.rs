//! Responses that wait for an ACK or NACK.
//!
//! ```text
//!            poll                      request with the nonce
//!  ┌──────┐ ─────▶ ┌─────────────┐ ─────────────────────────▶ answered: the entry and all older ones leave
//!  │ idle │        │ outstanding │
//!  └──────┘ ◀───── └─────────────┘ ◀── new names: one more response, at most MAX_OUTSTANDING
//!            empty
//! ```

use std::{ops::Range, sync::Arc};

use oxds_types::Version;
use smallvec::SmallVec;

use super::{item::Item, step::Step};
use crate::{
    session::Nonce,
    snapshot::{Resource, ResourceSet},
    time::Instant,
};

/// Limit on outstanding responses when a client adds names but never answers. Snapshot changes never add to them.
const MAX_OUTSTANDING: usize = 4;

/// Items that one response carries; most responses carry one.
pub(crate) type Items = SmallVec<[Item; 1]>;

/// Responses without an answer, oldest first. Resets with the stream.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    responses: SmallVec<[SentResponse; 1]>,
    /// The latest nonce that the client answered.
    answered: Nonce,
}

/// One response without an answer.
#[derive(Debug)]
pub(crate) struct SentResponse {
    pub(crate) nonce: Nonce,
    pub(crate) sent_at: Instant,
    pub(crate) version: Version,
    pub(crate) content: SentContent,
    pub(crate) kept: KeptCopies,
}

/// Resources and removals of a response.
#[derive(Debug)]
pub(crate) enum SentContent {
    /// To a wildcard client: moves it to the collection `to`.
    Whole {
        to: Arc<ResourceSet>,
        /// False while parts of a split response are still to be sent.
        completes: bool,
        step: Step,
        /// Indexes of the step's updates in this part; all, unless the response was split.
        part: Range<usize>,
        /// Resources and removals besides the step.
        extra: Items,
    },
    /// By name.
    Names(Items),
}

/// Copies that the client has of resources whose removal is, or was, held.
#[derive(Debug, Default)]
pub(crate) struct KeptCopies {
    /// SotW: in the response only because their removal is held.
    pub(crate) held: Vec<Arc<Resource>>,
    /// Replaced by the response: they came back in another version while their removal was held.
    pub(crate) replaced: Vec<Arc<Resource>>,
}

impl SentContent {
    pub(crate) fn items(&self) -> &Items {
        match self {
            Self::Whole { extra, .. } => extra,
            Self::Names(items) => items,
        }
    }

    pub(crate) fn is_everything(&self) -> bool {
        matches!(
            self,
            Self::Whole {
                step: Step::Everything,
                ..
            }
        )
    }
}

impl SentResponse {
    /// Resources that the client has once it applied the response.
    pub(crate) fn resources(&self) -> impl Iterator<Item = &Arc<Resource>> {
        let whole = match &self.content {
            SentContent::Whole { to, .. } => Some(to.iter()),
            SentContent::Names(_) => None,
        };
        let items = self.content.items().iter().filter_map(Item::resource);
        whole.into_iter().flatten().chain(items)
    }
}

impl InFlight {
    pub(crate) fn is_empty(&self) -> bool {
        self.responses.is_empty()
    }

    /// Whether the limit of outstanding responses is reached.
    pub(crate) fn is_full(&self) -> bool {
        self.responses.len() >= MAX_OUTSTANDING
    }

    pub(crate) fn push(&mut self, response: SentResponse) {
        self.responses.push(response);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &SentResponse> {
        self.responses.iter()
    }

    /// When the oldest response without an answer was sent.
    pub(crate) fn waiting_since(&self) -> Option<Instant> {
        self.responses.first().map(|response| response.sent_at)
    }

    /// Takes the response that has this nonce. Older ones are dropped: the stream is ordered, so they will not be
    /// answered any more.
    pub(crate) fn take(&mut self, nonce: Nonce) -> Option<SentResponse> {
        let at = self.responses.iter().position(|r| r.nonce == nonce)?;
        let answered = self.responses.drain(..=at).next_back()?;
        self.answered = answered.nonce;
        Some(answered)
    }

    /// Whether this is the nonce that was answered last.
    pub(crate) fn is_answered(&self, nonce: Nonce) -> bool {
        nonce == self.answered
    }

    /// Entries that memory grows with.
    pub(crate) fn footprint(&self) -> usize {
        let items = self
            .iter()
            .map(|response| 1 + response.content.items().len());
        items.sum()
    }
}
