//! What a response brought, for who counts.

use oxds_types::ResourceType;

use super::response::Judged;

/// The resources of one response (gRFC A78). Those that have not changed count as well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResponseSummary {
    /// Their kind.
    pub resource_type: ResourceType,
    /// How many were valid.
    pub valid: usize,
    /// How many were not.
    pub invalid: usize,
    /// Why, of each of them, as the server is told.
    pub rejection: Option<String>,
}

impl ResponseSummary {
    pub(super) fn of(resource_type: &ResourceType, judged: &Judged) -> Self {
        Self {
            resource_type: resource_type.clone(),
            valid: judged.accepted.len(),
            invalid: judged.invalid(),
            rejection: judged.nack(resource_type),
        }
    }
}
