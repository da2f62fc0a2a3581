//! From the session: what it has to send, and what it saw.

use std::sync::Arc;

use oxds_core::session::{Event, Frame};
use oxds_types::ApiVersion;
use tracing::{debug, warn};

use super::Stream;
use crate::cache::Watcher;
use crate::hooks::SentResponse;
use crate::rollback::ReportedNack;

impl Stream {
    /// Sends all that the session wants to send, until what it watches and what it saw agree.
    pub(super) fn transmit(&mut self, transmit: &mut impl FnMut(Frame)) {
        loop {
            let Some(view) = self.watcher.as_ref().map(Watcher::view).map(Arc::clone) else {
                return;
            };
            let snapshot = view.load();
            self.shown |= snapshot.is_loaded();
            let mut sent_any = false;
            let mut session = self.open.session();
            while let Some(out) = session.poll_transmit(self.context.server.clock.now(), &snapshot)
            {
                self.context.server.metrics.response(&out);
                let (resource_type, version, nonce) = (&out.resource_type, out.version, out.nonce);
                let (resources, removed) = (out.resources, out.removed);
                debug!(stream = self.registration.id(), %resource_type, %version, %nonce, resources, removed, "sent");
                let sent = SentResponse {
                    resource_type,
                    version: version.as_str(),
                    resources,
                    removed,
                    bytes: out.frame.len(),
                };
                if let Err(refused) = self.observed.response(&sent) {
                    self.refused = Some(refused);
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
                self.context.cache.notifier().notify();
            }
            let revision = snapshot.revision();
            drop(snapshot);
            // A name that is watched only since now may have changed after the snapshot was loaded.
            let watched_more = self.handle_events();
            if !watched_more || view.load().revision() == revision {
                return;
            }
        }
    }

    /// Acts on the session's events; whether it watches something new.
    pub(super) fn handle_events(&mut self) -> bool {
        let (mut happened, mut watched_more) = (false, false);
        let mut rejected = Vec::new();
        let mut session = self.open.session();
        while let Some(event) = session.poll_event() {
            happened = true;
            self.context.server.metrics.event(&event);
            if let Err(refused) = self.observed.event(&event) {
                self.refused.get_or_insert(refused);
            }
            log(self.registration.id(), &event);
            match event {
                Event::Watched(resource_type, interests) => {
                    if let Some(watcher) = &mut self.watcher {
                        watcher.watch(&resource_type, interests);
                    }
                    watched_more = true;
                }
                Event::Unwatched(resource_type, interests) => {
                    if let Some(watcher) = &mut self.watcher {
                        watcher.unwatch(&resource_type, &interests);
                    }
                }
                Event::Nacked {
                    resource_type,
                    resources,
                    ..
                } => rejected.extend(ReportedNack::of_session(
                    &session,
                    &resource_type,
                    resources,
                )),
                _ => {}
            }
        }
        let node = session.node().filter(|_| !rejected.is_empty());
        let node = node.map_or_else(String::new, |node| node.id.clone());
        // What takes a change back publishes, and must find no session locked.
        drop(session);
        let now = self.context.server.clock.now();
        self.context.rollback.nacked(now, &node, &rejected);
        if happened {
            self.context.cache.notifier().notify();
        }
        watched_more
    }
}

fn log(stream: u64, event: &Event) {
    match event {
        Event::Watched(..) | Event::Unwatched(..) => {}
        Event::Acked {
            resource_type,
            version,
            after,
        } => {
            debug!(stream, %resource_type, %version, ?after, "accepted");
        }
        Event::Nacked {
            resource_type,
            version,
            reason,
            resources,
        } => {
            // As a string, which is quoted: the client's words are not to look like lines of our own.
            let said: &str = reason;
            warn!(stream, %resource_type, %version, ?resources, reason = said, "rejected by the client");
        }
        Event::StaleNonce(resource_type) => debug!(stream, %resource_type, "stale nonce"),
        Event::UnknownType(resource_type) => {
            warn!(stream, %resource_type, "asked for an unknown kind")
        }
        Event::HeldTooLong {
            resource_type,
            held,
        } => {
            warn!(stream, %resource_type, ?held, "sent although the client was not ready for it");
        }
    }
}
