//! Peers that are known by a SPIFFE ID (gRFC A87).
//!
//! ```text
//!   peer's certificate ──► SpiffeId ──► trust domain ──► BundleMap ──► roots ──► verified, or not
//! ```

mod bundle;
mod id;
mod verifier;

pub(crate) use bundle::BundleMap;
pub(crate) use verifier::SpiffeVerifier;
