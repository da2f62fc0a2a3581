//! Form of a response: what decides its bytes besides its resources.

use oxds_types::ApiVersion;

use crate::protocol::Protocol;

/// Form of a response. Sessions with the same form share its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Form {
    /// Protocol variant.
    pub protocol: Protocol,
    /// API version of the type URLs.
    pub api: ApiVersion,
    /// Whether the client supports TTLs (S-49).
    pub ttl: bool,
}

impl Form {
    /// Number of forms in one API version.
    pub(super) const COUNT: usize = 4;

    /// Returns a number below [`COUNT`](Self::COUNT), the same for both API versions.
    pub(super) fn index(self) -> usize {
        let protocol = usize::from(self.protocol == Protocol::Delta);
        2 * usize::from(self.ttl) + protocol
    }
}
