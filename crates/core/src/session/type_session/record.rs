//! Latest answers of the client, for status pages.

use oxds_types::Version;

use crate::{session::Nack, time::Instant};

/// Answers of the client to responses of one type. Resets with the stream.
#[derive(Debug, Default)]
pub(crate) struct AnswerRecord {
    /// Version of the latest response.
    pub(crate) sent: Option<Version>,
    /// Version of the latest accepted response.
    pub(crate) acked: Option<Version>,
    pub(crate) acked_at: Option<Instant>,
    /// The latest NACK, unless an ACK followed it.
    pub(crate) nack: Option<Nack>,
    pub(crate) acks: u64,
    pub(crate) nacks: u64,
}

impl AnswerRecord {
    pub(crate) fn note_ack(&mut self, now: Instant, version: Version) {
        self.acks += 1;
        self.acked = Some(version);
        self.acked_at = Some(now);
        self.nack = None;
    }

    pub(crate) fn note_nack(&mut self, nack: Nack) {
        self.nacks += 1;
        self.nack = Some(nack);
    }

    /// The client reported on reconnect that it has this version.
    pub(crate) fn note_in_sync(&mut self, version: Version) {
        self.sent = Some(version);
        self.acked = Some(version);
    }
}
