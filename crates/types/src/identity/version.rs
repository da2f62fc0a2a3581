//! Semantic versions, and the user agent as text.

use std::fmt;

use envoy_types::pb::envoy::config::core::v3::BuildVersion;
use envoy_types::pb::envoy::config::core::v3::node::UserAgentVersionType;
use envoy_types::pb::envoy::r#type::v3::SemanticVersion;

use crate::discovery::Node;

/// A semantic version, `envoy.type.v3.SemanticVersion`. Versions are ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SemVer {
    /// Major version.
    pub major: u32,
    /// Minor version.
    pub minor: u32,
    /// Patch.
    pub patch: u32,
}

impl SemVer {
    /// Returns the version with these numbers.
    #[must_use]
    pub const fn new(major: u32, minor: u32, patch: u32) -> Self {
        Self {
            major,
            minor,
            patch,
        }
    }
}

impl From<&SemanticVersion> for SemVer {
    fn from(version: &SemanticVersion) -> Self {
        Self::new(version.major_number, version.minor_number, version.patch)
    }
}

impl From<SemVer> for SemanticVersion {
    fn from(version: SemVer) -> Self {
        Self {
            major_number: version.major,
            minor_number: version.minor,
            patch: version.patch,
        }
    }
}

impl fmt::Display for SemVer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// Returns name and version of a client for people: `envoy 1.40.0`. A client may send the version as text or as
/// numbers.
///
/// Never select fields or resources by it: other implementations, forks and backports have the same features under
/// other names and versions (V-51). [`ClientApi`](super::ClientApi) has what a client supports.
#[must_use]
pub fn user_agent(node: &Node) -> String {
    let build = |build: &BuildVersion| {
        let version = build.version.as_ref().map(SemVer::from);
        version.as_ref().map(ToString::to_string)
    };
    let version = match &node.user_agent_version_type {
        Some(UserAgentVersionType::UserAgentVersion(version)) => Some(version.clone()),
        Some(UserAgentVersionType::UserAgentBuildVersion(version)) => build(version),
        None => None,
    };
    let text = format!("{} {}", node.user_agent_name, version.unwrap_or_default());
    text.trim().to_owned()
}
