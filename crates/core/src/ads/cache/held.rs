//! What is shown of a watched resource.

use std::time::Duration;

use oxds_types::ApiVersion;

use super::version::VersionText;
use crate::ads::WatchError;
use crate::ads::config::ServerId;
use crate::resource::ParsedResource;
use crate::time::Instant;

/// The state of a watched resource: `envoy.admin.v3.ClientResourceStatus` (gRFC A40, A88).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CacheState {
    /// Asked for; no answer yet.
    Requested,
    /// There is none. What was held before may be kept all the same.
    DoesNotExist,
    /// CachedResource, and up to date.
    Acked,
    /// The last update was rejected; what came before it, if anything, is held.
    Nacked,
    /// The server answered with an error of its own; what came before it, if anything, is held.
    ReceivedError,
    /// The server, whose silence means that it is slow, has been silent for too long.
    Timeout,
}

/// A watched resource, for who wants to look (CSDS).
#[derive(Debug, Clone)]
pub struct CacheStatus<'a> {
    /// Its state.
    pub state: CacheState,
    /// What is held.
    pub held: Option<&'a CachedResource>,
    /// Time to live that its server gave last; `None` without one, or while [`ClientConfig::resource_ttl`] is off.
    ///
    /// [`ClientConfig::resource_ttl`]: crate::ads::ClientConfig::resource_ttl
    pub ttl: Option<Duration>,
    /// What was wrong with the last update.
    pub error: Option<&'a WatchError>,
    /// The last update, if nothing came of it.
    pub attempt: Option<&'a FailedUpdate>,
}

/// An update that was rejected, or that was an error of the server's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedUpdate {
    /// The version of its response.
    pub version: String,
    /// When it came.
    pub at: Instant,
}

/// A resource that was accepted.
#[derive(Debug, Clone)]
pub struct CachedResource {
    /// The resource. Its bytes are its own: it does not keep alive the response that it came in.
    pub resource: ParsedResource,
    /// Its version: its own where differences are asked for, else that of the response that brought it.
    pub version: VersionText,
    /// The version of the API whose type URL it came with (C-55).
    pub api: ApiVersion,
    /// The server that sent it last.
    pub server: ServerId,
    /// When it came.
    pub updated: Instant,
}
