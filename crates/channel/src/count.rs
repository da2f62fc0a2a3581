//! Counting an RPC, from its start to its end: for channelz (gRFC A14) and for load reports (A27).

use std::sync::Arc;

use http::HeaderMap;
use oxds_client::channelz::{CallCounter, Ended};
use oxds_client::load;

use crate::subchannel::InFlight;

const GRPC_STATUS: http::HeaderName = http::HeaderName::from_static("grpc-status");

/// An RPC that is under way; over when dropped. What nobody said the end of was cancelled, or broke.
#[derive(Debug)]
pub(crate) struct Counted {
    calls: Arc<CallCounter>,
    /// The connection it is on, if it got so far.
    on: Option<InFlight>,
    /// The load of that endpoint's locality, if it is reported.
    load: Option<load::Call>,
    ended: Ended,
}

impl Counted {
    /// One begins.
    pub(crate) fn begin(calls: &Arc<CallCounter>) -> Self {
        calls.begin();
        Self {
            calls: Arc::clone(calls),
            on: None,
            load: None,
            ended: Ended::Broken,
        }
    }

    /// It is on this connection from now on. On the one before, if there was one, it came to nothing.
    pub(crate) fn go(&mut self, on: InFlight, load: Option<load::Call>) {
        self.on = Some(on);
        self.load = load;
    }

    /// The endpoint has said its last word, in headers or trailers.
    pub(crate) fn end(&mut self, last: Option<&HeaderMap>) {
        if let (Some(load), Some(last)) = (self.load.take(), last) {
            load.end(last);
        }
        let status = last.and_then(|last| last.get(GRPC_STATUS));
        self.ended = match status {
            Some(status) if status == "0" => Ended::Ok,
            _ => Ended::NotOk,
        };
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.calls.end(self.ended);
        if let Some(on) = &mut self.on {
            on.end(self.ended);
        }
    }
}
