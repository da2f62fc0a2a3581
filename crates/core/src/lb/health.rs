//! Health of endpoints, as the control plane reports it.

/// Health status of an endpoint that may get traffic (gRFC A27, A55). Endpoints of other statuses are never used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum EndpointHealth {
    /// Nothing is known about its health.
    #[default]
    Unknown,
    /// The endpoint is healthy.
    Healthy,
    /// The endpoint shuts down: it gets the traffic of its sessions, and no other.
    Draining,
}

/// Set of health statuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HealthSet(u8);

impl HealthSet {
    /// The set without a status.
    pub const EMPTY: Self = Self(0);

    /// Returns the set with this status, too.
    #[must_use]
    pub const fn with(self, health: EndpointHealth) -> Self {
        Self(self.0 | 1 << health as u8)
    }

    /// Returns whether a status is in the set.
    #[must_use]
    pub const fn contains(self, health: EndpointHealth) -> bool {
        self.0 & 1 << health as u8 != 0
    }
}

/// `UNKNOWN` and `HEALTHY`, the default of `override_host_status` (gRFC A55).
impl Default for HealthSet {
    fn default() -> Self {
        Self::EMPTY
            .with(EndpointHealth::Unknown)
            .with(EndpointHealth::Healthy)
    }
}
