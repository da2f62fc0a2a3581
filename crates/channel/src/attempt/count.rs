//! Counts of an RPC from its start to its end, for channelz (gRFC A14) and metrics, and the guard of its attempt.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Request};
use oxds_client::channelz::{CallCounter, CallOutcome};
use tonic::Code;

use super::call_meter::{CallMeter, Retried};
use super::guard::{AttemptGuard, GRPC_STATUS};
use super::picked::Picked;
use crate::metrics::ChannelMetrics;
use crate::stream::RequestBody;

/// Records an RPC that is under way; the drop counts its end. An RPC that is dropped before
/// [`end`](Self::end) counts as broken: it was cancelled, or its connection failed.
#[derive(Debug)]
pub(crate) struct CallRecorder {
    calls: Arc<CallCounter>,
    /// The current attempt.
    attempt: Option<AttemptGuard>,
    ended: CallOutcome,
    /// Metrics of the RPC, if the channel has a recorder. Boxed, so that the others stay small.
    meter: Option<Box<CallMeter>>,
}

impl CallRecorder {
    /// Counts the start of an RPC.
    pub(crate) fn begin<B>(
        calls: &Arc<CallCounter>,
        metrics: Option<&Arc<ChannelMetrics>>,
        request: &Request<B>,
    ) -> Self {
        calls.begin();
        Self {
            calls: Arc::clone(calls),
            attempt: None,
            ended: CallOutcome::Broken,
            meter: metrics.map(|metrics| CallMeter::start(metrics, request)),
        }
    }

    /// Begins an attempt, before its endpoint is chosen.
    pub(crate) fn start_attempt(&mut self, cluster: Option<&Arc<str>>) {
        if let Some(meter) = &mut self.meter {
            meter.start_attempt(cluster);
        }
    }

    /// Gives the attempt its endpoint. An earlier one that has not ended ends as broken.
    pub(crate) fn attempt(&mut self, attempt: AttemptGuard, picked: &Arc<Picked>) {
        self.attempt = Some(attempt);
        self.ended = CallOutcome::Broken;
        if let Some(meter) = &mut self.meter {
            meter.set_picked(picked);
        }
    }

    /// Counts the request that is about to be sent.
    pub(crate) fn send(&mut self, body: &mut RequestBody) {
        if let Some(meter) = &mut self.meter {
            meter.send(body);
        }
    }

    /// Counts a part of the response.
    pub(crate) fn receive(&mut self, data: &Bytes) {
        if let Some(meter) = &mut self.meter {
            meter.receive(data);
        }
    }

    /// Ends the current attempt with this status, as broken if it has not ended. Another one follows.
    pub(crate) fn end_attempt(&mut self, status: Code, retried: Retried) {
        self.attempt = None;
        if let Some(meter) = &mut self.meter {
            meter.end_attempt(status, retried);
        }
    }

    /// Records the end of the response. `trailers` are those of the endpoint, or its headers if the
    /// response has only these.
    pub(crate) fn end(&mut self, trailers: Option<&HeaderMap>) {
        if let Some(attempt) = &mut self.attempt {
            self.ended = attempt.end(trailers);
        }
        if let Some(meter) = &mut self.meter {
            meter.set_status(code_of(trailers));
        }
    }

    /// Records the status of an RPC that fails in this channel.
    pub(crate) fn fail(&mut self, status: Code) {
        if let Some(meter) = &mut self.meter {
            meter.set_status(status);
        }
    }
}

impl Drop for CallRecorder {
    fn drop(&mut self) {
        self.calls.end(self.ended);
    }
}

/// Returns the code in the trailers of a response.
fn code_of(trailers: Option<&HeaderMap>) -> Code {
    let status = trailers.and_then(|trailers| trailers.get(GRPC_STATUS));
    // "HTTP to gRPC Status Code Mapping": a response without a status is UNKNOWN.
    status.map_or(Code::Unknown, |status| Code::from_bytes(status.as_bytes()))
}
