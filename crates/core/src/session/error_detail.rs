//! Reasons for which a client does not get a name (xRFC TP3).

use oxds_types::ResourceType;

/// Status that a client gets in place of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceErrorDetail {
    /// Code that the client acts on.
    pub code: ResourceErrorCode,
    /// Explanation for operators of the client.
    pub message: String,
}

/// Codes of `google.rpc.Code` to which TP3 gives a meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResourceErrorCode {
    /// The resource does not exist: the client may drop its copy.
    NotFound = 5,
    /// The client may not have the resource, and may drop its copy.
    PermissionDenied = 7,
    /// The server has the resource in an invalid form: the client keeps its copy.
    Internal = 13,
    /// The server does not know the state of the resource now: the client keeps its copy.
    Unavailable = 14,
}

impl ResourceErrorDetail {
    /// Detail of a resource that the store has in an invalid form.
    pub(super) fn invalid(reason: &str) -> Self {
        Self {
            code: ResourceErrorCode::Internal,
            message: reason.to_owned(),
        }
    }

    /// Creates the detail of a resource that does not exist.
    #[must_use]
    pub fn not_found(resource_type: &ResourceType, name: &str) -> Self {
        Self {
            code: ResourceErrorCode::NotFound,
            message: format!("{resource_type} {name:?} not found"),
        }
    }
}
