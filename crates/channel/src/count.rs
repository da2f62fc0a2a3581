//! Counts of an RPC from its start to its end, for channelz (gRFC A14), and the guard of its attempt.

use std::sync::Arc;

use http::HeaderMap;
use oxds_client::channelz::{CallCounter, CallOutcome};

use crate::guard::{AttemptGuard, outcome_of};

/// Records an RPC that is under way; the drop counts its end. An RPC that is dropped before
/// [`end`](Self::end) counts as broken: it was cancelled, or its connection failed.
#[derive(Debug)]
pub(crate) struct CallRecorder {
    calls: Arc<CallCounter>,
    /// The current attempt.
    attempt: Option<AttemptGuard>,
    ended: CallOutcome,
}

impl CallRecorder {
    /// Counts the start of an RPC.
    pub(crate) fn begin(calls: &Arc<CallCounter>) -> Self {
        calls.begin();
        Self {
            calls: Arc::clone(calls),
            attempt: None,
            ended: CallOutcome::Broken,
        }
    }

    /// Moves the RPC to a new attempt. An earlier one that has not ended ends as broken.
    pub(crate) fn attempt(&mut self, attempt: AttemptGuard) {
        self.attempt = Some(attempt);
        self.ended = CallOutcome::Broken;
    }

    /// Ends the current attempt, as broken if it has not ended. The RPC continues.
    pub(crate) fn end_attempt(&mut self) {
        self.attempt = None;
    }

    /// Records the end of the response. `trailers` are those of the endpoint, or its headers if the
    /// response has only these.
    pub(crate) fn end(&mut self, trailers: Option<&HeaderMap>) {
        if let Some(attempt) = &mut self.attempt {
            attempt.end(trailers);
        }
        self.ended = outcome_of(trailers);
    }
}

impl Drop for CallRecorder {
    fn drop(&mut self) {
        self.calls.end(self.ended);
    }
}
