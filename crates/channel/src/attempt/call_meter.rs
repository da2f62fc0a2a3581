//! Metrics of one RPC and its attempts (gRFC A66, A96).
//!
//! ```text
//!              start_attempt                    end_attempt, retried
//!  no attempt ───────────────▶ active attempt ───────────────────────▶ waiting to retry
//!                                   ▲  │ drop                              │ start_attempt
//!                                   │  ▼                                   │
//!                                   │ recorded: attempt, RPC               │
//!                                   └──────────────────────────────────────┘
//! ```

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use tokio::time::Instant;
use tonic::Code;

use super::meter::AttemptMeter;
use super::picked::Picked;
use crate::metrics::{CallValues, ChannelMetrics, MethodSeries};
use crate::stream::RequestBody;

/// Metrics of an RPC that is under way. The drop records its end.
#[derive(Debug)]
pub(crate) struct CallMeter {
    channel: Arc<ChannelMetrics>,
    method: Arc<MethodSeries>,
    started: Instant,
    /// Status of the RPC and of its attempt, unless another one is set before they end.
    status: Code,
    /// Name of the RPC's cluster, once it is chosen.
    cluster: Option<Arc<str>>,
    attempt: Option<AttemptMeter>,
    /// End of the attempt before, until the next one starts.
    idle_since: Option<Instant>,
    retries: u32,
    transparent_retries: u32,
    retry_delay: Duration,
}

/// Reason of another attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retried {
    /// By the retry policy.
    ByPolicy,
    /// The server's application did not see the attempt.
    Transparently,
}

impl CallMeter {
    /// Begins to measure an RPC.
    pub(crate) fn start<B>(channel: &Arc<ChannelMetrics>, request: &Request<B>) -> Box<Self> {
        Box::new(Self {
            method: channel.method(request),
            channel: Arc::clone(channel),
            started: Instant::now(),
            // An RPC that is dropped was cancelled.
            status: Code::Cancelled,
            cluster: None,
            attempt: None,
            idle_since: None,
            retries: 0,
            transparent_retries: 0,
            retry_delay: Duration::ZERO,
        })
    }

    /// Sets the status with which the RPC ends, unless another attempt follows.
    pub(crate) fn set_status(&mut self, status: Code) {
        self.status = status;
    }

    /// Begins an attempt, before its endpoint is chosen.
    pub(crate) fn start_attempt(&mut self, cluster: Option<&Arc<str>>) {
        let now = Instant::now();
        if let Some(since) = self.idle_since.take() {
            self.retry_delay += now.saturating_duration_since(since);
        }
        self.cluster = cluster.cloned();
        self.attempt = Some(AttemptMeter::start(now));
        self.channel.attempt_started(&self.method);
    }

    /// Sets the endpoint of the attempt.
    pub(crate) fn set_picked(&mut self, picked: &Arc<Picked>) {
        if let Some(attempt) = &mut self.attempt {
            attempt.set_picked(picked);
        }
    }

    /// Counts the request that is about to be sent.
    pub(crate) fn send(&mut self, body: &mut RequestBody) {
        if let Some(attempt) = &mut self.attempt {
            attempt.send(body);
        }
    }

    /// Counts a part of the response.
    pub(crate) fn receive(&mut self, data: &Bytes) {
        if let Some(attempt) = &mut self.attempt {
            attempt.receive(data);
        }
    }

    /// Records the end of the attempt. Another one follows.
    pub(crate) fn end_attempt(&mut self, status: Code, retried: Retried) {
        let now = Instant::now();
        self.record_attempt(now, status);
        match retried {
            Retried::ByPolicy => self.retries += 1,
            Retried::Transparently => self.transparent_retries += 1,
        }
        self.idle_since = Some(now);
        self.status = Code::Cancelled;
    }

    fn record_attempt(&mut self, now: Instant, status: Code) {
        if let Some(attempt) = self.attempt.take() {
            let values = attempt.end(now, status, self.cluster.as_deref());
            self.channel.attempt_ended(&self.method, values);
        }
    }
}

impl Drop for CallMeter {
    fn drop(&mut self) {
        let now = Instant::now();
        self.record_attempt(now, self.status);
        if let Some(since) = self.idle_since {
            self.retry_delay += now.saturating_duration_since(since);
        }
        let values = CallValues {
            status: self.status,
            duration: now.saturating_duration_since(self.started),
            retries: self.retries,
            transparent_retries: self.transparent_retries,
            retry_delay: self.retry_delay,
        };
        self.channel.call_ended(&self.method, values);
    }
}
