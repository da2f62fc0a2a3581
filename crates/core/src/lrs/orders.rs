//! What a server asks to be told.

use std::collections::BTreeSet;
use std::time::Duration;

use envoy_types::pb::envoy::service::load_stats::v3::LoadStatsResponse;
use oxds_types::discovery::Duration as ProtoDuration;

/// Reports do not come more often than this, whatever the server asks for: C-core's bound.
const SHORTEST: Duration = Duration::from_secs(1);

/// A response, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Orders {
    pub(super) interval: Duration,
    /// `None`: all that there are.
    clusters: Option<BTreeSet<String>>,
}

impl Orders {
    pub(super) fn wants(&self, cluster: &str) -> bool {
        self.clusters
            .as_ref()
            .is_none_or(|clusters| clusters.contains(cluster))
    }
}

impl From<LoadStatsResponse> for Orders {
    fn from(response: LoadStatsResponse) -> Self {
        Self {
            interval: interval(response.load_reporting_interval),
            // C-134: with `send_all_clusters`, the list says nothing.
            clusters: (!response.send_all_clusters)
                .then(|| response.clusters.into_iter().collect()),
        }
    }
}

/// C-133: what is unset, too short or no duration at all is the shortest.
fn interval(asked: Option<ProtoDuration>) -> Duration {
    let asked = asked.and_then(|asked| {
        let (seconds, nanos) = (asked.seconds.try_into().ok()?, asked.nanos.try_into().ok()?);
        Duration::from_secs(seconds).checked_add(Duration::from_nanos(nanos))
    });
    asked.unwrap_or_default().max(SHORTEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c133_an_interval_is_a_second_or_more() {
        let second = Duration::from_secs(1);
        for (asked, expected) in [
            (None, second),
            (Some((0, 0)), second),
            (Some((0, 999_999_999)), second),
            (Some((-5, 0)), second),
            (Some((5, -1)), second),
            (Some((10, 0)), Duration::from_secs(10)),
            (Some((2, 500_000_000)), Duration::from_millis(2500)),
            (
                Some((i64::MAX, 0)),
                Duration::from_secs(i64::MAX.unsigned_abs()),
            ),
        ] {
            let asked = asked.map(|(seconds, nanos)| ProtoDuration { seconds, nanos });
            assert_eq!(interval(asked), expected, "{asked:?}");
        }
    }
}
