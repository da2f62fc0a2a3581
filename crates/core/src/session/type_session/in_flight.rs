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

use super::{context::TypeContext, cursor::Step};
use crate::{
    nack::Nack,
    session::Nonce,
    snapshot::{Resource, ResourceSet, Revision},
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
    /// Nothing of the state at this revision is left to send after the response; `None` if something is.
    pub(crate) covers: Option<Revision>,
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
        /// The client has left the wildcard since, and may have returned to it.
        is_left: bool,
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
    /// SotW: names that earlier responses repeated, and this one removes by their absence.
    pub(crate) released: Vec<Arc<str>>,
}

/// One resource or name of a response, as opposed to bodies that streams share.
#[derive(Debug, Clone)]
pub(crate) enum Item {
    /// Current content of a resource.
    Resource(Arc<Resource>),
    /// Subscribed name of a resource that does not exist.
    Absent(Arc<str>),
    /// Name of a resource that a wildcard does not cover any more.
    Removed(Arc<str>),
    /// Name that the store has in a form that is not served (S-73), and the reason.
    Invalid(Arc<str>, Arc<str>),
    /// Content that the client has already: repeated since a SotW full state without it would remove it.
    Copy(Arc<Resource>),
}

impl Item {
    pub(crate) fn name(&self) -> &Arc<str> {
        match self {
            Self::Resource(resource) | Self::Copy(resource) => resource.name(),
            Self::Absent(name) | Self::Removed(name) | Self::Invalid(name, _) => name,
        }
    }

    /// The content that the client learns, if it is new to it.
    pub(crate) fn resource(&self) -> Option<&Arc<Resource>> {
        match self {
            Self::Resource(resource) => Some(resource),
            Self::Absent(_) | Self::Removed(_) | Self::Invalid(..) | Self::Copy(_) => None,
        }
    }

    /// Whether the item changes the state of its name, so that an ACK matters.
    pub(crate) fn is_news(&self) -> bool {
        !matches!(self, Self::Copy(_))
    }
}

impl SentContent {
    /// S-54: assignments of the clusters that change. On a new stream, after `Everything`, the client subscribes to
    /// them anyway; but to those of an earlier part it may have done so.
    pub(crate) fn changed_assignments(&self, context: &TypeContext) -> Vec<Arc<str>> {
        let new = self.items().iter().filter_map(Item::resource);
        let mut changed = context.assignments(new.filter(|_| !context.is_full_state()));
        if let Self::Whole { to, step, part, .. } = self
            && (matches!(step, Step::Since(_)) || part.start > 0)
        {
            changed.extend(context.assignments(step.part(part, to)));
        }
        changed
    }

    pub(crate) fn items(&self) -> &Items {
        match self {
            Self::Whole { extra, .. } => extra,
            Self::Names(items) => items,
        }
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

    /// Whether the invariants hold; for debug assertions. `latest`: the latest nonce of the stream.
    pub(crate) fn is_consistent(&self, latest: Nonce, is_wildcard: bool) -> bool {
        let mut before = self.answered;
        let mut responses = self.responses.iter();
        self.responses.len() <= MAX_OUTSTANDING
            && before <= latest
            && responses.all(|response| {
                let is_newer = before < response.nonce && response.nonce <= latest;
                before = response.nonce;
                let is_of_wildcard = match &response.content {
                    SentContent::Whole { is_left, .. } => *is_left || is_wildcard,
                    SentContent::Names(_) => true,
                };
                is_newer && is_of_wildcard
            })
    }

    pub(crate) fn push(&mut self, response: SentResponse) {
        self.responses.push(response);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &SentResponse> {
        self.responses.iter()
    }

    /// The client left the wildcard, for which the responses so far were sent.
    pub(crate) fn leave_wildcard(&mut self) {
        for response in &mut self.responses {
            if let SentContent::Whole { is_left, .. } = &mut response.content {
                *is_left = true;
            }
        }
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

/// Answers of the client to responses of one type. Resets with the stream.
#[derive(Debug, Default)]
pub(crate) struct AnswerRecord {
    /// Version of the latest response.
    pub(crate) sent: Option<Version>,
    /// Version of the latest accepted response.
    pub(crate) acked: Option<Version>,
    pub(crate) acked_at: Option<Instant>,
    /// The latest NACK, unless an ACK followed it.
    pub(crate) nack: Option<Nack>,
    pub(crate) acks: u64,
    pub(crate) nacks: u64,
    /// The client has answered everything that it was sent of the state at this revision.
    pub(crate) through: Option<Revision>,
}
