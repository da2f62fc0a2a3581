//! What a watcher is told when there is no resource, or when it is not up to date.

use std::fmt;
use std::sync::Arc;

use envoy_types::pb::google::rpc::Code;
use oxds_types::ResourceType;
use oxds_types::discovery::Status;

use super::config::Server;

/// Why a resource is missing, or why what is held may be old. Cheap to clone: every watcher gets one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchError {
    /// What went wrong.
    pub reason: WatchErrorReason,
    /// In words. NameSyntax node, kind, resource, and the server where one is to blame (C-118).
    text: Arc<str>,
}

/// What went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WatchErrorReason {
    /// The server says, by deleting it or by silence, that there is no such resource.
    DoesNotExist,
    /// The server sent one that breaks a rule.
    Invalid,
    /// The server says that it is not for this client.
    Denied,
    /// The server cannot be reached, does not answer, or says that it cannot answer for now.
    Unreachable,
    /// The resource is there, but is of no use to who asked for it.
    Unusable,
}

impl WatchError {
    /// An error in words of one's own.
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

/// Every text says what, whose, from where, and for whom (C-118).
pub(super) fn error(
    server: &Server,
    node_id: &str,
    reason: WatchErrorReason,
    what: &str,
    resource_type: &ResourceType,
    name: &str,
) -> WatchError {
    let (uri, message) = (&server.uri, resource_type.message());
    let text = format!("{message} {name:?} {what} [xDS server {uri}, node {node_id:?}]");
    WatchError::new(reason, text)
}

/// What a server says of a resource instead of sending it (gRFC A88).
pub(super) fn reported(
    server: &Server,
    node_id: &str,
    status: &Status,
    resource_type: &ResourceType,
    name: &str,
) -> WatchError {
    let code = Code::try_from(status.code).unwrap_or(Code::Unknown);
    let reason = match code {
        Code::NotFound => WatchErrorReason::DoesNotExist,
        Code::PermissionDenied => WatchErrorReason::Denied,
        _ => WatchErrorReason::Unreachable,
    };
    let code = code.as_str_name();
    let text = format!("was answered with {code}: {}", status.message);
    error(server, node_id, reason, &text, resource_type, name)
}
