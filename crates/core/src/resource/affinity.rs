//! Fields of clusters and endpoints that sessions need (gRFC A55, A75).

use std::time::Duration;

use envoy_types::pb::envoy::config::cluster::v3::Cluster as ClusterProto;
use envoy_types::pb::envoy::config::core::v3::HealthStatus;
use envoy_types::pb::envoy::extensions::upstreams::http::v3::HttpProtocolOptions;

use super::Invalid;
use super::convert::duration;
use super::extension::ExtensionConfig;
use super::invalid::Within;
use crate::lb::{EndpointHealth, HealthSet};

const OPTIONS: &str = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";

/// Default of `idle_timeout` (gRFC A75).
pub(super) const DEFAULT_IDLE_TIMEOUT: Duration = Duration::from_secs(3600);

/// Returns the health of an endpoint; `None` if it is not used. gRPC uses UNKNOWN and HEALTHY ones (gRFC A27), and for
/// sessions DRAINING ones (gRFC A55).
pub(super) fn health(status: i32) -> Option<EndpointHealth> {
    match HealthStatus::try_from(status) {
        Ok(HealthStatus::Unknown) => Some(EndpointHealth::Unknown),
        Ok(HealthStatus::Healthy) => Some(EndpointHealth::Healthy),
        Ok(HealthStatus::Draining) => Some(EndpointHealth::Draining),
        _ => None,
    }
}

/// Reads `override_host_status`. Statuses of endpoints that gRPC never uses are ignored (gRFC A55).
pub(super) fn override_statuses(proto: &ClusterProto) -> HealthSet {
    let config = proto.common_lb_config.as_ref();
    let Some(set) = config.and_then(|config| config.override_host_status.as_ref()) else {
        return HealthSet::default();
    };
    let statuses = set.statuses.iter().filter_map(|status| health(*status));
    statuses.fold(HealthSet::EMPTY, HealthSet::with)
}

/// Reads `idle_timeout` of `upstream_config` (gRFC A75).
pub(super) fn idle_timeout(proto: &ClusterProto) -> Result<Duration, Invalid> {
    let Some(config) = &proto.upstream_config else {
        return Ok(DEFAULT_IDLE_TIMEOUT);
    };
    let any = config.typed_config.as_ref();
    let any = any.ok_or_else(|| Invalid::new("must be set").at("typed_config"))?;
    of_options(&ExtensionConfig::from_any(any).within("typed_config")?).within("typed_config")
}

fn of_options(config: &ExtensionConfig) -> Result<Duration, Invalid> {
    if &*config.type_name != OPTIONS {
        let rule = format!(
            "{:?} is not supported: expected {OPTIONS}",
            config.type_name
        );
        return Err(Invalid::new(rule));
    }
    let options: HttpProtocolOptions = config.decode()?;
    let common = options.common_http_protocol_options.as_ref();
    let timeout = common.and_then(|common| common.idle_timeout.as_ref());
    let timeout = timeout.map(duration).transpose();
    let timeout = timeout.within("common_http_protocol_options.idle_timeout")?;
    Ok(timeout.unwrap_or(DEFAULT_IDLE_TIMEOUT))
}
