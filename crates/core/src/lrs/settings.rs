//! Cluster keys of load reports, and the settings that a server sends.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use envoy_types::pb::envoy::service::load_stats::v3::LoadStatsResponse;
use oxds_types::discovery::Duration as ProtoDuration;

use crate::time::clamped_duration;

/// Shortest interval between reports, whatever the server requests: C-core's bound.
const MIN_INTERVAL: Duration = Duration::from_secs(1);

/// Key of a cluster in load reports (C-137).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterKey {
    /// Name of the cluster.
    pub cluster: Arc<str>,
    /// `eds_service_name` of the cluster; empty if it has none.
    pub service: Arc<str>,
}

impl ClusterKey {
    /// Returns the key of a cluster with its `eds_service_name`.
    ///
    /// A service name equal to the cluster name becomes empty: EDS uses the cluster name without a service name, so
    /// both mean the same.
    #[must_use]
    pub fn new(cluster: impl Into<Arc<str>>, service: impl Into<Arc<str>>) -> Self {
        let (cluster, mut service) = (cluster.into(), service.into());
        if service == cluster {
            service = Arc::default();
        }
        Self { cluster, service }
    }
}

/// Settings in a `LoadStatsResponse`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ReportSettings {
    /// Time between two reports.
    pub(super) interval: Duration,
    /// Clusters to report; `None` for all.
    clusters: Option<BTreeSet<String>>,
}

impl ReportSettings {
    /// Returns whether the server wants reports of a cluster.
    pub(super) fn wants(&self, cluster: &str) -> bool {
        self.clusters
            .as_ref()
            .is_none_or(|clusters| clusters.contains(cluster))
    }
}

impl From<LoadStatsResponse> for ReportSettings {
    fn from(response: LoadStatsResponse) -> Self {
        Self {
            interval: interval(response.load_reporting_interval),
            // lrs.proto, `send_all_clusters`: the list of clusters is ignored (C-134).
            clusters: (!response.send_all_clusters)
                .then(|| response.clusters.into_iter().collect()),
        }
    }
}

/// Reads the interval; an unset, invalid or too short one becomes [`MIN_INTERVAL`] (C-133).
fn interval(asked: Option<ProtoDuration>) -> Duration {
    let asked = asked.as_ref().and_then(clamped_duration);
    asked.unwrap_or_default().max(MIN_INTERVAL)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::LONGEST_DURATION;

    /// The longest interval is protobuf's: a clock cannot count to the end of `i64` (D7).
    #[test]
    fn c133_report_interval_is_at_least_one_second() {
        let second = Duration::from_secs(1);
        for (asked, expected) in [
            (None, second),
            (Some((0, 0)), second),
            (Some((0, 999_999_999)), second),
            (Some((-5, 0)), second),
            (Some((5, -1)), second),
            (Some((10, 0)), Duration::from_secs(10)),
            (Some((2, 500_000_000)), Duration::from_millis(2500)),
            (Some((i64::MAX, 0)), LONGEST_DURATION),
            (Some((i64::MAX, i32::MAX)), LONGEST_DURATION),
        ] {
            let asked = asked.map(|(seconds, nanos)| ProtoDuration { seconds, nanos });
            assert_eq!(interval(asked), expected, "{asked:?}");
        }
    }
}
