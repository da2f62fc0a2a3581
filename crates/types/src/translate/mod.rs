//! Translation of messages between the majors of an API: `v2`, `v3`, `v4alpha` (V-40, V-41).
//!
//! A [`Translator`] is made from descriptors. The annotations of the API say which message replaced which
//! (`udpa.annotations.versioning.previous_message_type`), and which field or enum value was renamed
//! (`field_migrate`, `enum_value_migrate`); names decide without an annotation. Facts that both lack are data
//! ([`Correction`]).
//!
//! | | translation |
//! |---|---|
//! | field, enum value | by name and annotation, whatever its number; the rest is dropped and reported |
//! | message, item of a list, value of a map | recursively |
//! | `Any`, `TypedStruct`, at every depth | type URL and content |
//! | `Any` of unknown type | kept |
//! | unknown field | kept ([`UnknownFields`]) |
//! | `Struct` | kept: nothing says which message it has |
//!
//! A message of an older major becomes one of the major; fields that the major lacks are reported. A message of a newer
//! major becomes an older one only if it sets no field that is new. Majors in between are followed: v2 → v3 → v4alpha
//! takes one pass.
//!
//! The work grows with the size of the message. The encoded form is rewritten; no message is built.
//!
//! ```
//! use oxds_types::descriptor::{pool, v2_pool};
//! use oxds_types::translate::{Major, Options, Translator};
//!
//! let v3 = Translator::new(v2_pool().clone(), pool().clone(), Major::stable(3), Options::default()).unwrap();
//! assert_eq!(v3.name("envoy.api.v2.Cluster"), Some("envoy.config.cluster.v3.Cluster"));
//!
//! // A cluster with the name "shop" in v2.
//! let cluster = v3.translate("envoy.api.v2.Cluster", b"\x0a\x04shop").unwrap();
//! assert_eq!(cluster.message, "envoy.config.cluster.v3.Cluster");
//! assert!(cluster.dropped.is_empty());
//! ```

mod catalog;
mod correction;
mod lineage;
mod major;
mod matching;
mod plan;
mod report;
mod rewrite;
mod structs;
mod stubs;
mod translator;
mod unknown;

pub use catalog::Options;
pub use correction::Correction;
pub use major::{Major, MalformedMajor};
pub use report::{Dropped, Incompatibility, Translation, TreeError, TreeErrorCause};
pub(crate) use report::{Trail, TrailStep};
pub use translator::{NotTranslated, Translator};
pub use unknown::UnknownFields;

#[cfg(test)]
mod tests;
