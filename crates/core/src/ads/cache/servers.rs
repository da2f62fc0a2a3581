//! What becomes of the servers: they are asked, are silent, are lost.

use std::sync::Arc;

use oxds_types::ResourceType;
use oxds_types::name::selects_many;

use super::answers::tell_error;
use super::outbox::ambient;
use super::{Cache, Due};
use crate::ads::WatchError;
use crate::ads::config::{AuthorityId, ServerId};
use crate::time::Instant;

impl Cache {
    /// A server has been asked for these; from now on its silence counts.
    pub(in crate::ads) fn requested(
        &mut self,
        server: ServerId,
        resource_type: &ResourceType,
        names: &[String],
        until: Instant,
    ) {
        let silence = Some((server, until));
        for name in names {
            let found = self.entries.get(resource_type, name);
            let waiting = found.filter(|(_, entry)| entry.is_open() && entry.silence().is_none());
            let Some((name, _)) = waiting else { continue };
            let name = Arc::clone(name);
            if let Some(entry) = self.entries.get_mut(resource_type, &name) {
                self.deadlines
                    .set_silence(resource_type, &name, entry, silence);
            }
        }
    }

    /// The stream to the server ended: silence on it means nothing any more.
    pub(in crate::ads) fn handle_closed(&mut self, server: ServerId) {
        for (resource_type, name) in self.deadlines.silent() {
            if let Some(entry) = self.entries.get_mut(&resource_type, &name)
                && entry.silence().is_some_and(|(asked, _)| asked == server)
            {
                self.deadlines
                    .set_silence(&resource_type, &name, entry, None);
            }
        }
    }

    /// All that is held from the server is as the server has it: what was wrong with the way there is so no more.
    pub(in crate::ads) fn handle_current(&mut self, server: ServerId) {
        for (resource_type, name, entry) in self.entries.iter_mut() {
            let is_of = entry.held().is_some_and(|held| held.server == server);
            if is_of && entry.fault().is_none() && entry.clear_error() {
                self.outbox.tell(ambient(resource_type, name, None));
            }
        }
    }

    /// No server of the authority can be reached: an error for whom nothing is held, a remark for the others (C-91).
    pub(in crate::ads) fn handle_unreachable(
        &mut self,
        authority: AuthorityId,
        error: impl Fn(&ResourceType, &str) -> WatchError,
    ) {
        let names = self.names(authority);
        let names = names.map(|(resource_type, name)| (resource_type.clone(), Arc::clone(name)));
        for (resource_type, name) in names.collect::<Vec<_>>() {
            let error = error(&resource_type, &name);
            let event = if selects_many(&name) {
                let has_members = self.members(&resource_type, &name).next().is_some();
                self.collections
                    .lose(&resource_type, &name, error, has_members)
            } else {
                let entry = self.entries.get_mut(&resource_type, &name);
                entry.and_then(|entry| tell_error(&resource_type, &name, entry, error))
            };
            self.outbox.tell_all(event);
        }
    }

    /// What has become due, and the server that it is due to.
    pub(in crate::ads) fn pop_due(
        &mut self,
        now: Instant,
    ) -> Option<(Due, ServerId, ResourceType, Arc<str>)> {
        loop {
            let (due, resource_type, name) = self.deadlines.pop(now)?;
            let Some(entry) = self.entries.get_mut(&resource_type, &name) else {
                continue;
            };
            let server = match due {
                Due::Silence => {
                    let silence = entry.silence();
                    entry.set_silence(None);
                    silence.map(|(server, _)| server)
                }
                Due::Expiry => {
                    entry.set_expiry(None);
                    entry.held().map(|held| held.server)
                }
            };
            if let Some(server) = server {
                return Some((due, server, resource_type, name));
            }
        }
    }

    pub(in crate::ads) fn poll_timeout(&self) -> Option<Instant> {
        self.deadlines.next()
    }
}
