//! The things under comparison that a role names: channels, servers, policies, and the resources of a control plane.

use oxds_types::ResourceType;
use serde::{Deserialize, Serialize};

/// One of the compared channels; ours comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Variant {
    /// `oxds_channel::XdsChannel`.
    Oxds,
    /// `tonic_xds`, the Rust peer.
    TonicXds,
    /// `tonic::transport::Channel::balance_list`.
    BalanceList,
    /// Round robin over hyper connections, and nothing else.
    Hyper,
    /// Round robin over connections of the `h2` crate, and nothing else.
    H2,
}

impl Variant {
    /// Every variant, ours first.
    pub(crate) const ALL: [Variant; 5] = [
        Variant::Oxds,
        Variant::TonicXds,
        Variant::BalanceList,
        Variant::Hyper,
        Variant::H2,
    ];

    /// Name in the table.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Variant::Oxds => "oxds",
            Variant::TonicXds => "tonic-xds",
            Variant::BalanceList => "balance_list",
            Variant::Hyper => "bare hyper",
            Variant::H2 => "bare h2",
        }
    }
}

/// A server that requires a client certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum SecuredServer {
    /// `oxds_grpc_server::XdsServer`.
    Oxds,
    /// `tonic::transport::Server`, with its own TLS.
    Tonic,
}

/// A policy under comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum MeasuredPolicy {
    PickFirst,
    RoundRobin,
    RingHash,
    LeastRequest,
    WeightedRoundRobin,
}

impl MeasuredPolicy {
    pub(crate) const ALL: [Self; 5] = [
        Self::PickFirst,
        Self::RoundRobin,
        Self::RingHash,
        Self::LeastRequest,
        Self::WeightedRoundRobin,
    ];

    /// Name in the table and in grpc-go's service configuration.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::PickFirst => "pick_first",
            Self::RoundRobin => "round_robin",
            Self::RingHash => "ring_hash_experimental",
            Self::LeastRequest => "least_request_experimental",
            Self::WeightedRoundRobin => "weighted_round_robin",
        }
    }
}

/// The resource type that a control plane serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Holding {
    Clusters,
    Assignments,
}

impl Holding {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Clusters => "clusters",
            Self::Assignments => "assignments",
        }
    }

    pub(crate) fn resource_type(self) -> ResourceType {
        match self {
            Self::Clusters => ResourceType::CLUSTER,
            Self::Assignments => ResourceType::ENDPOINT,
        }
    }
}

/// Priorities of the endpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Layout {
    /// All in one.
    InUse,
    /// A few in the first, all others in the second, which no call needs.
    ForFailover,
}
