//! Verification of servers by their SPIFFE ID (gRFC A87).
//!
//! ```text
//!   certificate ──► SPIFFE ID ──► trust domain ──► BundleMap ──► authorities ──► verified or rejected
//! ```

mod bundle;
mod id;
mod verifier;

pub(crate) use bundle::BundleMap;
pub(crate) use verifier::SpiffeVerifier;
