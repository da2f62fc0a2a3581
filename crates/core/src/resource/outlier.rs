//! Outlier detection of a cluster (gRFC A50).

use std::time::Duration;

use envoy_types::pb::envoy::config::cluster::v3::OutlierDetection;
use envoy_types::pb::google::protobuf::{Duration as DurationProto, UInt32Value};

use super::Invalid;
use super::convert::duration;
use super::invalid::Within;
use crate::lb::{FailurePercentage, OutlierConfig, SuccessRate};

/// Shortest interval between two decisions. gRPC has no limit; without one, an interval of zero would take a whole
/// processor.
const MIN_INTERVAL: Duration = Duration::from_millis(1);

/// Reads the configuration of outlier detection.
pub(super) fn outlier_detection(proto: &OutlierDetection) -> Result<OutlierConfig, Invalid> {
    let base = time(proto.base_ejection_time.as_ref(), 30).within("base_ejection_time")?;
    let max = time(proto.max_ejection_time.as_ref(), 300).within("max_ejection_time")?;
    let interval = time(proto.interval.as_ref(), 10).within("interval")?;
    let success_rate = percent(
        proto.enforcing_success_rate.as_ref(),
        100,
        "enforcing_success_rate",
    )?;
    let threshold = percent(
        proto.failure_percentage_threshold.as_ref(),
        85,
        "failure_percentage_threshold",
    )?;
    // gRFC A50: Envoy does not enforce the failure percentage by default.
    let failures = percent(
        proto.enforcing_failure_percentage.as_ref(),
        0,
        "enforcing_failure_percentage",
    )?;
    Ok(OutlierConfig {
        interval: interval.max(MIN_INTERVAL),
        base_ejection_time: base,
        max_ejection_time: max,
        max_ejection_percent: percent(
            proto.max_ejection_percent.as_ref(),
            10,
            "max_ejection_percent",
        )?,
        success_rate: (success_rate > 0).then(|| SuccessRate {
            stdev_factor: number(proto.success_rate_stdev_factor.as_ref(), 1900),
            enforcement_percentage: success_rate,
            minimum_hosts: number(proto.success_rate_minimum_hosts.as_ref(), 5),
            request_volume: number(proto.success_rate_request_volume.as_ref(), 100),
        }),
        failure_percentage: (failures > 0).then(|| FailurePercentage {
            threshold,
            enforcement_percentage: failures,
            minimum_hosts: number(proto.failure_percentage_minimum_hosts.as_ref(), 5),
            request_volume: number(proto.failure_percentage_request_volume.as_ref(), 50),
        }),
    })
}

fn time(proto: Option<&DurationProto>, default_seconds: u64) -> Result<Duration, Invalid> {
    proto.map_or(Ok(Duration::from_secs(default_seconds)), duration)
}

fn number(proto: Option<&UInt32Value>, default: u32) -> u32 {
    proto.map_or(default, |value| value.value)
}

fn percent(proto: Option<&UInt32Value>, default: u32, field: &str) -> Result<u32, Invalid> {
    match number(proto, default) {
        percent if percent > 100 => Err(Invalid::new("must not be above 100").at(field)),
        percent => Ok(percent),
    }
}
