//! HTTP versions, and their names in TLS.

/// HTTP version of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Http {
    /// HTTP/1.1, for REST polls.
    One,
    /// HTTP/2, for gRPC.
    Two,
}

impl Http {
    /// Returns the ALPN protocol name (RFC 7301).
    #[must_use]
    pub fn alpn(self) -> &'static [u8] {
        match self {
            Self::One => b"http/1.1",
            Self::Two => b"h2",
        }
    }
}
