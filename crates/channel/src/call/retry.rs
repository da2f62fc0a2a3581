//! Retries of one RPC by the policy of its route (gRFC A6, A44).

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Request};
use oxds_core::lb::{Pushback, Retries, RetryPolicy};
use oxds_net::rpc::random;
use tonic::Status;

use super::buffer::BufferedBody;
use crate::memory::{Reservation, RetryMemory};
use crate::stream::RequestBody;

const PREVIOUS_ATTEMPTS: HeaderName = HeaderName::from_static("grpc-previous-rpc-attempts");
const PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");

/// Retries of an RPC: its policy, and what another attempt needs.
pub(super) struct RetryState {
    policy: Option<Arc<RetryPolicy>>,
    retries: Retries,
    /// Number of requests that were sent, transparent retries included.
    sent: u32,
    saved: SavedBody,
}

/// How the body of another attempt is made.
enum SavedBody {
    /// A unary body is in each request itself. The reservation is for retries by policy.
    Unary { _reserved: Option<Reservation> },
    /// A streaming body that cannot be sent again.
    Lost,
    /// A streaming body that is buffered.
    Buffered(BufferedBody),
}

impl RetryState {
    /// Prepares the request for retries. A streaming body is buffered only if there is a policy.
    pub(super) fn new(
        policy: Option<Arc<RetryPolicy>>,
        request: &mut Request<RequestBody>,
        memory: Option<&Arc<RetryMemory>>,
    ) -> Self {
        // Without memory, retries are off in this channel.
        let (Some(policy), Some(memory)) = (policy, memory) else {
            return Self::of(None, SavedBody::Unary { _reserved: None });
        };
        if let Some(size) = request.body().whole().map(bytes::Bytes::len) {
            let mut reserved = Reservation::new(memory);
            // gRFC A6: an RPC that exceeds the buffer is not retried.
            let policy = reserved.grow(size).then_some(policy);
            let _reserved = Some(reserved);
            return Self::of(policy, SavedBody::Unary { _reserved });
        }
        let source = std::mem::replace(request.body_mut(), RequestBody::empty());
        let body = BufferedBody::new(source, memory);
        *request.body_mut() = body.attempt(0);
        Self::of(Some(policy), SavedBody::Buffered(body))
    }

    fn of(policy: Option<Arc<RetryPolicy>>, saved: SavedBody) -> Self {
        Self {
            policy,
            retries: Retries::default(),
            sent: 0,
            saved,
        }
    }

    /// Returns whether the saved request is still whole: no message of it was too large for the buffer.
    pub(super) fn can_replay(&self) -> bool {
        match &self.saved {
            SavedBody::Unary { .. } => true,
            SavedBody::Buffered(body) => !body.is_committed(),
            SavedBody::Lost => false,
        }
    }

    /// Returns whether a failed attempt may be retried by the policy.
    pub(super) fn has_policy(&self) -> bool {
        self.policy.is_some()
    }

    /// Counts a request that is about to be sent, and returns the body of another attempt. Returns `None` if the
    /// request cannot be sent again.
    pub(super) fn save(&mut self, body: &RequestBody) -> Option<RequestBody> {
        self.sent += 1;
        match &self.saved {
            SavedBody::Unary { .. } => Some(RequestBody::Whole(body.whole()?.clone())),
            SavedBody::Buffered(body) => Some(body.attempt(self.sent)),
            SavedBody::Lost => None,
        }
    }

    /// Returns the time to wait before the next attempt, or `None` if the failure with this status is final. `headers`
    /// are those of the response, if there was one.
    pub(super) fn delay(
        &mut self,
        status: &Status,
        headers: Option<&HeaderMap>,
    ) -> Option<Duration> {
        let policy = self.policy.as_ref().filter(|_| self.can_replay())?;
        let pushback = headers.map_or(Pushback::None, |headers| {
            let values = headers.get_all(PUSHBACK).iter();
            Pushback::parse(values.map(HeaderValue::as_bytes))
        });
        let code = u32::try_from(i32::from(status.code())).unwrap_or_default();
        self.retries
            .handle_failure(policy, code, pushback, random())
    }

    /// Adds the number of previous attempts to the headers of a request.
    pub(super) fn write(&self, headers: &mut HeaderMap) {
        let attempts = self.retries.previous_attempts();
        if attempts > 0 {
            headers.insert(PREVIOUS_ATTEMPTS, attempts.into());
        }
    }

    /// Ends the retries: the response is passed on.
    pub(super) fn commit(&mut self) {
        self.policy = None;
        if let SavedBody::Buffered(body) = std::mem::replace(&mut self.saved, SavedBody::Lost) {
            body.commit();
        }
    }
}
