//! View of CDS resources: the type of a cluster, its balancing, its limits, and its security.

use std::sync::Arc;
use std::time::Duration;

use envoy_types::pb::envoy::config::cluster::v3::Cluster as ClusterProto;
use envoy_types::pb::envoy::config::core::v3::{
    ConfigSource, RoutingPriority, config_source::ConfigSourceSpecifier,
};
use oxds_types::Decode;

use super::Invalid;
use super::affinity;
use super::balancing;
use super::convert::same_server;
use super::discovery::{Discovery, discovery};
use super::extension::Extensions;
use super::invalid::Within;
use super::metrics::MetricSelection;
use super::outlier::outlier_detection;
use super::tls::{TlsRules, UpstreamTls};
use crate::lb::policy::PolicyConfig;
use crate::lb::{HealthSet, OutlierConfig};
use crate::server_id::ServerId;

/// A cluster: where its endpoints come from, and how RPCs to it are balanced and limited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cluster {
    /// Name of the cluster.
    pub name: Arc<str>,
    /// Source of its endpoints.
    pub discovery: Discovery,
    /// Name of its `ClusterLoadAssignment`, also for load reports; empty for a cluster without one.
    pub eds_service_name: Arc<str>,
    /// Load-balancing policy. That of an aggregate cluster is not used: its clusters have their own.
    pub policy: PolicyConfig,
    /// Server that gets its load reports; `None` if its load is not reported.
    pub lrs_server: Option<LrsServer>,
    /// Backend metrics in its load reports (gRFC A85).
    pub lrs_metrics: MetricSelection,
    /// Limit of concurrent requests, over all channels of the process (gRFC A32).
    pub max_requests: u32,
    /// Outlier detection; off without one (gRFC A50).
    pub outlier: Option<OutlierConfig>,
    /// Health statuses of endpoints to which sessions return (gRFC A55).
    pub override_statuses: HealthSet,
    /// Time without an RPC after which a connection that only sessions use is closed (gRFC A75).
    pub idle_timeout: Duration,
    /// Security of the connections to its endpoints; `None`: that of the channel (gRFC A29).
    pub tls: Option<Arc<UpstreamTls>>,
}

/// Server that gets load reports (gRFC A27).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LrsServer {
    /// The server that sends the cluster, before it is known: `self` in the bytes of the resource.
    ThisServer,
    /// The server that sent the cluster last (gRFC A71).
    Sender(ServerId),
}

/// Envoy's default (gRFC A32).
const DEFAULT_MAX_REQUESTS: u32 = 1024;

impl Cluster {
    pub(super) fn from_bytes(value: &[u8], extensions: &Extensions) -> Result<Self, Invalid> {
        let proto = ClusterProto::from_bytes(value)?;
        if proto.name.is_empty() {
            return Err(Invalid::new("must not be empty").at("name"));
        }
        Self::from_proto(&proto, extensions).map_err(|invalid| invalid.of(&proto.name))
    }

    fn from_proto(proto: &ClusterProto, extensions: &Extensions) -> Result<Self, Invalid> {
        let discovery = discovery(proto)?;
        let policy = match &discovery {
            Discovery::Eds | Discovery::LogicalDns(_) => balancing::policy(proto, extensions)?,
            // gRFC A75: ignored. Envoy demands CLUSTER_PROVIDED here, which is invalid for other clusters (C-198).
            Discovery::Aggregate(_) => PolicyConfig::round_robin_by_locality(),
        };
        let outlier = proto.outlier_detection.as_ref().map(outlier_detection);
        Ok(Self {
            name: proto.name.as_str().into(),
            eds_service_name: match &discovery {
                Discovery::Eds => eds_service_name(proto).within("eds_cluster_config")?,
                Discovery::LogicalDns(_) | Discovery::Aggregate(_) => "".into(),
            },
            discovery,
            policy,
            lrs_server: lrs_server(proto.lrs_server.as_ref()).within("lrs_server")?,
            lrs_metrics: MetricSelection::new(
                proto.lrs_report_endpoint_metrics.iter().map(String::as_str),
            ),
            max_requests: max_requests(proto),
            outlier: outlier.transpose().within("outlier_detection")?,
            override_statuses: affinity::override_statuses(proto),
            idle_timeout: affinity::idle_timeout(proto).within("upstream_config")?,
            tls: security(proto, extensions.tls_rules())?,
        })
    }
}

impl Cluster {
    /// Returns the cluster with load reports to `server`, if it reports load and came from a different server before
    /// (C-144).
    pub(super) fn moved_to(&self, server: ServerId) -> Option<Self> {
        let to = LrsServer::Sender(server);
        let is_elsewhere = self.lrs_server.is_some_and(|reports_to| reports_to != to);
        is_elsewhere.then(|| Self {
            lrs_server: Some(to),
            ..self.clone()
        })
    }
}

fn eds_service_name(proto: &ClusterProto) -> Result<Arc<str>, Invalid> {
    let cluster = proto.name.as_str();
    let eds = proto.eds_cluster_config.as_ref();
    let eds = eds.ok_or_else(|| Invalid::new("must be set"))?;
    same_server(eds.eds_config.as_ref()).within("eds_config")?;
    match eds.service_name.as_str() {
        // gRFC A47: an xdstp name contains its resource type, so a cluster's name cannot also name an assignment.
        "" if cluster.starts_with("xdstp:") => Err(Invalid::new(
            "must be set, since the name of the cluster is an xdstp name",
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

/// Returns the limit of the first threshold of the default priority (gRFC A32).
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

/// Reads the security of the connections to endpoints.
fn security(proto: &ClusterProto, rules: &TlsRules) -> Result<Option<Arc<UpstreamTls>>, Invalid> {
    // gRFC A29: one security for all endpoints of a cluster (C-203).
    if !proto.transport_socket_matches.is_empty() {
        return Err(Invalid::new("is not supported").at("transport_socket_matches"));
    }
    let socket = proto.transport_socket.as_ref();
    let tls = socket.map(|socket| UpstreamTls::from_socket(socket, rules));
    let tls = tls.transpose().within("transport_socket")?;
    Ok(tls.map(Arc::new))
}
