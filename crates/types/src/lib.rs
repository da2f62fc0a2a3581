//! xDS resources as data: types, names, encodings, versions, validation.
//!
//! ```text
//!   YAML JSON text binary                              discovery streams
//!        │                                                    │
//!    codec::decode ── schema, validate, reference ──►  discovery::Any  ──► version::Version
//!        ▲                                                    │
//!    codec::encode ◄──────────────────────────────────────────┘
//! ```
//!
//! This crate is for users: its types stand in the public functions of `oxds-client`, `oxds-server` and `oxds-channel`,
//! and it is versioned with them. It has no sockets, tasks or clocks. It never re-encodes a resource that arrived in
//! binary form: its bytes are kept, unknown fields included.
//!
//! | module | content |
//! |---|---|
//! | [`resource_type`] | the table of resource types: type URLs, services, order |
//! | [`name`] | the canonical form of resource names, the wildcard, collections |
//! | [`discovery`] | messages of the discovery services, with bodies as shared [`Bytes`](bytes::Bytes) |
//! | [`request`] | encoding of requests for API v2 and v3 |
//! | [`RequestSize`] | size of a request before it is decoded |
//! | [`identity`] | versions, features and extensions of clients, and the major that both sides use |
//! | [`Decode`] | decoders of large messages |
//! | [`orca`] | load reports of backends |
//! | [`version_map`] | conversion of resources between API v2 and v3 |
//! | [`version`] | content hashes of a resource, and of a set of resources |
//! | [`descriptor`] | descriptors of all messages of the API |
//! | [`codec`] | reads and writes files of resources |
//! | [`mod@file`] | reads regular files up to a limit, and identifies their states |
//! | [`content`] | the content of resources for people: without secrets, compared field by field |
//! | [`validate`](mod@validate) | the rules of the API (`validate.rules`) |
//! | [`reference`](mod@reference) | references between resources |
//! | [`lifecycle`] | deprecated and unfinished elements of the API, and whether they may be used |
//! | [`reload`] | values made from files, and made again when the files change |
//! | [`runtime`] | settings in layers, which operators override while a program runs |
//! | `pem` | certificates and keys in PEM files |
//! | [`error`] | findings about files, with positions |
//! | [`translate`] | translation of messages between the majors of any API |
//! | [`text`] | text from outside, made safe for logs and terminals |
//! | [`Glob`] | patterns for names |
//!
//! # Features
//!
//! All features are off by default. A client over gRPC needs none of them.
//!
//! | feature | content |
//! |---|---|
//! | `codec` | [`codec`], [`content`], [`descriptor`], [`error`], [`reference`](mod@reference), [`translate`], [`validate`](mod@validate), [`version`], [`version_map`] |
//! | `etcd` | `etcd`: messages of etcd's API |
//! | `pem` | `pem` |
//! | `server` | `codec`, and [`Glob`], [`RequestSize`], files of [`runtime`] |
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
#![cfg_attr(docsrs, feature(doc_cfg))]
// The front page links all modules, also those whose feature is off.
#![cfg_attr(not(feature = "server"), allow(rustdoc::broken_intra_doc_links))]

#[cfg(feature = "codec")]
mod advice;
#[cfg(feature = "codec")]
mod clip;
#[cfg(feature = "codec")]
pub mod codec;
#[cfg(feature = "codec")]
pub mod content;
mod decode;
#[cfg(feature = "codec")]
mod depth;
#[cfg(feature = "codec")]
pub mod descriptor;
pub mod discovery;
#[cfg(feature = "codec")]
pub mod error;
#[cfg(feature = "etcd")]
pub mod etcd;
pub mod file;
#[cfg(test)]
mod generator;
#[cfg(feature = "server")]
mod glob;
pub mod identity;
#[cfg(feature = "codec")]
pub mod lifecycle;
pub mod name;
pub mod orca;
#[cfg(feature = "codec")]
mod path;
#[cfg(feature = "pem")]
pub mod pem;
#[cfg(feature = "codec")]
pub mod reference;
pub mod reload;
pub mod request;
#[cfg(feature = "server")]
mod request_size;
pub mod resource_type;
#[cfg(feature = "codec")]
mod rules;
pub mod runtime;
#[cfg(feature = "codec")]
mod schema;
pub mod text;
#[cfg(feature = "codec")]
pub mod translate;
#[cfg(feature = "codec")]
pub mod validate;
#[cfg(feature = "codec")]
pub mod version;
#[cfg(feature = "codec")]
pub mod version_map;
#[cfg(feature = "codec")]
mod wire;

pub use decode::Decode;
#[cfg(feature = "codec")]
pub use error::Error;
#[cfg(feature = "server")]
pub use glob::Glob;
pub use name::ResourceName;
#[cfg(feature = "codec")]
pub use oxds_settings::Position;
#[cfg(feature = "codec")]
pub use reference::Reference;
#[cfg(feature = "server")]
pub use request_size::RequestSize;
pub use resource_type::{ApiVersion, ResourceType};
#[cfg(feature = "codec")]
pub use version::{Fingerprint, Version};
