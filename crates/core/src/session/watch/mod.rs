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
//! [`Subscription`]. `wildcard` and `named` turn each into the next response; `settle` takes the client's answers.

mod collection;
mod heartbeat;
mod named;
mod ordering;
mod recent;
mod record;
mod refused;
mod settle;
mod wildcard;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    sync::Arc,
};

use oxds_types::{Kind, Version};
use smallvec::SmallVec;

use self::{
    collection::Collections,
    heartbeat::Heartbeats,
    recent::Recent,
    record::{Fallback, Record, Rejected},
    refused::Refused,
};
use super::{
    Nonce,
    frame::Response,
    ordering::{Patience, Peers},
    request::Names,
};
use crate::{
    snapshot::{
        Body, Collection, Difference, Form, Protocol, Published, Resource, Revision, Snapshot,
    },
    subscription::{self, Subscription, WildcardChange},
    time::Instant,
};

/// Responses that may be outstanding when the client keeps asking for new names without answering. Changes of the
/// snapshot never add to it.
const MAX_OUTSTANDING: usize = 4;

/// One kind on one stream. All of it resets with the stream.
#[derive(Debug)]
pub(super) struct Watch {
    // Asked for: changed by requests only.
    pub(super) kind: Kind,
    pub(super) form: Form,
    pub(super) subscription: Subscription,
    collections: Collections,
    /// What the client asks for in vain.
    refused: Refused,
    /// Whether it can be told why.
    understands_errors: bool,

    // Owed: added to by requests and changes, taken from by responses.
    /// Names to look at. With a wildcard: names to be sent whatever the cursor says.
    due: BTreeSet<Arc<str>>,
    /// Names whose parents change: to be sent again, changed or not, once what is outstanding is answered (S-54).
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
    /// Clusters that the client was told of lately, and whose assignments it may still ask for or let go of.
    recent: Recent,

    /// For what the client has and may only keep while it hears of it.
    heartbeats: Heartbeats,

    // Known.
    pub(super) record: Record,
}

/// What the client said it has.
#[derive(Debug)]
pub(super) enum Claims {
    /// SotW: the version of the whole.
    Version(String),
    /// Delta: `initial_resource_versions`.
    Resources(HashMap<String, String>),
}

/// What a client that asked for everything was sent.
#[derive(Debug, Default)]
struct All {
    /// What it was brought to; `None`: it has to be sent everything.
    cursor: Option<Arc<Collection>>,
    /// What it accepted. Equal to the cursor if it is in sync.
    acked: Option<Arc<Collection>>,
    /// SotW: the version of what was sent, which is the cursor's unless removals are held.
    version: Option<Version>,
    /// Delta: what is left of a response that was split.
    rest: Option<Rest>,
}

/// The parts of a split response that are still to be sent.
#[derive(Debug)]
struct Rest {
    parts: VecDeque<Body>,
    /// How many of the step's resources, and of its removals, went.
    resources: usize,
    removed: usize,
    step: Step,
}

/// How a client that asked for everything gets from where it is to where it should be.
#[derive(Debug, Clone)]
pub(super) enum Step {
    /// It is there.
    None,
    /// It has to be told this.
    Since(Arc<Difference>),
    /// It has to be told everything.
    Everything,
}

/// A removal that waits until nothing at the client refers to the resource.
#[derive(Debug)]
struct HeldRemoval {
    resource: Arc<Resource>,
    /// What needs it was asked for by name, and so was it: the client lets go of it when it is done.
    by_name: bool,
    patience: Patience,
}

/// A first answer that waits for what the client asks of later kinds.
#[derive(Debug, Clone, Copy)]
struct Withheld {
    /// How long they may take to be asked for.
    to_ask: Patience,
    /// How long they may take to be answered.
    to_answer: Patience,
}

/// A response without an answer.
#[derive(Debug)]
struct Outstanding {
    nonce: Nonce,
    sent_at: Instant,
    version: Version,
    content: Content,
    kept: Kept,
}

/// What was in a response.
#[derive(Debug)]
pub(super) enum Content {
    /// What brings a client that asked for everything to `to`.
    All {
        to: Arc<Collection>,
        /// Whether it is there now: not while parts of it are still to come.
        completes: bool,
        step: Step,
        /// Resources and removals besides.
        extra: Vec<Told>,
    },
    /// Resources and removals by name.
    Named(SmallVec<[Told; 1]>),
}

/// A name, and what the client was told about it; `None`: that it does not exist.
pub(super) type Told = (Arc<str>, Option<Arc<Resource>>);

/// Copies that the client has of what is, or was, held.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// SotW: those that are in the response only because their removal is held.
    held: Vec<Arc<Resource>>,
    /// Those that the response replaces: they came back in another version while they were held.
    replaced: Vec<Arc<Resource>>,
}

/// A response, before it has a nonce.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) response: Response,
    pub(super) version: Version,
    pub(super) content: Content,
    pub(super) kept: Kept,
    /// Assignments whose clusters change with this response (S-54).
    pub(super) rewarm: Vec<Arc<str>>,
}

impl Watch {
    pub(super) fn new(kind: Kind, form: Form, understands_errors: bool) -> Self {
        Self {
            kind,
            form,
            subscription: Subscription::new(),
            collections: Collections::default(),
            refused: Refused::default(),
            understands_errors,
            due: BTreeSet::new(),
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
            recent: Recent::default(),
            heartbeats: Heartbeats::default(),
            record: Record::default(),
        }
    }

    /// What is served to it now.
    pub(super) fn head<'a>(&self, snapshot: &'a Snapshot) -> &'a Published {
        snapshot.kind_in(&self.kind, self.form.api)
    }

    /// How many names the client said.
    pub(super) fn asked_names(&self) -> usize {
        self.subscription.len() - self.collections.members()
    }

    /// What the first request of this kind says the client has from an earlier stream.
    pub(super) fn claim(&mut self, claims: Claims) {
        if matches!(claims, Claims::Version(_)) && self.kind.is_full_state() {
            let names = self.subscription.iter().map(|(name, _)| Arc::clone(name));
            self.inherited = names.collect();
        }
        self.claims = Some(claims);
    }

    /// The first request of this kind says that the client has accepted nothing so far.
    pub(super) fn claim_nothing(&mut self) {
        self.fresh = true;
    }

    /// The first request is answered with what there is, even if that is nothing.
    pub(super) fn owe_answer(&mut self) {
        self.answer_owed = true;
    }

    /// There was nothing to answer from when the client asked. It has been waiting, so it is answered even if it turns
    /// out to be up to date (S-26).
    pub(super) fn keep_waiting(&mut self) {
        if matches!(self.claims, Some(Claims::Version(_))) {
            self.claims = None;
        }
    }

    /// The part of a request that changes the subscription.
    pub(super) fn ask(&mut self, names: &Names) -> subscription::Change {
        let legacy = subscription::has_legacy_wildcard(&self.kind);
        let change = match names {
            Names::Sotw { names, .. } => self.subscription.replace(names, legacy),
            Names::Delta {
                subscribe,
                unsubscribe,
                ..
            } => self.subscription.update(subscribe, unsubscribe, legacy),
        };
        self.resubscribe(&change);
        self.resubscribe_collections(&change);
        change
    }

    /// The subscription changed: what is owed now?
    fn resubscribe(&mut self, change: &subscription::Change) {
        self.forget_claims(change);
        match change.wildcard {
            Some(WildcardChange::Gained | WildcardChange::Repeated) => {
                // What it had by name, it has still, and the cursor does not know.
                self.fresh &= self.record.sent.is_none();
                let acked = self.all.take().and_then(|all| all.acked);
                self.all = Some(All {
                    acked,
                    ..All::default()
                });
                self.due.clear();
                self.again.clear();
                // It asks for all of it again, whatever it thought of it.
                self.record.rejections.clear();
                self.answer_owed = true;
                self.urgent = true;
            }
            Some(WildcardChange::Lost) => self.leave_wildcard(),
            None => {}
        }
        let asked = || change.added.iter().chain(&change.repeated);
        let asks = asked().next().is_some();
        self.urgent |= asks;
        // Whatever it thought of it, it asks for it (again).
        asked().for_each(|name| drop(self.record.rejections.remove(name)));
        if self.all.is_some() {
            // Named besides the wildcard: sent (again), since the client asks for it. Not any more: sent too, so that
            // the client knows whether it still has it through the wildcard (S-39; delta only, SotW need not).
            self.due.extend(asked().cloned());
            if self.form.protocol == Protocol::Delta {
                self.due.extend(change.dropped.iter().cloned());
                self.urgent |= !change.dropped.is_empty();
            }
            return;
        }
        for name in &change.repeated {
            // The client lost it: what was sent does not count (S-35).
            if let Some(state) = self.subscription.get_mut(name) {
                state.sent = subscription::Sent::Nothing;
            }
        }
        if asks && self.due.is_empty() {
            // At once, as in the subscription.
            self.due = asked().cloned().collect();
        } else {
            self.due.extend(asked().cloned());
        }
        for name in &change.dropped {
            self.due.remove(name);
            self.again.remove(name);
            self.held.remove(name);
            self.inherited.remove(name);
            self.record.rejections.remove(name);
        }
    }

    /// What the client said it has, it said of what it asked for then.
    fn forget_claims(&mut self, change: &subscription::Change) {
        if change.wildcard.is_some() {
            self.claims = None;
        }
        if let Some(Claims::Resources(claimed)) = &mut self.claims {
            let names = change
                .added
                .iter()
                .chain(&change.repeated)
                .chain(&change.dropped);
            names.for_each(|name| drop(claimed.remove(&**name)));
        }
    }

    /// From the cursor to a state for each name that stays.
    fn leave_wildcard(&mut self) {
        let Some(all) = self.all.take() else { return };
        self.due.clear();
        self.again.clear();
        self.answer_owed = false;
        if all.acked.is_none() && !self.fresh && self.kind.is_full_state() {
            self.inherited = self
                .subscription
                .iter()
                .map(|(name, _)| Arc::clone(name))
                .collect();
        }
        // Of a response that is only half sent, nobody knows what has arrived.
        let cursor = all.cursor.filter(|_| all.rest.is_none());
        self.seen = cursor
            .as_ref()
            .map_or(Revision::UNLOADED, |cursor| cursor.revision());
        for (name, state) in self.subscription.iter_mut() {
            if let Some(cursor) = &cursor {
                state.sent = cursor.get(name).cloned().into();
            } else {
                self.due.insert(Arc::clone(name));
            }
            state.acked = all
                .acked
                .as_ref()
                .and_then(|acked| acked.get(name))
                .cloned();
        }
        self.due_collections();
        self.held.clear();
        let subscription = &self.subscription;
        self.record
            .rejections
            .retain(|name, _| subscription.has_name(name));
    }

    /// The next response, if there is something to say and it may be said now.
    pub(super) fn poll(
        &mut self,
        now: Instant,
        head: &Published,
        peers: &Peers<'_>,
    ) -> Option<Draft> {
        let waiting = self.outstanding.len();
        if waiting > 0 && (!self.urgent || waiting >= MAX_OUTSTANDING) {
            return None;
        }
        if waiting == 0 {
            self.send_again();
            self.owe_heartbeat();
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
        if let (Content::All { step, .. }, true) = (&content, self.kind == Kind::CLUSTER) {
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
        if let Some(Claims::Resources(claimed)) = &mut self.claims {
            claimed.remove(&**name);
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
            if let (None, Some(state)) = (&self.all, self.subscription.get_mut(&name)) {
                state.sent = subscription::Sent::Nothing;
            }
            self.due.insert(name);
        }
    }

    /// What the client says it has of these does not count (S-54, after a reconnect).
    pub(super) fn disclaim(&mut self, names: &BTreeSet<Arc<str>>) {
        if let Some(Claims::Resources(versions)) = &mut self.claims {
            versions.retain(|name, _| !names.contains(name.as_str()));
        }
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
            + self.inherited.len()
            + self.recent.len()
            + self.heartbeats.len()
            + self.refused.len()
            + self.record.rejections.len()
            + outstanding.sum::<usize>()
    }
}
