//! Guard of an attempt: everything that ends with one attempt of an RPC.
//!
//! ```text
//!  pick ──▶ AttemptGuard ──▶ end(trailers) ──▶ drop
//!               └──────────── broken, cancelled ─▶ drop
//! ```
//!
//! A pick makes the guard. It moves with the request into the response body, and is dropped at the end of the body, or
//! earlier if the RPC is cancelled or another attempt follows.

use std::fmt;
use std::sync::Arc;

use http::HeaderMap;
use oxds_client::channelz::CallOutcome;
use oxds_client::load;
use oxds_core::lb::{CallResults, RequestPermit};

use crate::stream::InFlight;

pub(crate) const GRPC_STATUS: http::HeaderName = http::HeaderName::from_static("grpc-status");

/// End of an attempt, as load-balancing policies see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttemptEnd<'a> {
    #[expect(dead_code, reason = "weighted round robin reads the trailers only")]
    pub(crate) outcome: CallOutcome,
    /// Trailers of the endpoint, or its headers if the response has only these; `None` if the attempt broke or was
    /// cancelled.
    pub(crate) trailers: Option<&'a HeaderMap>,
}

/// Observer of the end of attempts: a load-balancing policy that counts them.
pub(crate) trait AttemptObserver: fmt::Debug + Send + Sync {
    /// Called once per attempt, on the task that ended it. Must not block.
    fn ended(&self, end: AttemptEnd<'_>);
}

/// One attempt of an RPC, from its pick to the end of its response. The drop ends it as broken, unless it ended before:
/// the connection failed, or the RPC was cancelled.
#[derive(Debug)]
pub(crate) struct AttemptGuard {
    /// The stream on the connection, for channelz and `MAX_CONCURRENT_STREAMS`.
    in_flight: InFlight,
    /// Load of the endpoint's locality, if the cluster reports load.
    load: Option<load::Call>,
    /// Observer of the policy that picked, if it has one.
    observer: Option<Arc<dyn AttemptObserver>>,
    /// Permission of the cluster's circuit breaker.
    permit: Option<RequestPermit>,
    /// Results of the endpoint's calls, if its cluster has outlier detection.
    results: Option<Arc<CallResults>>,
}

impl AttemptGuard {
    /// Makes the guard of an attempt that only its connection counts.
    pub(crate) fn new(in_flight: InFlight) -> Self {
        Self {
            in_flight,
            load: None,
            observer: None,
            permit: None,
            results: None,
        }
    }

    /// Adds the results of the endpoint's calls.
    pub(crate) fn with_results(mut self, results: Option<Arc<CallResults>>) -> Self {
        self.results = results;
        self
    }

    /// Adds the permission of the circuit breaker.
    pub(crate) fn with_permit(mut self, permit: Option<RequestPermit>) -> Self {
        self.permit = permit;
        self
    }

    /// Adds the load of the endpoint's locality.
    pub(crate) fn with_load(mut self, load: Option<load::Call>) -> Self {
        self.load = load;
        self
    }

    /// Adds an observer.
    pub(crate) fn with_observer(mut self, observer: Option<Arc<dyn AttemptObserver>>) -> Self {
        self.observer = observer;
        self
    }

    /// Records the end of the response, and returns its outcome. `trailers` are those of the endpoint, or its headers
    /// if the response has only these.
    pub(crate) fn end(&mut self, trailers: Option<&HeaderMap>) -> CallOutcome {
        if let (Some(load), Some(trailers)) = (self.load.take(), trailers) {
            load.end(trailers);
        }
        let outcome = outcome_of(trailers);
        self.in_flight.end(outcome);
        // gRFC A32: the request ends with its status, not when the application drops the response.
        self.permit = None;
        // gRFC A50: a call has succeeded if its status is OK.
        if let Some(results) = self.results.take() {
            results.add(outcome == CallOutcome::Ok);
        }
        if let Some(observer) = self.observer.take() {
            observer.ended(AttemptEnd { outcome, trailers });
        }
        outcome
    }
}

impl Drop for AttemptGuard {
    fn drop(&mut self) {
        // gRFC A50: every other end is a failure, a cancellation included.
        if let Some(results) = self.results.take() {
            results.add(false);
        }
        if let Some(observer) = self.observer.take() {
            observer.ended(AttemptEnd {
                outcome: CallOutcome::Broken,
                trailers: None,
            });
        }
    }
}

/// Returns the outcome of a response that ended with these trailers.
pub(crate) fn outcome_of(trailers: Option<&HeaderMap>) -> CallOutcome {
    let status = trailers.and_then(|trailers| trailers.get(GRPC_STATUS));
    match status {
        Some(status) if status == "0" => CallOutcome::Ok,
        _ => CallOutcome::NotOk,
    }
}
