//! Metrics of the connections to one address (gRFC A94).

use std::io::ErrorKind;
use std::sync::Arc;

use oxds_client::metrics::{
    BACKEND_SERVICE, LOCALITY, SUBCHANNEL_DISCONNECTIONS, SUBCHANNEL_FAILED, SUBCHANNEL_OPEN,
    SUBCHANNEL_SUCCEEDED,
};

use super::channel::{ChannelMetrics, locality_label};

/// Recorder of a subchannel: that of the first channel with a recorder that uses it, so that a shared subchannel counts
/// once.
#[derive(Debug)]
pub(crate) struct SubchannelMetrics {
    channel: Arc<ChannelMetrics>,
    cluster: Arc<str>,
    locality: String,
}

/// Reason why a connection takes no more requests (gRFC A94).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DisconnectReason {
    /// The server sent a GOAWAY with this code.
    GoAway(h2::Reason),
    /// No channel uses the subchannel any more.
    Shutdown,
    /// The peer reset the connection.
    Reset,
    /// The connection timed out, or a keepalive ping had no answer.
    TimedOut,
    /// This host aborted the connection.
    Aborted,
    /// Another error of the socket.
    Socket,
    /// Any other reason, such as the end of the connection without a GOAWAY.
    Unknown,
}

impl SubchannelMetrics {
    /// Makes the recorder of a subchannel with its cluster, and its locality as `region/zone/sub_zone`.
    pub(crate) fn new(channel: &Arc<ChannelMetrics>, cluster: &Arc<str>, locality: &str) -> Self {
        Self {
            channel: Arc::clone(channel),
            cluster: Arc::clone(cluster),
            locality: locality_label(locality),
        }
    }

    /// Counts a connection attempt that failed.
    pub(crate) fn failed(&self) {
        self.channel
            .add(&SUBCHANNEL_FAILED, 1, |key| self.label(key));
    }

    /// Counts a connection.
    pub(crate) fn connected(&self) {
        self.channel
            .add(&SUBCHANNEL_SUCCEEDED, 1, |key| self.label(key));
        self.channel
            .change(&SUBCHANNEL_OPEN, 1, |key| self.label(key));
    }

    /// Counts the end of a connection.
    pub(crate) fn disconnected(&self, reason: &DisconnectReason) {
        let text = reason.text();
        self.channel
            .add(&SUBCHANNEL_DISCONNECTIONS, 1, |key| match key {
                "grpc.disconnect_error" => &text,
                other => self.label(other),
            });
        self.channel
            .change(&SUBCHANNEL_OPEN, -1, |key| self.label(key));
    }

    fn label(&self, key: &str) -> &str {
        match key {
            BACKEND_SERVICE => &self.cluster,
            LOCALITY => &self.locality,
            // gRFC A94: connections in plaintext.
            "grpc.security_level" => "none",
            _ => "",
        }
    }
}

impl DisconnectReason {
    /// Returns the reason of a connection whose HTTP/2 failed.
    pub(crate) fn of(error: &h2::Error) -> Self {
        match error.get_io() {
            Some(io) => Self::of_io(io.kind()),
            None => match error.reason() {
                Some(reason) if error.is_go_away() && error.is_remote() => Self::GoAway(reason),
                _ => Self::Unknown,
            },
        }
    }

    fn of_io(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::ConnectionReset => Self::Reset,
            ErrorKind::TimedOut => Self::TimedOut,
            ErrorKind::ConnectionAborted => Self::Aborted,
            // gRFC A94: the end of the stream does not count as an error of the socket.
            ErrorKind::UnexpectedEof => Self::Unknown,
            _ => Self::Socket,
        }
    }

    fn text(&self) -> String {
        match self {
            Self::GoAway(reason) => format!("GOAWAY {reason:?}"),
            Self::Shutdown => "subchannel shutdown".to_owned(),
            Self::Reset => "connection reset".to_owned(),
            Self::TimedOut => "connection timed out".to_owned(),
            Self::Aborted => "connection aborted".to_owned(),
            Self::Socket => "socket error".to_owned(),
            Self::Unknown => "unknown".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c260_disconnect_errors_are_those_of_a94() {
        for (reason, text) in [
            (
                DisconnectReason::GoAway(h2::Reason::NO_ERROR),
                "GOAWAY NO_ERROR",
            ),
            (
                DisconnectReason::GoAway(h2::Reason::ENHANCE_YOUR_CALM),
                "GOAWAY ENHANCE_YOUR_CALM",
            ),
            (DisconnectReason::Shutdown, "subchannel shutdown"),
        ] {
            assert_eq!(reason.text(), text);
        }
        for (kind, text) in [
            (ErrorKind::ConnectionReset, "connection reset"),
            (ErrorKind::TimedOut, "connection timed out"),
            (ErrorKind::ConnectionAborted, "connection aborted"),
            (ErrorKind::BrokenPipe, "socket error"),
            (ErrorKind::UnexpectedEof, "unknown"),
        ] {
            assert_eq!(DisconnectReason::of_io(kind).text(), text);
        }
    }
}
