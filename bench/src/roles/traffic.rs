//! Forms of traffic that the variants carry.

use serde::{Deserialize, Serialize};

/// Calls that a client makes at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Traffic {
    /// Unary calls, one after the other by each caller.
    Unary { in_flight: usize, bytes: usize },
    /// Bidirectional streams, each of which sends a message and waits for its echo.
    Streams { streams: usize, bytes: usize },
}

impl Traffic {
    /// Number of calls under way.
    pub(crate) fn callers(self) -> usize {
        match self {
            Self::Unary { in_flight, .. } => in_flight,
            Self::Streams { streams, .. } => streams,
        }
    }

    /// Size of a message.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::Unary { bytes, .. } | Self::Streams { bytes, .. } => bytes,
        }
    }
}
