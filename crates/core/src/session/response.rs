//! Encoded responses.

use oxds_types::{ApiVersion, ResourceType, Version};

use super::Nonce;
use crate::frame::Frame;

/// A response, ready to be written to the stream.
#[derive(Debug, Clone)]
pub struct TransmitResponse {
    /// Type of the resources.
    pub resource_type: ResourceType,
    /// API version of the message.
    pub api: ApiVersion,
    /// Nonce, unique on the stream (S-28).
    pub nonce: Nonce,
    /// Value of `version_info` or `system_version_info`.
    pub version: Version,
    /// Number of resources.
    pub resources: usize,
    /// Number of removed names.
    pub removed: usize,
    /// Encoded message with its gRPC header.
    pub frame: Frame,
}
