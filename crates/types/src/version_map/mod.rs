//! Conversion of resources between API v3, in which oxds keeps them, and API v2, which old clients and old files use
//! (S-62, S-63, S-64).
//!
//! ```text
//!   v2 file ──to_v3──►  resource (v3)  ──to_v2──►  v2 client
//!                            │
//!                            └───────────────────►  v3 client
//! ```
//! [`translate`](crate::translate) does the work; what is special about v2 and v3 is data (`corrections`). A resource
//! is translated completely or not at all: a [`NotRepresentable`] names each field that the other version cannot
//! express.
//!
//! The v2 descriptors are loaded when a v2 name is looked up for the first time. Resources without v2 content are not
//! translated.
//!
//! # Fields that select an API version
//! `ConfigSource.resource_api_version` and `ApiConfigSource.transport_api_version` select the version in which a client
//! sends further requests. The default is v2 in both API versions, but no current client supports v2. So [`to_v3`] sets
//! v3. [`to_v2`] keeps the value: a client that supports v3 may use it.

mod corrections;
mod names;
mod translate;

pub use crate::translate::Incompatibility;
pub(crate) use names::{current_name, successor};
pub use names::{v2_name, v3_name};
pub use translate::{NotRepresentable, to_v2, to_v3};
pub(crate) use translate::{may_be_old, rewrite};

#[cfg(test)]
mod tests;
