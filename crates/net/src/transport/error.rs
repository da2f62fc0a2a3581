//! Reasons why a connection could not be made.

use std::error::Error;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Time limit for each address: gRPC's minimum connect timeout (connection-backoff.md).
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);

/// Reason why a connection could not be made.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DialError {
    /// The socket could not be connected.
    #[error("{0}")]
    Io(Arc<io::Error>),
    /// The host name resolves to no address.
    #[error("the name has no address")]
    NoAddress,
    /// The server did not answer in time.
    #[error("no answer within {CONNECT_TIMEOUT:?}")]
    Timeout,
    /// The server closed the connection without a byte.
    #[error("the peer closed the connection before its HTTP/2 preface")]
    NoPreface,
    /// The server speaks another protocol than HTTP/2 in plaintext.
    #[error("{0}")]
    NotHttp2(ForeignPreface),
    /// The security handshake failed: this client rejected the server's credentials, or the server this client's.
    #[error("security handshake: {0}")]
    Security(Arc<io::Error>),
    /// The HTTP/2 handshake failed.
    #[error("HTTP/2 handshake: {0}")]
    Handshake(Arc<dyn Error + Send + Sync>),
}

/// The first bytes of a peer that does not speak HTTP/2. Its text names the protocol if it is HTTP/1 or TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignPreface(Arc<[u8]>);

impl ForeignPreface {
    pub(super) fn new(first: &[u8]) -> Self {
        Self(first.into())
    }

    /// Returns the first bytes that the peer sent, at most 64.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for ForeignPreface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protocol = match &*self.0 {
            [b'H', b'T', b'T', b'P', b'/', ..] => "the peer speaks HTTP/1.1, expected HTTP/2",
            // RFC 8446 §5.1: content type 20 to 23, then the legacy version 3.x. A TLS server answers plaintext with an
            // alert.
            [20..=23, 3, ..] => "the peer speaks TLS, expected HTTP/2 in plaintext",
            _ => "the peer does not speak HTTP/2",
        };
        write!(f, "{protocol}; it sent \"{}\"", self.0.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_preface_names_the_protocol() {
        for (bytes, text) in [
            (
                &b"HTTP/1.1 400 Bad Request\r\n"[..],
                r#"the peer speaks HTTP/1.1, expected HTTP/2; it sent "HTTP/1.1 400 Bad Request\r\n""#,
            ),
            (
                &[21, 3, 1, 0, 2, 2, 70],
                r#"the peer speaks TLS, expected HTTP/2 in plaintext; it sent "\x15\x03\x01\x00\x02\x02F""#,
            ),
            (
                b"SSH-2.0-x\n\x1b[31m",
                r#"the peer does not speak HTTP/2; it sent "SSH-2.0-x\n\x1b[31m""#,
            ),
        ] {
            assert_eq!(ForeignPreface::new(bytes).to_string(), text);
        }
    }
}
