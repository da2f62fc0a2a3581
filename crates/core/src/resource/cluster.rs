//! CDS: how a cluster is balanced, and where its endpoints are.

use std::sync::Arc;

use envoy_types::pb::envoy::config::cluster::v3::{
    Cluster as ClusterProto,
    cluster::{ClusterDiscoveryType, DiscoveryType, EdsClusterConfig, LbPolicy},
};
use envoy_types::pb::envoy::config::core::v3::{
    ConfigSource, RoutingPriority, config_source::ConfigSourceSpecifier,
};
use prost::Message;

use super::Invalid;
use super::convert::same_server;
use super::invalid::Within;

/// A cluster whose endpoints come by EDS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cluster {
    /// Its name.
    pub name: Arc<str>,
    /// The name of its `ClusterLoadAssignment`.
    pub eds_service_name: Arc<str>,
    /// Where its load is reported, if it is.
    pub lrs_server: Option<LrsServer>,
    /// Most requests at once, over all channels of the process (gRFC A32).
    pub max_requests: u32,
}

/// Where load is reported (gRFC A27).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LrsServer {
    /// To the control plane that sent the cluster.
    ThisServer,
}

/// Envoy's default (gRFC A32).
const DEFAULT_MAX_REQUESTS: u32 = 1024;

impl Cluster {
    pub(super) fn from_bytes(value: &[u8]) -> Result<Self, Invalid> {
        let proto = ClusterProto::decode(value)?;
        if proto.name.is_empty() {
            return Err(Invalid::new("must not be empty").at("name"));
        }
        Self::from_proto(&proto).map_err(|invalid| invalid.of(&proto.name))
    }

    fn from_proto(proto: &ClusterProto) -> Result<Self, Invalid> {
        Ok(Self {
            name: proto.name.as_str().into(),
            eds_service_name: eds_service_name(proto)?,
            lrs_server: lrs_server(proto.lrs_server.as_ref()).within("lrs_server")?,
            max_requests: max_requests(proto),
        })
        .and_then(|cluster| load_balancing(proto).map(|()| cluster))
        .and_then(|cluster| security(proto).map(|()| cluster))
    }
}

/// EDS alone so far; aggregate and logical DNS clusters are gRFC A37.
fn eds_service_name(proto: &ClusterProto) -> Result<Arc<str>, Invalid> {
    match &proto.cluster_discovery_type {
        Some(ClusterDiscoveryType::Type(kind)) if *kind == DiscoveryType::Eds as i32 => {
            let eds = proto.eds_cluster_config.as_ref();
            eds_name(&proto.name, eds).within("eds_cluster_config")
        }
        Some(ClusterDiscoveryType::Type(kind)) => {
            let kind = DiscoveryType::try_from(*kind).map_or("unknown", |kind| kind.as_str_name());
            Err(Invalid::new(format!("{kind} is not supported, only EDS is")).at("type"))
        }
        Some(ClusterDiscoveryType::ClusterType(custom)) => {
            let name = &custom.name;
            Err(Invalid::new(format!("{name:?} is not supported")).at("cluster_type"))
        }
        None => Err(Invalid::new("STATIC is not supported, only EDS is").at("type")),
    }
}

fn eds_name(cluster: &str, eds: Option<&EdsClusterConfig>) -> Result<Arc<str>, Invalid> {
    let eds = eds.ok_or_else(|| Invalid::new("must be set"))?;
    same_server(eds.eds_config.as_ref()).within("eds_config")?;
    match eds.service_name.as_str() {
        // An xdstp name says its own type, so it cannot also name an assignment (gRFC A47).
        "" if cluster.starts_with("xdstp:") => Err(Invalid::new(
            "must be set, since the cluster's own name is an xdstp one",
        )
        .at("service_name")),
        "" => Ok(cluster.into()),
        name => Ok(name.into()),
    }
}

fn lrs_server(source: Option<&ConfigSource>) -> Result<Option<LrsServer>, Invalid> {
    match source.map(|source| source.config_source_specifier.as_ref()) {
        None => Ok(None),
        Some(Some(ConfigSourceSpecifier::Self_(_))) => Ok(Some(LrsServer::ThisServer)),
        Some(_) => Err(Invalid::new("must be self")),
    }
}

/// The first threshold of the default priority (gRFC A32).
fn max_requests(proto: &ClusterProto) -> u32 {
    let thresholds = proto
        .circuit_breakers
        .iter()
        .flat_map(|breakers| &breakers.thresholds);
    thresholds
        .into_iter()
        .find(|threshold| threshold.priority == RoutingPriority::Default as i32)
        .and_then(|threshold| threshold.max_requests)
        .map_or(DEFAULT_MAX_REQUESTS, |most| most.value)
}

/// Round robin; `load_balancing_policy`, where set, overrides `lb_policy` (gRFC A52).
fn load_balancing(proto: &ClusterProto) -> Result<(), Invalid> {
    const SUPPORTED: [&str; 2] = [
        "envoy.extensions.load_balancing_policies.round_robin.v3.RoundRobin",
        "envoy.extensions.load_balancing_policies.wrr_locality.v3.WrrLocality",
    ];
    let Some(policies) = &proto.load_balancing_policy else {
        return match LbPolicy::try_from(proto.lb_policy) {
            Ok(LbPolicy::RoundRobin) => Ok(()),
            Ok(other) => {
                let other = other.as_str_name();
                Err(
                    Invalid::new(format!("{other} is not supported, only ROUND_ROBIN is"))
                        .at("lb_policy"),
                )
            }
            Err(_) => Err(Invalid::new("is unknown").at("lb_policy")),
        };
    };
    let types = policies
        .policies
        .iter()
        .filter_map(|policy| {
            policy
                .typed_extension_config
                .as_ref()?
                .typed_config
                .as_ref()
        })
        .map(|any| any.type_url.rsplit('/').next().unwrap_or_default());
    match types.into_iter().any(|policy| SUPPORTED.contains(&policy)) {
        true => Ok(()),
        false => Err(Invalid::new("has no policy that is supported").at("load_balancing_policy")),
    }
}

/// TLS to endpoints is gRFC A29: a cluster that asks for it must not be reached in plaintext instead.
fn security(proto: &ClusterProto) -> Result<(), Invalid> {
    if !proto.transport_socket_matches.is_empty() {
        return Err(Invalid::new("is not supported").at("transport_socket_matches"));
    }
    match &proto.transport_socket {
        Some(socket) => {
            Err(Invalid::new(format!("{:?} is not supported", socket.name)).at("transport_socket"))
        }
        None => Ok(()),
    }
}
