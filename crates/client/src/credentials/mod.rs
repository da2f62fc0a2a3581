//! How a client shows a control plane who it is, and finds out whom it talks to (gRFC A27, A29, A65, A87, A97).
//!
//! ```text
//!   channel_creds ──► ChannelCredentials     Socket ── secure ──► Socket         once for a connection
//!   call_creds ─────► CallCredentials        headers ──► every call, every poll  never over plaintext
//!                         ▲
//!                  CredentialTypes: the types that a bootstrap may choose from, and one's own
//! ```
//!
//! | type | of | what |
//! |---|---|---|
//! | `insecure` | channel | plaintext |
//! | `tls` | channel, feature `tls` | TLS 1.2 or 1.3; certificates of the system, of a file, or of a SPIFFE bundle map |
//! | `jwt_token_file` | call, feature `tls` | `authorization: Bearer …` from a file that is read again in time |
//!
//! What is read from files is read when a connection needs it, not in the background: what nobody needs costs nothing.

mod configured;
mod files;
#[cfg(feature = "tls")]
mod jwt;
mod shown;
#[cfg(feature = "tls")]
mod spiffe;
#[cfg(feature = "tls")]
mod tls;
mod types;

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;

use http::HeaderMap;

pub use configured::Configured;
pub use files::{CertificateFiles, IdentityFiles, Trust};
#[cfg(feature = "tls")]
pub use jwt::JwtTokenFile;
pub(crate) use shown::Shown;
#[cfg(feature = "tls")]
pub use tls::TlsCredentials;
pub use types::CredentialTypes;

use crate::transport::{Http, Socket};

/// What a method of these traits returns.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Makes connections secure, or leaves them as they are.
pub trait ChannelCredentials: fmt::Debug + Send + Sync + 'static {
    /// Shakes hands over a connection to `host`: a DNS name or an IP address. gRPC's connect timeout bounds it.
    ///
    /// # Errors
    /// The peer is not who it should be, does not take us for whom we say we are, or does not speak `http`.
    fn secure<'a>(
        &'a self,
        socket: Socket,
        host: &'a str,
        http: Http,
    ) -> Pending<'a, io::Result<Socket>>;

    /// Whether nobody else can read or alter what passes. Call credentials are sent only then.
    fn is_private(&self) -> bool;
}

/// Says who calls, in headers.
pub trait CallCredentials: fmt::Debug + Send + Sync + 'static {
    /// The headers of the next call, or REST poll. It is asked for every call, and holds up that call alone.
    ///
    /// # Errors
    /// There is nothing to show: the call ends with this, and is not made.
    fn headers(&self) -> Pending<'_, Result<HeaderMap, CallError>>;
}

/// Why a call could not be given its credentials.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// They cannot be had now.
    #[error("{0}")]
    Unavailable(String),
    /// What was had is of no use.
    #[error("{0}")]
    Unauthenticated(String),
}

/// Plaintext.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Insecure;

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
