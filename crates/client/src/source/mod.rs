//! Where resources come from: the bootstrap's ADS servers, or a source of their own.
//!
//! ```text
//!                                   ┌─ Source::ads() ─► the bootstrap's servers, one stream for all kinds
//!  ConfigSource ─► Source ─► watch ─┼─ Grpc ──────────► a stream for each kind, full states or differences
//!                                   ├─ Rest ──────────► a POST now and then, for each kind
//!                                   └─ File ──────────► a file that is replaced
//! ```
//! Watches of one kind at one source share what it takes: the stream, the poll, the file (C-272). Whatever the source,
//! a watch is told the same: see [`XdsClient::watch_from`](crate::XdsClient::watch_from).

mod config;
mod file;
mod grpc;
mod peer;
mod rest;

use std::path::PathBuf;
use std::time::Duration;

pub use crate::client::{Ended, Feed, Io};
pub use config::{Clusters, SourceError};
pub use file::File;
pub use grpc::Grpc;
pub(crate) use peer::{GrpcPeer, Peer, RestPeer};
pub use rest::Rest;

/// Where resources of a kind come from. Equal sources are one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Source {
    pub(crate) origin: Origin,
    pub(crate) initial_fetch_timeout: Option<Duration>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Origin {
    Ads,
    Grpc(Grpc),
    Rest(Rest),
    File(File),
}

impl Source {
    /// The bootstrap's own servers.
    #[must_use]
    pub fn ads() -> Self {
        Self {
            origin: Origin::Ads,
            initial_fetch_timeout: None,
        }
    }

    /// A file of resources. See [`File`].
    #[must_use]
    pub fn file(path: impl Into<PathBuf>) -> Self {
        File::new(path).into()
    }

    /// How long a source may be silent about a resource before it counts as missing, where that is not as long as the
    /// client's [`resource_timeout`](crate::Options::resource_timeout). Zero: for ever.
    #[must_use]
    pub fn with_initial_fetch_timeout(mut self, timeout: Duration) -> Self {
        self.initial_fetch_timeout = Some(timeout);
        self
    }
}

macro_rules! origin {
    ($origin:ident) => {
        impl From<$origin> for Source {
            fn from(origin: $origin) -> Self {
                Self {
                    origin: Origin::$origin(origin),
                    initial_fetch_timeout: None,
                }
            }
        }
    };
}

origin!(Grpc);
origin!(Rest);
origin!(File);
