//! What the rest of oxds means by a resource: its kind, its name, its bytes, its version, and the
//! ways it is written down.
//!
//! ```text
//!   YAML JSON text binary                                 the wire
//!        │                                                    │
//!    codec::decode ── schema, validate, reference ──►  discovery::Any  ──► version::Version
//!        ▲                                                    │
//!    codec::encode ◄───────────────────────────────────────────┘
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`resource_type`] | the table of resource types: type URLs, services, order |
//! | [`name`] | legacy and `xdstp://` resource names, in canonical form |
//! | [`discovery`] | the discovery envelope, with bodies as shared [`Bytes`](bytes::Bytes) |
//! | [`request`] | what a request says in v2 and v3 has given up |
//! | [`orca`] | what a backend says of its load |
//! | [`version_map`] | v2 to v3 and back: names of messages, and the bytes of resources |
//! | [`version`] | content hashes: of a resource, and of a set of resources |
//! | [`descriptor`] | the descriptors of every message of the API |
//! | [`codec`] | files and texts to resources, and back |
//! | [`mod@file`] | a file's bytes, safely, and what tells its states apart |
//! | [`validate`](mod@validate) | the API's own rules (`validate.rules`), checked over reflection |
//! | [`reference`](mod@reference) | which resources a resource needs |
//! | [`reload`] | values made of files, and made again when the files change |
//! | [`settings`] | small files of settings, and what is wrong with them |
//! | `pem` (a feature) | certificates and keys of files |
//! | [`error`] | what is wrong with a file, and where |
//! | [`Glob`] | patterns for names |
//!
//! ```
//! use std::path::Path;
//! use oxds_types::ResourceType;
//! use oxds_types::codec::{Format, Options, decode};
//!
//! let file = "
//! '@type': type.googleapis.com/envoy.config.cluster.v3.Cluster
//! name: shop
//! connect_timeout: 0s
//! ";
//! let errors = decode(Path::new("shop.yaml"), Format::Yaml, file.as_bytes(), &Options::default());
//! assert_eq!(
//!     errors.unwrap_err()[0].to_string(),
//!     "shop.yaml:4:1: error: connect_timeout: duration.gt = 0s does not hold, value is 0s",
//! );
//!
//! let file = file.replace("0s", "3s");
//! let loaded = decode(Path::new("shop.yaml"), Format::Yaml, file.as_bytes(), &Options::default());
//! let shop = &loaded.unwrap()[0];
//! assert_eq!((&shop.resource_type, &*shop.name), (&ResourceType::CLUSTER, "shop"));
//! ```
//!
//! It does not talk to anybody: no sockets, no tasks, no clocks. And it never re-encodes what it
//! did not create: the bytes of a resource that came in binary form stay as they came.

pub mod codec;
pub mod descriptor;
pub mod discovery;
pub mod error;
pub mod file;
#[cfg(test)]
mod generator;
mod glob;
pub mod name;
pub mod orca;
mod path;
#[cfg(feature = "pem")]
pub mod pem;
pub mod reference;
pub mod reload;
pub mod request;
pub mod resource_type;
mod schema;
pub mod settings;
pub mod validate;
pub mod version;
pub mod version_map;

pub use error::{Error, Position};
pub use glob::Glob;
pub use name::ResourceName;
pub use reference::Reference;
pub use resource_type::{ApiVersion, ResourceType};
pub use version::{Fingerprint, Version};
