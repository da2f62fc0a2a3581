//! Channel and call credentials: how client and server authenticate each other (gRFC A27, A65, A87).
//!
//! ```text
//!   ChannelCredentials     Socket ── secure ──► Socket         once per connection
//!   CallCredentials        headers ──► every call, every poll  never over plaintext
//! ```
//!
//! Files are read when a connection or a call needs them, not in the background, so unused credentials cost nothing.

#[cfg(feature = "tls")]
pub mod blocking;
mod files;
#[cfg(feature = "tls")]
pub mod handshake;
#[cfg(feature = "tls")]
pub mod roots;
#[cfg(feature = "tls")]
pub mod spiffe;
#[cfg(feature = "tls")]
mod tls;
#[cfg(feature = "tls")]
pub mod verifier;

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;

use http::HeaderMap;

pub use files::{CertificateFiles, IdentityFiles, RevocationFiles, Trust};
#[cfg(feature = "tls")]
pub use tls::TlsCredentials;

use crate::http::Http;
use crate::socket::Socket;

/// Boxed future that the methods of these traits return.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Secures connections: TLS, for example, or nothing for plaintext.
pub trait ChannelCredentials: fmt::Debug + Send + Sync + 'static {
    /// Performs the security handshake over a connection to `host`, a DNS name or an IP address. The caller limits its
    /// time to gRPC's connect timeout.
    ///
    /// # Errors
    /// The server's identity is wrong, the server rejects this client's identity, or it does not speak `http`.
    fn secure<'a>(
        &'a self,
        socket: Socket,
        host: &'a str,
        http: Http,
    ) -> Pending<'a, io::Result<Socket>>;

    /// Returns whether the connection is encrypted and authenticated. Call credentials are sent only then.
    fn is_private(&self) -> bool;
}

/// Authenticates each call by headers.
pub trait CallCredentials: fmt::Debug + Send + Sync + 'static {
    /// Returns the headers of the next call or REST poll. It runs once per call, and delays only that call.
    ///
    /// # Errors
    /// No credentials are available. The call is not sent, and ends with this error.
    fn headers(&self) -> Pending<'_, Result<HeaderMap, CallError>>;
}

/// Reason why a call has no credentials.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The credentials are not available now; the call ends with UNAVAILABLE.
    #[error("{0}")]
    Unavailable(String),
    /// The credentials are invalid; the call ends with UNAUTHENTICATED.
    #[error("{0}")]
    Unauthenticated(String),
}

/// Plaintext connections.
#[derive(Debug, Clone, Copy)]
pub struct Insecure;

impl ChannelCredentials for Insecure {
    fn secure<'a>(
        &'a self,
        socket: Socket,
        _: &'a str,
        _: Http,
    ) -> Pending<'a, io::Result<Socket>> {
        Box::pin(async { Ok(socket) })
    }

    fn is_private(&self) -> bool {
        false
    }
}
