//! Conversion of resources between API v3, in which oxds keeps them, and API v2, which old clients and old files use (S-62,
//! S-63, S-64).
//!
//! ```text
//!   v2 file ──to_v3──►  resource (v3)  ──to_v2──►  v2 client
//!                            │
//!                            └───────────────────►  v3 client
//! ```
//! A field has the same number in both versions (one exception is known), so the encoded forms are almost equal. They
//! differ in the type URLs of a resource and of each `Any` in it, and in the set of fields. The bytes are rewritten along
//! the descriptors of both versions. A resource is converted completely or not at all: a [`NotRepresentable`] names each
//! field that the other version cannot express.
//!
//! The API records which message replaced which (`udpa.annotations.versioning`), see [`v2_name`]. The v2 descriptors are
//! loaded when a v2 name is looked up for the first time.
//!
//! # Fields that select an API version
//! `ConfigSource.resource_api_version` and `ApiConfigSource.transport_api_version` select the version in which a client
//! sends further requests. The default is v2 in both API versions, but no current client supports v2. So [`to_v3`] sets v3.
//! [`to_v2`] keeps the value: a client that supports v3 may use it.

mod names;
mod rewrite;
mod translate;

pub(crate) use names::{current_name, successor};
pub use names::{v2_name, v3_name};
pub use rewrite::Incompatibility;
pub(crate) use rewrite::rewrite;
pub use translate::{NotRepresentable, to_v2, to_v3};

#[cfg(test)]
mod tests;
