//! Configuration of a cluster's policy.

use std::sync::Arc;

use super::custom::SharedPolicy;
use super::weight::WeightedRoundRobinConfig;

/// Validated configuration of a cluster's load-balancing policy (gRFC A52). Clones share their parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PolicyConfig {
    /// `round_robin`: the ready endpoints in turn, whatever their locality.
    RoundRobin,
    /// `pick_first`: one endpoint, the first that can be connected (gRFC A61, A62).
    PickFirst {
        /// Whether the order of the endpoints is random, by their weights.
        shuffle: bool,
    },
    /// `ring_hash`: the endpoint by the hash of the request (gRFC A42).
    RingHash {
        /// Minimum number of entries of the ring; above zero.
        min_ring_size: u64,
        /// Maximum number of entries of the ring; not below the minimum.
        max_ring_size: u64,
    },
    /// `least_request`: of some random endpoints, the one with the fewest RPCs under way (gRFC A48).
    LeastRequest {
        /// Number of endpoints that are compared; at least two.
        choice_count: u32,
    },
    /// `client_side_weighted_round_robin`: in turn, by weights made of the load that backends report (gRFC A58).
    WeightedRoundRobin(Arc<WeightedRoundRobinConfig>),
    /// `random_subsetting`: the inner policy among a random subset of the endpoints, the same while the channel lives
    /// (gRFC A68).
    RandomSubsetting {
        /// Number of endpoints; above zero.
        subset_size: u32,
        /// Policy among the endpoints of the subset.
        inner: Arc<PolicyConfig>,
    },
    /// A policy of the program.
    Custom(SharedPolicy),
    /// `wrr_locality`: a locality by its weight, then the inner policy among the endpoints of the locality.
    WrrLocality(Arc<PolicyConfig>),
}

impl PolicyConfig {
    /// Returns the policy of `lb_policy: ROUND_ROBIN`, which is the default: round robin in each locality (gRFC A52).
    #[must_use]
    pub fn round_robin_by_locality() -> Self {
        Self::WrrLocality(Arc::new(Self::RoundRobin))
    }

    /// Returns the name of the policy, as gRPC has it.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::RoundRobin => "round_robin",
            Self::PickFirst { .. } => "pick_first",
            Self::RingHash { .. } => "ring_hash",
            Self::LeastRequest { .. } => "least_request",
            Self::WeightedRoundRobin(_) => "weighted_round_robin",
            Self::RandomSubsetting { .. } => "random_subsetting",
            Self::Custom(policy) => policy.name(),
            Self::WrrLocality(_) => "wrr_locality",
        }
    }

    /// Returns the inner policy, if there is one.
    #[must_use]
    pub fn inner(&self) -> Option<&Self> {
        match self {
            Self::WrrLocality(inner) | Self::RandomSubsetting { inner, .. } => Some(inner),
            _ => None,
        }
    }
}

/// Writes the name, with inner policies in parentheses: `wrr_locality(round_robin)`.
impl std::fmt::Display for PolicyConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.inner() {
            Some(inner) => write!(f, "{}({inner})", self.name()),
            None => f.write_str(self.name()),
        }
    }
}
