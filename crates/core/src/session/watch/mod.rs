//! One kind on one stream: what is asked for, what is owed, what was sent, what is known.
//!
//! ```text
//!            request: names, "*"                poll                          request: nonce of the response
//!   ┌──────┐ ─────────────────▶ ┌─────┐ ─────────────────▶ ┌─────────────┐ ─────────────────▶ ┌──────┐
//!   │ idle │                    │ due │                    │ outstanding │   ACK or NACK      │ idle │
//!   └──────┘ ─────────────────▶ └─────┘ ◀───────────────── └─────────────┘                    └──────┘
//!            change of the                request: new names
//!            snapshot                     (served at once, S-16, S-44)
//! ```
//!
//! While a response is outstanding, changes of the snapshot wait: they coalesce into the difference between what was
//! sent and what there is by then. So a slow client costs one cursor, and nothing is queued for it.
//!
//! What was sent is kept in one of two ways. A client that asked for everything has a cursor, [`All`]: the collection
//! it was last brought to, however large. A client that asked by name has a state per name, in its
//! [`Subscription`]. `wildcard` and `named` turn each into the next response. Of a request, `subscribe` takes what it asks
//! for, `settle` what it answers.

mod collection;
mod heartbeat;
mod named;
mod ordering;
mod recent;
mod record;
mod refused;
mod response;
mod returning;
mod settle;
mod subscribe;
mod wildcard;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use oxds_types::{ResourceType, Version};
use smallvec::SmallVec;

use self::{
    collection::Collections,
    heartbeat::Heartbeats,
    ordering::HeldRemoval,
    recent::Recent,
    record::Record,
    refused::Refused,
    response::{Content, Kept, Outstanding},
    returning::{Departed, Withheld},
    wildcard::All,
};
pub(super) use self::{response::Draft, subscribe::Claims};
use super::{
    Nonce,
    ordering::{Patience, Peers},
};
use crate::{
    snapshot::{Form, Protocol, Revision, Snapshot, TypeSnapshot},
    subscription::Subscription,
    time::Instant,
};

/// Responses that may be outstanding when the client keeps asking for new names without answering. Changes of the
/// snapshot never add to it.
const MAX_OUTSTANDING: usize = 4;

/// One kind on one stream. All of it resets with the stream.
#[derive(Debug)]
pub(super) struct Watch {
    // Asked for: changed by requests only.
    pub(super) resource_type: ResourceType,
    pub(super) form: Form,
    pub(super) subscription: Subscription,
    collections: Collections,
    /// What the client asks for in vain.
    refused: Refused,
    /// Whether it can be told why.
    understands_errors: bool,

    // Owed: added to by requests and changes, taken from by responses.
    /// RequestedNames to look at. With a wildcard: names to be sent whatever the cursor says.
    due: BTreeSet<Arc<str>>,
    /// Without a wildcard: every name is to be looked at, listed in `due` or not. So it is after a first request.
    all_due: bool,
    /// RequestedNames whose parents change: to be sent again, changed or not, once what is outstanding is answered (S-54).
    again: BTreeSet<Arc<str>>,
    /// A response is owed even if there is nothing to put in it, so that the client stops waiting (S-27, S-31).
    answer_owed: bool,
    /// The request that caused it cannot wait for the outstanding response (S-16).
    urgent: bool,
    /// What the client says it has from an earlier stream. Used for the first answer only.
    claims: Option<Claims>,
    /// Its first request says that it has accepted nothing of this kind, on any stream.
    fresh: bool,
    /// SotW full state: names that it may have from an earlier stream, whatever it answers on this one.
    inherited: BTreeSet<Arc<str>>,

    // Sent.
    /// Present while everything is asked for.
    all: Option<All>,
    /// Without a wildcard: changes up to here are in `due`.
    seen: Revision,
    outstanding: SmallVec<[Outstanding; 1]>,
    /// The latest response that was answered.
    answered: Nonce,

    // Held back (make before break).
    /// What the client still has, though the snapshot does not.
    held: BTreeMap<Arc<str>, HeldRemoval>,
    /// Since when updates have waited for what they depend on.
    blocked: Option<Patience>,
    /// Since when the first answer is withheld, as it would take something away.
    withheld: Option<Withheld>,
    /// What it has from an earlier stream, and is not told yet to be gone.
    departed: Option<Box<Departed>>,
    /// Clusters that the client was told of lately, and whose assignments it may still ask for or let go of.
    recent: Recent,

    /// For what the client has and may only keep while it hears of it.
    heartbeats: Heartbeats,

    // Known.
    pub(super) record: Record,
}

impl Watch {
    pub(super) fn new(resource_type: ResourceType, form: Form, understands_errors: bool) -> Self {
        Self {
            resource_type,
            form,
            subscription: Subscription::new(),
            collections: Collections::default(),
            refused: Refused::default(),
            understands_errors,
            due: BTreeSet::new(),
            all_due: false,
            again: BTreeSet::new(),
            answer_owed: false,
            urgent: false,
            claims: None,
            fresh: false,
            inherited: BTreeSet::new(),
            all: None,
            seen: Revision::UNLOADED,
            outstanding: SmallVec::new(),
            answered: Nonce::default(),
            held: BTreeMap::new(),
            blocked: None,
            withheld: None,
            departed: None,
            recent: Recent::default(),
            heartbeats: Heartbeats::default(),
            record: Record::default(),
        }
    }

    /// What is served to it now.
    pub(super) fn head<'a>(&self, snapshot: &'a Snapshot) -> &'a TypeSnapshot {
        snapshot.of_type_in(&self.resource_type, self.form.api)
    }

    /// The next response, if there is something to say and it may be said now.
    pub(super) fn poll(
        &mut self,
        now: Instant,
        head: &TypeSnapshot,
        peers: &Peers<'_>,
    ) -> Option<Draft> {
        let waiting = self.outstanding.len();
        if waiting > 0 && (!self.urgent || waiting >= MAX_OUTSTANDING) {
            return None;
        }
        if waiting == 0 {
            self.send_again();
            self.owe_heartbeat(now);
            self.let_departed_go(head.collection(), peers);
        }
        let draft = match self.all.take() {
            Some(mut all) => {
                let draft = self.poll_all(now, &mut all, head, peers);
                self.all = Some(all);
                draft
            }
            None => self.poll_named(now, head, peers),
        };
        self.urgent = false;
        if draft.is_some() {
            self.answer_owed = false;
        }
        if let Some(mut draft) = draft {
            self.tell_refused(&mut draft.response, head.body_limit());
            return Some(draft);
        }
        if waiting > 0 {
            return None;
        }
        self.poll_refused(head)
            .or_else(|| self.poll_heartbeat(now, head))
    }

    /// The response was sent.
    pub(super) fn sent(
        &mut self,
        now: Instant,
        nonce: Nonce,
        version: Version,
        content: Content,
        kept: Kept,
    ) {
        self.record.sent = Some(version);
        self.start_heartbeats(now, &content);
        if let (Content::All { step, .. }, true) =
            (&content, self.resource_type == ResourceType::CLUSTER)
        {
            self.recent.told(step);
        }
        self.outstanding.push(Outstanding {
            nonce,
            sent_at: now,
            version,
            content,
            kept,
        });
    }

    /// The cluster of this assignment changes: the client needs the assignment again, changed or not (S-54).
    pub(super) fn rewarm(&mut self, name: &Arc<str>) {
        if let Some(claims) = &mut self.claims {
            claims.outdate(name);
        }
        let tells_names = self.all.is_none() || self.form.protocol == Protocol::Delta;
        if tells_names && self.covers(name) {
            self.again.insert(Arc::clone(name));
        }
    }

    fn send_again(&mut self) {
        for name in std::mem::take(&mut self.again) {
            // What the client refused, it would refuse again.
            if self.record.rejections.contains_key(&name) {
                continue;
            }
            if let (None, Some(named)) = (&self.all, self.subscription.get_mut(&name)) {
                named.ask_again();
            }
            self.due.insert(name);
        }
    }

    /// Whether there is a name to look at.
    fn is_due(&self) -> bool {
        self.all_due || !self.due.is_empty()
    }

    /// Whether this name is to be looked at, which is asked for.
    fn has_due(&self, name: &str) -> bool {
        self.all_due || self.due.contains(name)
    }

    /// Since when the oldest response has been without an answer.
    pub(super) fn waiting_since(&self) -> Option<Instant> {
        self.outstanding
            .first()
            .map(|outstanding| outstanding.sent_at)
    }

    /// Entries that this watch keeps: what its memory grows with.
    pub(super) fn footprint(&self) -> usize {
        let outstanding = self
            .outstanding
            .iter()
            .map(|outstanding| match &outstanding.content {
                Content::All { extra, .. } => 1 + extra.len(),
                Content::Named(told) => 1 + told.len(),
            });
        self.subscription.len()
            + self.due.len()
            + self.again.len()
            + self.held.len()
            + self
                .departed
                .as_ref()
                .map_or(0, |departed| departed.names.len())
            + self.inherited.len()
            + self.recent.len()
            + self.heartbeats.len()
            + self.refused.len()
            + self.record.rejections.len()
            + outstanding.sum::<usize>()
    }
}
