//! Why a client does not get a name that it asks for.

use oxds_types::ResourceType;

/// What a client is told in place of a resource (xRFC TP3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceErrorDetail {
    /// What the client makes of it.
    pub code: ResourceErrorCode,
    /// For the people at the other end.
    pub message: String,
}

/// As `google.rpc.Code`, of which TP3 gives a meaning to these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResourceErrorCode {
    /// There is no such resource: the client may drop what it has.
    NotFound = 5,
    /// It is not for this client, which may drop what it has.
    PermissionDenied = 7,
    /// The server has it in a form that cannot be served: the client keeps what it has.
    Internal = 13,
    /// The server cannot tell now: the client keeps what it has.
    Unavailable = 14,
}

impl ResourceErrorDetail {
    /// There is one that cannot be served, for this reason.
    pub(super) fn unfit(reason: &str) -> Self {
        Self {
            code: ResourceErrorCode::Internal,
            message: reason.to_owned(),
        }
    }

    /// There is no such resource.
    #[must_use]
    pub fn not_found(resource_type: &ResourceType, name: &str) -> Self {
        Self {
            code: ResourceErrorCode::NotFound,
            message: format!("no {resource_type} is called {name:?} here"),
        }
    }
}
