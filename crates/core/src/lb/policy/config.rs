//! Configuration of a cluster's policy.

use std::sync::Arc;

/// Validated configuration of a cluster's load-balancing policy (gRFC A52). Clones share their parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PolicyConfig {
    /// `round_robin`: the ready endpoints in turn, whatever their locality.
    RoundRobin,
    /// `wrr_locality`: a locality by its weight, then the inner policy among the endpoints of the locality.
    WrrLocality(Arc<PolicyConfig>),
}

impl PolicyConfig {
    /// Returns the policy of `lb_policy: ROUND_ROBIN`, which is the default: round robin in each locality (gRFC A52).
    #[must_use]
    pub fn round_robin_by_locality() -> Self {
        Self::WrrLocality(Arc::new(Self::RoundRobin))
    }
}
