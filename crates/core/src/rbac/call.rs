//! A call, as the rules of authorization see it.

use std::borrow::Cow;
use std::fmt;
use std::net::SocketAddr;

use crate::lb::Headers;

/// Call that a server has received.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// Path, as `/package.Service/Method`.
    pub path: &'a str,
    /// HTTP method.
    pub method: &'a str,
    /// Authority: of `:authority`, or else of `Host`.
    pub authority: &'a str,
    /// Headers as they were received, without pseudo-headers. Binary headers have their base64 text.
    pub headers: &'a dyn Headers,
    /// Address at which the server accepted the connection.
    pub destination: SocketAddr,
    /// Address of the peer.
    pub source: SocketAddr,
    /// Security of the connection.
    pub security: Security<'a>,
}

/// Security of a connection, from which the principal of its calls is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Security<'a> {
    /// The connection has no TLS.
    Plaintext,
    /// The connection has TLS; `None` if the client has no certificate.
    Tls(Option<&'a PeerIdentity>),
}

/// Names in the verified certificate of a client.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PeerIdentity {
    /// Subject alternative names of type URI.
    pub uri_sans: Vec<String>,
    /// Subject alternative names of type DNS.
    pub dns_sans: Vec<String>,
    /// Distinguished name of the subject, as RFC 2253 writes it: `CN=client,O=Example`.
    pub subject: String,
}

impl PeerIdentity {
    /// Returns the SPIFFE identity: the only URI of the certificate, if its scheme is `spiffe`.
    #[must_use]
    pub fn spiffe_id(&self) -> Option<&str> {
        match self.uri_sans.as_slice() {
            [uri] if uri.starts_with("spiffe://") => Some(uri),
            _ => None,
        }
    }
}

impl<'a> Call<'a> {
    /// Returns the identity of the caller for audit logs: a SPIFFE identity, or an empty text.
    #[must_use]
    pub fn principal(&self) -> &'a str {
        match self.security {
            Security::Tls(Some(identity)) => identity.spiffe_id().unwrap_or_default(),
            Security::Tls(None) | Security::Plaintext => "",
        }
    }

    /// Returns the value of a header, whose name is in lower case; `None` if it is absent or not visible (gRFC A41).
    pub(super) fn header(&self, name: &str) -> Option<Cow<'a, str>> {
        /// Headers of one connection (RFC 7230, section 6.1), which rules must not match.
        const HOP_BY_HOP: [&str; 7] = [
            "connection",
            "keep-alive",
            "proxy-connection",
            "te",
            "trailer",
            "transfer-encoding",
            "upgrade",
        ];
        match name {
            ":path" => Some(self.path.into()),
            ":method" => Some(self.method.into()),
            // gRFC A41: both names stand for the authority, by either header that carries it.
            ":authority" | "host" => Some(self.authority.into()),
            name if name.starts_with(':') || HOP_BY_HOP.contains(&name) => None,
            name => self.headers.get(name),
        }
    }
}

impl fmt::Debug for Call<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("path", &self.path)
            .field("source", &self.source)
            .field("security", &self.security)
            .finish_non_exhaustive()
    }
}
