//! Sums of the metrics that backends report at the end of RPCs (ORCA), for load reports (gRFC A64, A85).

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use envoy_types::pb::envoy::config::endpoint::v3::{
    EndpointLoadMetricStats, UnnamedEndpointLoadMetricStats, UpstreamLocalityStats,
};
use oxds_types::orca::OrcaLoadReport;

use crate::resource::{MetricSelection, NAMED_PREFIX};

/// Number of named metrics per locality: far more than a backend has, and a bound for one that makes names up.
const MAX_NAMED: usize = 256;

/// Sums of one locality.
#[derive(Debug, Default)]
pub(super) struct MetricSums {
    cpu: Sum,
    mem: Sum,
    application: Sum,
    prefixed: NamedSums,
    unprefixed: NamedSums,
}

/// Sum of a metric, and the number of RPCs that ended with a value.
#[derive(Debug, Default)]
struct Sum {
    count: AtomicU64,
    /// Bits of an `f64`.
    total: AtomicU64,
}

/// Sums by name: a linked list that only grows, so that a name is found without a lock.
#[derive(Debug, Default)]
struct NamedSums(OnceLock<Box<NamedSum>>);

#[derive(Debug)]
struct NamedSum {
    name: Box<str>,
    sum: Sum,
    next: NamedSums,
}

impl MetricSums {
    pub(super) fn add(&self, selection: &MetricSelection, report: &OrcaLoadReport) {
        if selection.cpu {
            self.cpu.add(report.cpu_utilization);
        }
        if selection.mem {
            self.mem.add(report.mem_utilization);
        }
        if selection.application {
            self.application.add(report.application_utilization);
        }
        let list = if selection.is_unprefixed() {
            &self.unprefixed
        } else {
            &self.prefixed
        };
        for (name, value) in &report.named_metrics {
            if selection.has_named(name) {
                list.add(name, *value);
            }
        }
    }

    /// Returns the metrics since the last call; other fields are unset.
    pub(super) fn take(&self) -> UpstreamLocalityStats {
        let unnamed = |sum: &Sum| {
            let (count, total) = sum.take()?;
            Some(UnnamedEndpointLoadMetricStats {
                num_requests_finished_with_metric: count,
                total_metric_value: total,
            })
        };
        let mut load_metric_stats = Vec::new();
        self.prefixed.take(NAMED_PREFIX, &mut load_metric_stats);
        self.unprefixed.take("", &mut load_metric_stats);
        UpstreamLocalityStats {
            cpu_utilization: unnamed(&self.cpu),
            mem_utilization: unnamed(&self.mem),
            application_utilization: unnamed(&self.application),
            load_metric_stats,
            ..UpstreamLocalityStats::default()
        }
    }
}

impl Sum {
    fn add(&self, value: f64) {
        let add = |bits| Some((f64::from_bits(bits) + value).to_bits());
        // This cannot fail: `add` always returns a value.
        let _ = self
            .total
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        // Release: a reader that sees the count sees the value. A value may be in a report before its count; none is
        // lost.
        self.count.fetch_add(1, Ordering::Release);
    }

    fn take(&self) -> Option<(u64, f64)> {
        let count = self.count.swap(0, Ordering::Acquire);
        (count > 0).then(|| (count, f64::from_bits(self.total.swap(0, Ordering::Relaxed))))
    }
}

impl NamedSums {
    /// Adds to the sum of a name. New names are added up to [`MAX_NAMED`]; further ones are ignored.
    fn add(&self, name: &str, value: f64) {
        let mut list = self;
        for _ in 0..MAX_NAMED {
            let entry = list.0.get_or_init(|| {
                Box::new(NamedSum {
                    name: name.into(),
                    sum: Sum::default(),
                    next: Self::default(),
                })
            });
            if *entry.name == *name {
                return entry.sum.add(value);
            }
            list = &entry.next;
        }
    }

    fn take(&self, prefix: &str, into: &mut Vec<EndpointLoadMetricStats>) {
        let mut next = self.0.get();
        while let Some(entry) = next {
            if let Some((count, total)) = entry.sum.take() {
                into.push(EndpointLoadMetricStats {
                    metric_name: format!("{prefix}{}", entry.name),
                    num_requests_finished_with_metric: count,
                    total_metric_value: total,
                });
            }
            next = entry.next.0.get();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(named: &[(&str, f64)]) -> OrcaLoadReport {
        OrcaLoadReport {
            cpu_utilization: 0.5,
            mem_utilization: 0.25,
            application_utilization: 0.75,
            named_metrics: named
                .iter()
                .map(|(name, value)| ((*name).to_owned(), *value))
                .collect(),
            ..OrcaLoadReport::default()
        }
    }

    fn reported(stats: &UpstreamLocalityStats) -> Vec<(String, u64, f64)> {
        let named = stats.load_metric_stats.iter().map(|stats| {
            let count = stats.num_requests_finished_with_metric;
            (stats.metric_name.clone(), count, stats.total_metric_value)
        });
        let unnamed = [
            ("cpu", stats.cpu_utilization),
            ("mem", stats.mem_utilization),
            ("application", stats.application_utilization),
        ];
        let unnamed = unnamed.into_iter().filter_map(|(name, stats)| {
            let stats = stats?;
            let count = stats.num_requests_finished_with_metric;
            Some((name.to_owned(), count, stats.total_metric_value))
        });
        let mut all: Vec<_> = named.chain(unnamed).collect();
        all.sort_by(|(one, ..), (other, ..)| one.cmp(other));
        all
    }

    /// Given a list of metrics; when two RPCs end with reports; then sums and counts of the listed metrics are reported
    /// once, named ones with their prefix.
    #[test]
    fn c143_only_listed_metrics_are_summed() {
        let entry = |name: &str, count, total| (name.to_owned(), count, total);
        for (list, expected) in [
            (&[][..], vec![]),
            (
                &["cpu_utilization", "named_metrics.queue", "rps"][..],
                vec![entry("cpu", 2, 1.0), entry("named_metrics.queue", 2, 5.0)],
            ),
            (
                &["mem_utilization", "application_utilization"][..],
                vec![entry("application", 2, 1.5), entry("mem", 2, 0.5)],
            ),
            (
                &["named_metrics.queue", "named_metrics.*"][..],
                vec![
                    entry("named_metrics.once", 1, 7.0),
                    entry("named_metrics.queue", 2, 5.0),
                ],
            ),
        ] {
            let (selection, metrics) = (
                MetricSelection::new(list.iter().copied()),
                MetricSums::default(),
            );
            assert_eq!(selection.is_empty(), list.is_empty());
            metrics.add(&selection, &report(&[("queue", 2.0)]));
            metrics.add(&selection, &report(&[("queue", 3.0), ("once", 7.0)]));
            assert_eq!(reported(&metrics.take()), expected, "{list:?}");
            assert_eq!(reported(&metrics.take()), [], "once");
        }
    }

    /// gRFC A64: all named metrics, without a prefix.
    #[test]
    fn c143_a64_rule_reports_every_named_metric() {
        let metrics = MetricSums::default();
        metrics.add(&MetricSelection::every_named(), &report(&[("queue", 2.0)]));
        assert_eq!(reported(&metrics.take()), [("queue".to_owned(), 1, 2.0)]);
    }

    /// Given a backend that makes up names; then memory is bounded.
    #[test]
    fn c143_number_of_named_metrics_is_bounded() {
        let (selection, metrics) = (
            MetricSelection::new(["named_metrics.*"]),
            MetricSums::default(),
        );
        for name in 0..2 * MAX_NAMED {
            metrics.add(&selection, &report(&[(&name.to_string(), 1.0)]));
        }
        assert_eq!(metrics.take().load_metric_stats.len(), MAX_NAMED);
    }
}
