//! Sources of resources: the bootstrap's ADS servers, or a source of its own.
//!
//! ```text
//!                                   ┌─ Source::ads() ─► the bootstrap's servers, one stream for all types
//!  ConfigSource ─► Source ─► watch ─┼─ Grpc ──────────► one stream per type, SotW or delta
//!                                   ├─ Rest ──────────► one POST at a time per type, repeated
//!                                   └─ File ──────────► a file, read when it changes
//! ```
//! Watches of one type at one source share its stream, its poll or its file (C-272). Watchers get the same updates from
//! every kind of source: see [`XdsClient::watch_from`](crate::XdsClient::watch_from).
//!
//! Each source has one folder: `grpc`, `rest` and `file` contain its description and its IO. [`Feed`] is the common
//! interface of the IO; it makes no decision about the protocol. The IO of files and of REST are the features `file`
//! and `rest` of this crate; `optional` is their interface.
//!
//! ```text
//!  state machine ── AdsTransmit ─► Feed ── SourceEvent ─► state machine
//!                                ├─ grpc::GrpcFeed          writes requests, reads responses
//!                                ├─ rest::RestFeed          posts the last request when core::poll says so
//!                                └─ file::FileFeed          reads the file when it changed
//! ```

mod clusters;
mod config;
mod error;
mod event;
mod feed;
mod file;
mod grpc;
mod optional;
mod peer;
mod rest;
mod spec;

pub use clusters::Clusters;
pub use error::SourceError;
pub use event::{SourceEvent, StreamEnd};
pub use feed::Feed;
pub use file::File;
pub use grpc::Grpc;
pub(crate) use peer::Peer;
pub use rest::Rest;
pub use spec::Source;
pub(crate) use spec::SourceSpecifier;
