//! What sources without a stream say: a server that is polled, a file.
//!
//! To the machine each is a server of full states whose stream is open for as long as it is wanted. What it brings
//! comes by [`handle_response`](Client::handle_response); what a stream has no word for comes here.

use super::cache::{FailedUpdate, Fault};
use super::error::error;
use super::{Client, ResponseSummary, ServerId, WatchErrorReason};
use crate::time::Instant;

impl Client {
    /// An attempt to ask the server failed; it will be asked again. What is held stays (C-268).
    pub fn handle_unanswered(&mut self, server: ServerId, cause: &str) {
        // Silence means nothing while nobody answers.
        self.cache.handle_closed(server);
        self.lose(server, cause);
    }

    /// The server says that nothing changed since its last answer (C-267).
    pub fn handle_unchanged(&mut self, server: ServerId) {
        self.channels.settle_on(&self.cache, server);
        self.cache.handle_current(server);
    }

    /// The source has something to say, but not one resource can be made of it. What is held stays, and counts as
    /// rejected until the source can be read again (C-264, C-268). Returns what that brought: whatever is in it, one that
    /// is invalid.
    pub fn handle_unreadable(
        &mut self,
        now: Instant,
        server: ServerId,
        reason: &str,
    ) -> Option<ResponseSummary> {
        self.channels.settle_on(&self.cache, server);
        let channel = self.channels.get(server);
        let resource_type = channel
            .stream
            .wanted()
            .next()
            .map(|(resource_type, _)| resource_type.clone());
        for (resource_type, name) in channel.stream.wanted() {
            let text = format!("cannot be read: {reason}");
            let (from, node_id) = (&channel.server, &self.config.node.id);
            let error = error(
                from,
                node_id,
                WatchErrorReason::Invalid,
                &text,
                resource_type,
                name,
            );
            let version = String::new();
            let attempt = FailedUpdate { version, at: now };
            let loss = from.loss_by_error(false);
            self.cache
                .fail(resource_type, name, Fault::Rejected(attempt), error, loss);
        }
        resource_type.map(|resource_type| ResponseSummary {
            resource_type,
            valid: 0,
            invalid: 1,
            rejection: Some(reason.to_owned()),
        })
    }
}
