//! Counts of an RPC from its start to its end, for channelz (gRFC A14) and load reports (gRFC A27).

use std::sync::Arc;

use http::HeaderMap;
use oxds_client::channelz::{CallCounter, CallOutcome};
use oxds_client::load;

use crate::subchannel::InFlight;

pub(crate) const GRPC_STATUS: http::HeaderName = http::HeaderName::from_static("grpc-status");

/// Records an RPC that is under way; the drop counts its end. An RPC that is dropped before
/// [`end`](Self::end) counts as broken: it was cancelled, or its connection failed.
#[derive(Debug)]
pub(crate) struct CallRecorder {
    calls: Arc<CallCounter>,
    /// The connection of the current attempt.
    in_flight: Option<InFlight>,
    /// The load of the endpoint's locality, if the cluster reports load.
    load: Option<load::Call>,
    ended: CallOutcome,
}

impl CallRecorder {
    /// Counts the start of an RPC.
    pub(crate) fn begin(calls: &Arc<CallCounter>) -> Self {
        calls.begin();
        Self {
            calls: Arc::clone(calls),
            in_flight: None,
            load: None,
            ended: CallOutcome::Broken,
        }
    }

    /// Moves the RPC to a connection. An earlier attempt ends as broken.
    pub(crate) fn attempt(&mut self, in_flight: InFlight, load: Option<load::Call>) {
        self.in_flight = Some(in_flight);
        self.load = load;
    }

    /// Records the end of the response. `trailers` are those of the endpoint, or its headers if the
    /// response has only these.
    pub(crate) fn end(&mut self, trailers: Option<&HeaderMap>) {
        if let (Some(load), Some(trailers)) = (self.load.take(), trailers) {
            load.end(trailers);
        }
        let status = trailers.and_then(|trailers| trailers.get(GRPC_STATUS));
        self.ended = match status {
            Some(status) if status == "0" => CallOutcome::Ok,
            _ => CallOutcome::NotOk,
        };
    }
}

impl Drop for CallRecorder {
    fn drop(&mut self) {
        self.calls.end(self.ended);
        if let Some(in_flight) = &mut self.in_flight {
            in_flight.end(self.ended);
        }
    }
}
