//! State of a watched resource, as CSDS and metrics show it.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use oxds_types::{ApiVersion, ResourceType};
use smol_str::SmolStr;

use crate::ads::error::WatchError;
use crate::resource::ParsedResource;
use crate::server_id::ServerId;
use crate::time::Instant;

/// State of a watched resource: `envoy.admin.v3.ClientResourceStatus` (gRFC A40, A88).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CacheState {
    /// Subscribed; no server has answered yet.
    Requested,
    /// The resource does not exist. An earlier version may stay in use.
    DoesNotExist,
    /// Cached and up to date.
    Acked,
    /// The last update was NACKed; the version before it stays in use, if there is one.
    Nacked,
    /// The server reported an error for the resource; the version before it stays in use, if there is one.
    ReceivedError,
    /// No answer within the resource timeout, from a server whose timeout means that it is slow.
    Timeout,
}

/// A watched resource with its state.
#[derive(Debug, Clone)]
pub struct CacheStatus<'a> {
    /// State of the last update.
    pub state: CacheState,
    /// The resource in use, if there is one.
    pub held: Option<&'a CachedResource>,
    /// TTL that the server sent last; `None` without one, or while [`ClientConfig::resource_ttl`] is off.
    ///
    /// [`ClientConfig::resource_ttl`]: crate::ads::ClientConfig::resource_ttl
    pub ttl: Option<Duration>,
    /// Type URL of the resource in use, if it is not the usual one of its type.
    pub(super) unusual_type_url: Option<&'a str>,
    /// The error that watchers have, if the last update failed.
    pub error: Option<&'a WatchError>,
    /// The last update, if it failed.
    pub attempt: Option<&'a FailedUpdate>,
}

/// An update that was NACKed, or an error that the server reported: `envoy.admin.v3.UpdateFailureState`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedUpdate {
    /// Version of the resource (delta) or of the response (SotW).
    pub version: String,
    /// Time at which it arrived.
    pub at: Instant,
}

/// A resource that was accepted.
#[derive(Debug, Clone)]
pub struct CachedResource {
    /// The resource. It owns its bytes, and does not keep the response alive in which it came.
    pub resource: ParsedResource,
    /// Version of the resource on delta streams, of the response that brought it on SotW streams.
    pub version: VersionText,
    /// API version of the type URL with which it came (C-55).
    pub api: ApiVersion,
    /// The server that sent it last.
    pub server: ServerId,
    /// Time at which it last changed.
    pub updated: Instant,
}

impl CachedResource {
    /// Makes the parsed value that of the server that sent it last. Returns whether it changed.
    pub(super) fn move_to_sender(&mut self, trusted: &BTreeSet<ServerId>) -> bool {
        let is_trusted = trusted.contains(&self.server);
        let moved = self.resource.moved_to(self.server, is_trusted);
        let is_changed = moved.is_some();
        if let Some(moved) = moved {
            self.resource = moved;
        }
        is_changed
    }
}

impl<'a> CacheStatus<'a> {
    /// Returns the type URL with which the resource in use came (C-61); `None` without a resource.
    #[must_use]
    pub fn type_url(&self, resource_type: &'a ResourceType) -> Option<&'a str> {
        let usual = resource_type.type_url_on(self.held?.api);
        Some(self.unusual_type_url.unwrap_or(usual))
    }
}

/// How a resource came.
#[derive(Debug, Clone)]
pub(crate) struct Delivery {
    pub(crate) server: ServerId,
    pub(crate) version: VersionText,
    pub(crate) api: ApiVersion,
    /// Type URL, if it is not the usual one of the type in `api`.
    pub(crate) unusual_type_url: Option<Arc<str>>,
}

/// Version of a resource, in any form that its server uses. Short texts, as versions are, take no allocation.
#[derive(Clone, PartialEq, Eq)]
pub struct VersionText(SmolStr);

impl From<&str> for VersionText {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl Deref for VersionText {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for VersionText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self)
    }
}

impl fmt::Debug for VersionText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_text_has_the_size_of_three_words() {
        assert_eq!(size_of::<VersionText>(), 3 * size_of::<usize>());
    }
}
