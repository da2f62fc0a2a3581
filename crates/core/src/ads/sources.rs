//! Results of sources without a stream: a REST server that is polled, or a file.
//!
//! To the machine, each source is a SotW server whose stream is open for as long as names are subscribed. Its responses
//! come by [`handle_response`](Client::handle_response). Results that a stream does not have come by the functions
//! here.

use super::cache::{FailedUpdate, UpdateFailure};
use super::client::Client;
use super::error::{WatchErrorReason, error};
use super::response::ResponseSummary;
use crate::server_id::ServerId;
use crate::time::Instant;

impl Client {
    /// Handles a fetch that failed and will be repeated. Cached resources stay in use (C-268).
    pub fn handle_unanswered(&mut self, server: ServerId, cause: &str) {
        self.end_unwatched();
        // gRFC A57: the resource timeout does not run while the server is unreachable (C-95).
        self.cache.handle_closed(server);
        self.handle_unreachable(server, cause);
        debug_assert!(self.is_consistent());
    }

    /// Handles the report that nothing changed since the last response (C-267).
    pub fn handle_unchanged(&mut self, server: ServerId) {
        self.servers.handle_answered(&self.cache, server);
        self.cache.handle_current(server);
        debug_assert!(self.is_consistent());
    }

    /// Handles content of which no resource can be read. Cached resources stay in use.
    ///
    /// They count as NACKed until the source can be read again (C-264, C-268). Returns a summary with one invalid
    /// resource, or `None` if nothing is subscribed.
    pub fn handle_unreadable(
        &mut self,
        now: Instant,
        server: ServerId,
        reason: &str,
    ) -> Option<ResponseSummary> {
        self.servers.handle_answered(&self.cache, server);
        let state = self.servers.get(server);
        let resource_type = state
            .stream
            .subscriptions()
            .next()
            .map(|(resource_type, _)| resource_type.clone());
        for (resource_type, name) in state.stream.subscriptions() {
            let text = format!("cannot be read: {reason}");
            let (from, node_id) = (&state.config, &self.config.node.id);
            let class = WatchErrorReason::Invalid;
            let error = error(from, node_id, class, &text, resource_type, name);
            let version = String::new();
            let failure = UpdateFailure::Nacked(FailedUpdate { version, at: now });
            let effect = from.effect_of_error(false);
            self.cache.fail(resource_type, name, failure, error, effect);
        }
        debug_assert!(self.is_consistent());
        resource_type.map(|resource_type| ResponseSummary {
            resource_type,
            valid: 0,
            invalid: 1,
            rejection: Some(reason.to_owned()),
            contradictions: Vec::new(),
        })
    }
}
