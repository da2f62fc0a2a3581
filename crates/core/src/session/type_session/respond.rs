//! The next response of one type: plan, encode, and record what was sent.

use std::{collections::HashMap, sync::Arc, time::Duration};

use oxds_types::Version;

use super::{
    TypeSession,
    cursor::{Cursor, Step},
    encode,
    gate::{self, OldCopies, Peers},
    in_flight::{Item, Items, KeptCopies, SentContent},
    plan::{Base, ResponsePlan},
};
use crate::{
    response::ResponseBuilder,
    snapshot::{Resource, ResourceSet, Revision, TypeSnapshot},
    time::Instant,
};

/// A response before it has a nonce.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) response: ResponseBuilder,
    pub(crate) version: Version,
    pub(crate) content: SentContent,
    pub(crate) kept: KeptCopies,
    /// Assignments to send again, since their clusters change with this response (S-54).
    pub(crate) assignments: Vec<Arc<str>>,
    /// See [`SentResponse::covers`](super::SentResponse).
    pub(crate) covers: Option<Revision>,
}

impl TypeSession {
    /// The next response, if content is due and may be sent now.
    pub(crate) fn poll(&mut self, now: Instant, peers: &Peers<'_, Self>) -> Option<Draft> {
        let is_idle = self.in_flight.is_empty();
        // xDS protocol, "When to send an update": a client answers each response, so the next waits for that answer.
        // One response of a type at a time, so that a slow client costs one cursor; but new names are sent at once
        // (S-16, S-44).
        if !is_idle && (!self.pending.urgent || self.in_flight.is_full()) {
            return None;
        }
        if is_idle {
            self.repeat_assignments();
            self.send_next_round(peers.head);
            self.start_full_state_heartbeat(now);
            let removals = self.resumed.due_removals(&self.context, peers);
            self.pending.names.extend(removals);
        }
        // Resources go first; reasons of denied names and heartbeats follow when nothing else is due.
        let draft = self.poll_resources(now, peers);
        self.pending.urgent = false;
        if let Some(mut draft) = draft {
            self.pending.answer = false;
            let (response, limit) = (&mut draft.response, peers.head.body_limit());
            self.denied.write(&self.context, response, limit);
            return Some(draft);
        }
        is_idle
            .then(|| self.poll_without_resources(now, peers.head))
            .flatten()
    }

    /// S-54: a cluster changed, so its assignment is due again, changed or not.
    fn repeat_assignments(&mut self) {
        for name in std::mem::take(&mut self.pending.assignments) {
            // Content that the client NACKed would be NACKed again.
            if self.client.nacked().contains_key(&name) {
                continue;
            }
            if !self.client.is_wildcard() {
                self.client.ask_again(&name);
            }
            self.pending.add(&name);
        }
    }

    fn poll_resources(&mut self, now: Instant, peers: &Peers<'_, Self>) -> Option<Draft> {
        while let Some(part) = self.next_part() {
            if let Some(draft) = self.send(part, peers.head) {
                return Some(draft);
            }
        }
        let plan = if self.client.is_wildcard() {
            self.plan_wildcard(now, peers)
        } else {
            self.plan_names(now, peers)
        };
        self.send(plan?, peers.head)
    }

    /// Delta: the next part of a split response (S-50). A part is of the step that was planned, not of the current
    /// state: later changes follow as a step of their own.
    fn next_part(&mut self) -> Option<ResponsePlan> {
        let cursor = self.client.cursor_mut()?;
        let base = Base::Part(cursor.unsent.take()?);
        let to = cursor.sent.as_ref()?;
        Some(ResponsePlan::new(to, base, Items::new(), false))
    }

    fn plan_wildcard(&mut self, now: Instant, peers: &Peers<'_, Self>) -> Option<ResponsePlan> {
        let to = peers.head.collection();
        if self.recall_version(peers.head) {
            return None;
        }
        let mut step = self.client.cursor()?.step(peers.head);
        // S-52: over SotW, absence is removal.
        let is_first = self.record.sent.is_none() && self.context.is_full_state();
        let removes = is_first && self.context.is_cluster() && step.removals().next().is_some();
        if self.resumed.first_answer_waits(now, false, removes, peers) {
            return None;
        }
        let (context, client) = (&self.context, &mut self.client);
        let updates = step.updates(to);
        let copies = OldCopies {
            client,
            is_fresh: self.resumed.fresh,
        };
        if self.gate.updates_wait(now, context, copies, updates, peers) {
            return None;
        }
        // xDS protocol, "Eventual consistency considerations": make before break. Removals wait for their users
        // (S-52).
        let released = gate::release_removals(context, client, &mut self.recent, peers);
        let replaced = gate::hold_removals(now, &step, context, client, peers);
        if !self.context.is_delta() {
            return self.plan_full_state(to, step, released, replaced);
        }
        // xDS protocol, "Incremental xDS": a reconnecting client reports its versions, so that only differences are
        // sent (S-42).
        if matches!(step, Step::Everything)
            && let Some(versions) = self.resumed.versions.take()
        {
            self.resume_wildcard(now, &versions, peers);
            step = Step::InSync;
        }
        Some(self.plan_step(to, step, released, replaced))
    }

    /// SotW, new stream: continues at the state whose version the client reports, if that is still known. Returns
    /// whether it is the current one, so that no answer is due.
    fn recall_version(&mut self, head: &TypeSnapshot) -> bool {
        let (to, cursor) = (head.collection(), self.client.cursor_mut());
        let cursor = cursor.filter(|cursor| cursor.sent.is_none());
        let (Some(cursor), Some(reported)) = (cursor, &self.resumed.whole_version) else {
            return false;
        };
        let version = to.version();
        if version != **reported {
            // S-52: what it has, and what to remove, is known.
            if let Some(state) = head.at_version(reported) {
                *cursor = Cursor::in_sync(state);
                self.resumed.forget_versions();
                if self.context.is_cluster() {
                    self.recent.note_returned();
                }
            }
            return false;
        }
        // The version is a hash of all content, so equal versions mean equal content (S-24). Resources that have a
        // TTL must be confirmed, which over SotW needs the full state (S-49).
        if self.context.form.ttl && to.has_ttl() {
            return false;
        }
        *cursor = Cursor::in_sync(to);
        self.resumed.forget_versions();
        self.pending.answer = false;
        self.pending.take_names();
        (self.record.sent, self.record.acked) = (Some(version), Some(version));
        true
    }

    /// Delta, new stream: due are names whose reported version is not the current one, and removals (S-42).
    fn resume_wildcard(
        &mut self,
        now: Instant,
        reported: &HashMap<String, String>,
        peers: &Peers<'_, Self>,
    ) {
        let to = peers.head.collection();
        let version = |one: &Resource| reported.get(&**one.name());
        let differs = |one: &&Arc<Resource>| version(one).is_none_or(|v| one.version() != **v);
        let differing = to.iter().filter(differs);
        self.pending
            .names
            .extend(differing.map(|one| Arc::clone(one.name())));
        let gone = reported.keys().filter(|name| to.get(name).is_none());
        let gone = gone.map(|name| Arc::from(name.as_str())).collect();
        let due = self.resumed.remove(now, &self.context, gone, peers);
        self.pending.names.extend(due);
        self.resume_heartbeats(to.ttls());
    }

    /// SotW: everything, and copies that the client keeps (S-1, S-3 … S-5). `None` if it would carry no news.
    fn plan_full_state(
        &mut self,
        to: &Arc<ResourceSet>,
        step: Step,
        released: Vec<Arc<str>>,
        replaced: Vec<Arc<Resource>>,
    ) -> Option<ResponsePlan> {
        let has_names = self.pending.has_names();
        let is_asked = self.pending.answer || has_names || matches!(step, Step::Everything);
        let has_news = !released.is_empty() || !step.is_empty();
        let changes_a_ttl = self.context.form.ttl && step.changes_a_ttl();
        let mut plan = ResponsePlan::of_all(&self.client, to, step);
        let cursor = self.client.cursor_mut()?;
        // Changes of NACKed resources only may add up to the state that was sent last.
        let same = cursor.version == Some(plan.version) && !changes_a_ttl;
        if !is_asked && (!has_news || same) {
            cursor.advance(to);
            return None;
        }
        self.pending.take_names();
        (plan.kept.replaced, plan.kept.released) = (replaced, released);
        Some(plan)
    }

    /// Delta: changes since the cursor, holds that ended, and names that are due whatever the cursor says (S-35,
    /// S-39).
    fn plan_step(
        &mut self,
        to: &Arc<ResourceSet>,
        step: Step,
        released: Vec<Arc<str>>,
        replaced: Vec<Arc<Resource>>,
    ) -> ResponsePlan {
        let client = &self.client;
        let is_held = |name: &Arc<str>| client.held().contains_key(name);
        let mut assignments = Vec::new();
        match &step {
            // On a new stream, due are the names that differ from what the client reported.
            Step::InSync if self.record.sent.is_none() => {
                let due = self.pending.names.iter().filter_map(|name| to.get(name));
                assignments = self.context.assignments(due);
            }
            Step::InSync => {}
            Step::Since(_) => self
                .pending
                .names
                .retain(|name| !step.has(name) || is_held(name)),
            // S-28: no name twice. Resources come with the base, removals do not.
            Step::Everything => self.pending.names.retain(|name| to.get(name).is_none()),
        }
        let shares_removals = !step.removals().any(is_held);
        // Removals that are held for this client are not part of the response, so it cannot share the others.
        let own = step.removals().filter(|name| !is_held(name));
        let own = own.filter(|_| !shares_removals);
        let mut items: Items = own.cloned().map(Item::Removed).collect();
        let due = self.pending.take_names().0;
        let due = due.into_iter().filter(|name| !released.contains(name));
        let due = due.map(|name| match to.get(&name) {
            Some(resource) => Item::Resource(Arc::clone(resource)),
            None => Item::Removed(name),
        });
        let due: Items = due.collect();
        items.extend(released.into_iter().map(Item::Removed));
        items.extend(due);
        let base = Base::Step {
            step,
            shares_removals,
        };
        let mut plan = ResponsePlan::new(to, base, items, self.pending.answer);
        plan.kept.replaced = replaced;
        plan.assignments = assignments;
        plan
    }

    /// Encodes a plan and records what it sends. Items without room become due again. `None` if the response would be
    /// empty and need not be sent.
    fn send(&mut self, plan: ResponsePlan, head: &TypeSnapshot) -> Option<Draft> {
        let (to, mut items, context) = (plan.to, plan.items, &self.context);
        let mut response = ResponseBuilder::new(context.form.protocol);
        let (step, part, unsent) = encode::push_base(&mut response, head, context.form, plan.base);
        // S-50: a full state cannot be split, since a resource that is left out of it is removed.
        let is_whole = context.is_full_state() || !context.is_delta() && step.is_some();
        let limit = if is_whole {
            usize::MAX
        } else {
            head.body_limit()
        };
        let (hosts, pending) = (&self.hosts, &mut self.pending);
        encode::push_items(context, hosts, &mut response, &mut items, limit, pending);
        let completes = unsent.is_none() && !self.pending.has_names();
        let is_skipped = response.is_empty() && !plan.is_due;
        if let Some(cursor) = self.client.cursor_mut() {
            cursor.unsent = unsent;
            if is_skipped {
                cursor.advance(&to);
            } else {
                (cursor.sent, cursor.version) = (Some(Arc::clone(&to)), Some(plan.version));
            }
        }
        if is_skipped {
            return None;
        }
        items.retain(|item| item.is_news());
        let mut assignments = plan.assignments;
        if is_whole {
            // S-54: the assignments that were sent with the NACKed response came before their clusters.
            assignments.extend(context.assignments(self.client.sent_again(&to)));
            self.client.supersede_nacked(&to);
        }
        self.note_items(step.is_some(), &items);
        let content = match step {
            None => SentContent::Names(items),
            Some(step) => SentContent::Whole {
                to,
                completes,
                step,
                part,
                extra: items,
                is_left: false,
            },
        };
        assignments.extend(content.changed_assignments(&self.context));
        Some(Draft {
            response,
            version: plan.version,
            covers: self.covered(&content, head),
            content,
            kept: plan.kept,
            assignments,
        })
    }

    /// Returns the revision that the client has as a whole once it has this content; `None` if more is left to send.
    fn covered(&self, content: &SentContent, head: &TypeSnapshot) -> Option<Revision> {
        let revision = match content {
            SentContent::Whole { to, completes, .. } => completes.then(|| to.revision())?,
            SentContent::Names(_) => head.collection().revision(),
        };
        let mut held = self.client.held().values();
        let is_complete = self.pending.is_quiet() && held.all(|held| held.timer.expired);
        is_complete.then_some(revision)
    }

    /// Records that these items are sent.
    fn note_items(&mut self, to_wildcard: bool, items: &[Item]) {
        if !to_wildcard {
            self.client.note_items_sent(items);
        }
        for gone in items.iter().filter(|item| item.resource().is_none()) {
            if to_wildcard {
                self.client.release(gone.name());
            } else {
                self.globs.remove_member(gone.name(), &mut self.client);
                self.hosts.remove_member(gone.name(), &mut self.client);
            }
        }
    }
}

// Responses without a plan.
impl TypeSession {
    /// Reasons of denied names if some are due, or else heartbeats: their answers change nothing that is known about
    /// resources.
    fn poll_without_resources(&mut self, now: Instant, head: &TypeSnapshot) -> Option<Draft> {
        let (context, limit) = (&self.context, head.body_limit());
        let mut response = ResponseBuilder::new(context.form.protocol);
        self.denied.write(context, &mut response, limit);
        let mut version = self.record.sent;
        if response.is_empty() {
            // SotW: a heartbeat carries the version of the response that the client accepted last. A client that
            // accepted none would not take it for a heartbeat, and is sent the resource instead.
            version = self.record.acked.filter(|_| !context.is_delta());
            let (client, response) = (&self.client, &mut response);
            self.heartbeats
                .write(now, context, client, version, response, limit);
        }
        (!response.is_empty()).then(|| Draft {
            response,
            version: version.unwrap_or(head.collection().version()),
            content: SentContent::Names(Items::new()),
            kept: KeptCopies::default(),
            assignments: Vec::new(),
            covers: None,
        })
    }

    /// SotW full state: a due heartbeat is the whole state, since a response without the other resources would remove
    /// them.
    fn start_full_state_heartbeat(&mut self, now: Instant) {
        if !self.context.form.ttl || !self.is_whole_state() {
            return;
        }
        for (ttl, _) in self.heartbeats.take_due() {
            if self.client.with_ttl(ttl, "").next().is_some() {
                self.pending.answer = true;
                // Counted from now: copies that replace NACKed content are in the state, but start no timer.
                self.heartbeats.start(now, ttl);
            }
        }
    }

    /// The client has resources with these TTLs from an earlier stream.
    pub(super) fn resume_heartbeats(&mut self, ttls: impl IntoIterator<Item = Duration>) {
        let ttls = ttls.into_iter().filter(|_| self.context.form.ttl);
        ttls.for_each(|ttl| self.heartbeats.start_due(ttl));
    }
}
