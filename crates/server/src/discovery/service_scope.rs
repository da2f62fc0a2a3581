//! Scope of a discovery service: its resource types and its API version.

use oxds_core::session::Scope;
use oxds_types::ApiVersion;

/// Resource types of a discovery service, and its API version.
#[derive(Clone, Debug)]
pub(crate) struct ServiceScope {
    pub(crate) scope: Scope,
    pub(crate) api: ApiVersion,
}

impl ServiceScope {
    /// Returns the type URL for requests without one; only services of a single type have it (S-58).
    pub(crate) fn implied_type_url(&self) -> Option<&str> {
        self.scope.single()?.type_url_in(self.api)
    }
}
