//! The response side of a stream: transmits responses, and handles the events of the session.

use std::collections::BTreeMap;
use std::sync::Arc;

use oxds_core::rollout::RolloutNack;
use oxds_core::session::{Event, Frame, HeldChange, OverdueChange, Session};
use oxds_types::discovery::Node;
use oxds_types::{ApiVersion, ResourceType};
use tracing::{debug, warn};

use super::Stream;
use crate::calls::{Admitted, ClientLine, MemoryShare, MemoryUse, OverBudget, Shared, cost};
use crate::clients::ReportedNack;
use crate::hooks::SentResponse;

impl Stream {
    /// Transmits all responses that the session has for the current snapshot.
    pub(super) fn transmit(&mut self, transmit: &mut impl FnMut(Frame)) {
        let stream = self.registration.id();
        loop {
            let server = &self.context.server;
            let Some(watching) = &self.watching else {
                return;
            };
            let view = Arc::clone(watching.watcher.view());
            let snapshot = view.load();
            self.has_seen_snapshot |= snapshot.is_loaded();
            let mut sent_any = false;
            let mut session = self.open.session();
            while let Some(out) = session.poll_transmit(server.clock.now(), &snapshot) {
                server.metrics.response(&out);
                let (resource_type, version, nonce) = (&out.resource_type, out.version, out.nonce);
                let (resources, removed) = (out.resources, out.removed);
                debug!(stream, %resource_type, %version, %nonce, resources, removed, "response sent");
                let sent = SentResponse {
                    resource_type,
                    version: version.as_str(),
                    resources,
                    removed,
                    bytes: out.frame.len(),
                };
                if let Err(error) = self.observer.response(&sent) {
                    self.failure = Some(error.into());
                    return;
                }
                if out.api == ApiVersion::V2 {
                    self.context.not_representable.log(&snapshot, resource_type);
                }
                transmit(out.frame);
                sent_any = true;
            }
            drop(session);
            if sent_any {
                // The first answer of a type uses up the versions that the client claimed. Fewer bytes never exceed a
                // budget.
                let _ = self.share.set(MemoryUse::Versions, 0);
                self.context.cache.notifier().notify();
            }
            let revision = snapshot.revision();
            drop(snapshot);
            // A name that the stream watches only now may have changed after the snapshot was loaded, without a wake.
            let watches_more = self.handle_events();
            if !watches_more || view.load().revision() == revision {
                return;
            }
        }
    }

    /// Handles the events of the session. Returns whether the stream watches more than before.
    pub(super) fn handle_events(&mut self) -> bool {
        let (mut any, mut watches_more) = (false, false);
        let mut nacks = Vec::new();
        let (stream, server) = (self.registration.id(), &self.context.server);
        let mut session = self.open.session();
        while let Some(event) = session.poll_event() {
            any = true;
            server.metrics.event(&event);
            if let Err(error) = self.observer.event(&event) {
                self.failure.get_or_insert(error.into());
            }
            if let Err(over) = keep(&mut self.share, &mut self.nack_bytes, &session, &event) {
                self.failure.get_or_insert(over.into());
            }
            log(stream, session.node(), &event, server);
            nacks.extend(ReportedNack::of_event(&session, &event));
            match event {
                Event::Watched(resource_type, interests) => {
                    if let Some(watching) = &mut self.watching {
                        watching.watcher.watch(&resource_type, interests);
                    }
                    watches_more = true;
                }
                Event::Unwatched(resource_type, interests) => {
                    if let Some(watching) = &mut self.watching {
                        watching.watcher.unwatch(&resource_type, &interests);
                    }
                }
                Event::Nacked {
                    resource_type,
                    resources,
                    reason,
                    ..
                } => {
                    if let Some(watching) = &self.watching {
                        let node = session.node().map_or("", |node| &node.id);
                        watching.watcher.nacked(&RolloutNack {
                            node: node.into(),
                            resource_type,
                            names: resources,
                            reason,
                        });
                    }
                }
                _ => {}
            }
        }
        let node = session.node().filter(|_| !nacks.is_empty());
        let node = node.map_or_else(String::new, |node| node.id.clone());
        // A rollback publishes a snapshot, and reads the sessions of all clients before: this one must not be locked.
        drop(session);
        let now = server.clock.now();
        self.context.rollback.nacked(now, &node, &nacks);
        if any {
            self.context.cache.notifier().notify();
        }
        watches_more
    }
}

/// Counts what the session keeps since an event: names of the subscription, and texts of NACKs.
fn keep(
    share: &mut MemoryShare,
    nacks: &mut BTreeMap<ResourceType, usize>,
    session: &Session,
    event: &Event,
) -> Result<(), OverBudget> {
    let names = share.get(MemoryUse::Names);
    match event {
        Event::Watched(_, added) => share.set(MemoryUse::Names, names + cost::of_interests(added)),
        Event::Unwatched(_, removed) => {
            let left = names.saturating_sub(cost::of_interests(removed));
            share.set(MemoryUse::Names, left)
        }
        Event::Nacked { resource_type, .. } | Event::Acked { resource_type, .. } => {
            let is_nack = matches!(event, Event::Nacked { .. });
            if !is_nack && !nacks.contains_key(resource_type) {
                return Ok(());
            }
            match cost::of_nacks(session, resource_type) {
                0 => drop(nacks.remove(resource_type)),
                bytes => drop(nacks.insert(resource_type.clone(), bytes)),
            }
            share.set(MemoryUse::Nacks, nacks.values().sum())
        }
        _ => Ok(()),
    }
}

fn log(stream: u64, node: Option<&Node>, event: &Event, server: &Shared) {
    // As `&str`, which is logged with quotes: a client must not be able to forge log lines.
    let node = node.map_or("", |node| &node.id);
    let admit = |line| server.log.admit(line, server.clock.now());
    match event {
        Event::Watched(..) | Event::Unwatched(..) => {}
        Event::Acked {
            resource_type,
            version,
            after,
        } => {
            debug!(stream, node, %resource_type, %version, ?after, "ACK received");
        }
        Event::Nacked {
            resource_type,
            version,
            reason,
            resources,
            suspects,
        } => {
            let reason: &str = reason;
            if let Some(Admitted { suppressed }) = admit(ClientLine::Nacked) {
                warn!(stream, node, %resource_type, %version, ?resources, suspects, reason, suppressed, "NACK received");
            }
        }
        Event::StaleNonce(resource_type) => {
            debug!(stream, node, %resource_type, "stale nonce received");
        }
        Event::UnknownType(resource_type) => {
            if let Some(Admitted { suppressed }) = admit(ClientLine::UnknownType) {
                warn!(stream, node, %resource_type, suppressed, "unknown resource type requested");
            }
        }
        Event::HeldTooLong {
            resource_type,
            held,
        } => {
            let (change, name, waits_for) = match held {
                OverdueChange::Update { name, waits_for } => {
                    (HeldChange::Update, Some(name), Some(waits_for.to_string()))
                }
                OverdueChange::Removal(name) => (HeldChange::Removal, Some(name), None),
                OverdueChange::Answer => (HeldChange::Answer, None, None),
            };
            let (held, name) = (change.as_str(), name.map(|name| &**name));
            let waits_for = waits_for.as_deref();
            if let Some(Admitted { suppressed }) = admit(ClientLine::HeldTooLong) {
                warn!(stream, node, %resource_type, held, name, waits_for, suppressed, "hold timer expired, change sent");
            }
        }
    }
}
