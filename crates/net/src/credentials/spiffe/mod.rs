//! Verification of peers by their SPIFFE ID (gRFC A87).
//!
//! ```text
//!   certificate ──► SPIFFE ID ──► trust domain ──► BundleMap ──► authorities ──► verified or rejected
//! ```

mod bundle;
mod id;
mod peer;

pub use bundle::BundleMap;
pub use peer::{roots_of, trust_domain, unknown_domain};
