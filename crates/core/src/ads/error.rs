//! Errors for watchers: no resource, or one that may be out of date.

use std::fmt;
use std::sync::Arc;

use envoy_types::pb::google::rpc::Code;
use oxds_types::ResourceType;
use oxds_types::discovery::Status;

use super::config::Server;

/// Reason why a resource is missing or may be out of date. Cheap to clone: every watcher gets one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchError {
    /// Class of the error.
    pub reason: WatchErrorReason,
    /// Text with the node, the resource type, the resource, and the server if it is to blame (C-118).
    text: Arc<str>,
}

/// Class of a [`WatchError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WatchErrorReason {
    /// The resource does not exist: the server deleted it, or sent no answer within the resource timeout.
    DoesNotExist,
    /// The server sent a resource that does not pass validation.
    Invalid,
    /// The server does not give the resource to this client (`PERMISSION_DENIED`).
    Denied,
    /// The server cannot be reached, does not answer, or reports a temporary error.
    Unreachable,
    /// The resource exists but cannot be used for the purpose for which it was watched.
    Unusable,
}

impl WatchError {
    /// Makes an error with a text of the caller.
    #[must_use]
    pub fn new(reason: WatchErrorReason, text: impl Into<Arc<str>>) -> Self {
        Self {
            reason,
            text: text.into(),
        }
    }
}

impl fmt::Display for WatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for WatchError {}

/// Makes an error whose text has the resource, the problem, the server and the node (C-118).
pub(super) fn error(
    server: &Server,
    node_id: &str,
    reason: WatchErrorReason,
    problem: &str,
    resource_type: &ResourceType,
    name: &str,
) -> WatchError {
    let (uri, message) = (&server.uri, resource_type.message());
    let text = format!("{message} {name:?} {problem} [xDS server {uri}, node {node_id:?}]");
    WatchError::new(reason, text)
}

/// Makes the error for a resource for which the server sent a `ResourceError` (gRFC A88).
pub(super) fn reported(
    server: &Server,
    node_id: &str,
    status: &Status,
    resource_type: &ResourceType,
    name: &str,
) -> WatchError {
    let code = Code::try_from(status.code).unwrap_or(Code::Unknown);
    // gRFC A88: NOT_FOUND and PERMISSION_DENIED are data errors, every other code is transient.
    let reason = match code {
        Code::NotFound => WatchErrorReason::DoesNotExist,
        Code::PermissionDenied => WatchErrorReason::Denied,
        _ => WatchErrorReason::Unreachable,
    };
    let code = code.as_str_name();
    let text = format!("was answered with {code}: {}", status.message);
    error(server, node_id, reason, &text, resource_type, name)
}
