//! Channel and call credentials: how client and control plane authenticate each other (gRFC A27, A29, A65, A87, A97).
//!
//! ```text
//!   channel_creds ──► ChannelCredentials     Socket ── secure ──► Socket         once per connection
//!   call_creds ─────► CallCredentials        headers ──► every call, every poll  never over plaintext
//!                         ▲
//!                  bootstrap::CredentialTypes: built-in types, and types that the application adds
//! ```
//!
//! | type | applies to | content |
//! |---|---|---|
//! | `insecure` | channel | plaintext |
//! | `tls` | channel, feature `tls` | TLS 1.2 or 1.3; authorities of the system, of a file, or of a SPIFFE bundle map |
//! | `jwt_token_file` | call, feature `tls` | `authorization: Bearer …` from a file, read again before the token expires |
//!
//! Files are read when a connection or a call needs them, not in the background, so unused credentials cost nothing.

mod configured;
#[cfg(feature = "tls")]
mod jwt;

pub use configured::Configured;
#[cfg(feature = "tls")]
pub use jwt::JwtTokenFile;
#[cfg(feature = "tls")]
pub use oxds_net::credentials::TlsCredentials;
pub use oxds_net::credentials::{
    CallCredentials, CallError, CertificateFiles, ChannelCredentials, IdentityFiles, Insecure,
    Pending, RevocationFiles, Trust,
};
#[cfg(feature = "tls")]
pub(crate) use oxds_net::credentials::{blocking, handshake, roots, spiffe, verifier};
