//! Type of a cluster: where its endpoints come from (gRFC A27, A37).

use std::fmt;
use std::sync::Arc;

use envoy_types::pb::envoy::config::cluster::v3::{
    Cluster as ClusterProto,
    cluster::{ClusterDiscoveryType, CustomClusterType, DiscoveryType},
};
use envoy_types::pb::envoy::config::core::v3::{
    Address, SocketAddress, address, socket_address::PortSpecifier,
};
use envoy_types::pb::envoy::config::endpoint::v3::{
    ClusterLoadAssignment, lb_endpoint::HostIdentifier,
};
use envoy_types::pb::envoy::extensions::clusters::aggregate::v3::ClusterConfig;
use prost::Message;

use super::Invalid;
use super::convert::message;
use super::invalid::Within;

const AGGREGATE: &str = "envoy.extensions.clusters.aggregate.v3.ClusterConfig";

/// Source of a cluster's endpoints: the type of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Discovery {
    /// The `ClusterLoadAssignment` of [`Cluster::eds_service_name`](super::Cluster::eds_service_name) (EDS).
    Eds,
    /// The addresses of a host name, as one endpoint (gRFC A37).
    LogicalDns(DnsTarget),
    /// Other clusters, in the order of failover: an aggregate cluster has at least one (gRFC A37).
    Aggregate(Vec<Arc<str>>),
}

/// Host name and port of a `LOGICAL_DNS` cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DnsTarget {
    /// Host name; may be an IP address.
    pub host: Arc<str>,
    /// Port.
    pub port: u16,
}

/// Writes `host:port`, with an IPv6 address in brackets.
impl fmt::Display for DnsTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// Reads the type of a cluster.
pub(super) fn discovery(proto: &ClusterProto) -> Result<Discovery, Invalid> {
    let number = match &proto.cluster_discovery_type {
        Some(ClusterDiscoveryType::ClusterType(custom)) => {
            return aggregate(custom).within("cluster_type");
        }
        Some(ClusterDiscoveryType::Type(number)) => *number,
        // The default of the API.
        None => DiscoveryType::Static as i32,
    };
    match DiscoveryType::try_from(number) {
        Ok(DiscoveryType::Eds) => Ok(Discovery::Eds),
        Ok(DiscoveryType::LogicalDns) => {
            let assignment = proto.load_assignment.as_ref();
            let assignment = assignment.ok_or_else(|| Invalid::new("must be set"));
            let target = assignment.and_then(dns_target).within("load_assignment")?;
            Ok(Discovery::LogicalDns(target))
        }
        other => {
            let name = other.map_or("unknown", |other| other.as_str_name());
            let rule = format!("{name} is not supported, only EDS, LOGICAL_DNS and aggregates are");
            Err(Invalid::new(rule).at("type"))
        }
    }
}

fn aggregate(custom: &CustomClusterType) -> Result<Discovery, Invalid> {
    let config = custom.typed_config.as_ref();
    let config = config.ok_or_else(|| Invalid::new("must be set").at("typed_config"))?;
    // gRFC A37: the aggregate cluster is the only custom type, and its message decides, not its name (C-198).
    if message(config) != AGGREGATE {
        let rule = format!(
            "{:?} is not supported, only {AGGREGATE:?} is",
            message(config)
        );
        return Err(Invalid::new(rule).at("typed_config"));
    }
    let config = ClusterConfig::decode(&*config.value).map_err(Invalid::from);
    let config = config.within("typed_config")?;
    if config.clusters.is_empty() {
        return Err(Invalid::new("must not be empty").at("typed_config.clusters"));
    }
    if let Some(index) = config.clusters.iter().position(String::is_empty) {
        let invalid = Invalid::new("must not be empty");
        return Err(invalid.at_index("typed_config.clusters", index));
    }
    let names = config.clusters.iter().map(|name| name.as_str().into());
    Ok(Discovery::Aggregate(names.collect()))
}

/// Reads the host name of a `LOGICAL_DNS` cluster: the only endpoint of the only locality (gRFC A37).
fn dns_target(proto: &ClusterLoadAssignment) -> Result<DnsTarget, Invalid> {
    let [locality] = &proto.endpoints[..] else {
        return Err(Invalid::new("must have exactly one locality").at("endpoints"));
    };
    let [endpoint] = &locality.lb_endpoints[..] else {
        return Err(Invalid::new("must have exactly one endpoint").at("endpoints[0].lb_endpoints"));
    };
    let address = match &endpoint.host_identifier {
        Some(HostIdentifier::Endpoint(endpoint)) => endpoint.address.as_ref(),
        _ => None,
    };
    host_and_port(address).within("endpoints[0].lb_endpoints[0].endpoint.address")
}

fn host_and_port(address: Option<&Address>) -> Result<DnsTarget, Invalid> {
    let Some(address::Address::SocketAddress(socket)) = address.and_then(|a| a.address.as_ref())
    else {
        return Err(Invalid::new("must be set").at("socket_address"));
    };
    let SocketAddress {
        address,
        port_specifier,
        resolver_name,
        ..
    } = socket;
    if !resolver_name.is_empty() {
        return Err(Invalid::new("must be empty").at("socket_address.resolver_name"));
    }
    if address.is_empty() {
        return Err(Invalid::new("must not be empty").at("socket_address.address"));
    }
    let port = match port_specifier {
        Some(PortSpecifier::PortValue(port)) => u16::try_from(*port)
            .map_err(|_| Invalid::new("must be below 65536").at("socket_address.port_value"))?,
        _ => return Err(Invalid::new("must be set").at("socket_address.port_value")),
    };
    Ok(DnsTarget {
        host: address.as_str().into(),
        port,
    })
}
