//! What backends say of themselves at the end of an RPC (ORCA), summed up for load reports (gRFC A64, A85).

use std::collections::BTreeSet;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use envoy_types::pb::envoy::config::endpoint::v3::{
    EndpointLoadMetricStats, UnnamedEndpointLoadMetricStats, UpstreamLocalityStats,
};
use oxds_types::orca::OrcaLoadReport;

/// What named metrics are called in a list of metrics, and in reports (gRFC A85).
const NAMED: &str = "named_metrics.";
/// Names of metrics that are kept of a locality: far more than a backend has, and a bound for one that makes them up.
const MOST_NAMED: usize = 256;

/// Which metrics are reported: a cluster's `lrs_report_endpoint_metrics` (gRFC A85). None, by default.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MetricSelection {
    cpu: bool,
    mem: bool,
    application: bool,
    named: Named,
}

/// Which of the metrics whose names are a backend's own.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Named {
    /// These.
    Only(BTreeSet<String>),
    /// All of them.
    All,
    /// All of them, under their bare names.
    AllBare,
}

impl Default for Named {
    fn default() -> Self {
        Self::Only(BTreeSet::new())
    }
}

impl MetricSelection {
    /// Reads a list such as `cpu_utilization`, `named_metrics.*`, `named_metrics.queue`. What is unknown is passed over.
    #[must_use]
    pub fn new<'a>(list: impl IntoIterator<Item = &'a str>) -> Self {
        let mut selection = Self::default();
        for entry in list {
            match entry {
                "cpu_utilization" => selection.cpu = true,
                "mem_utilization" => selection.mem = true,
                "application_utilization" => selection.application = true,
                "named_metrics.*" => selection.named = Named::All,
                _ => {
                    if let (Some(name), Named::Only(names)) =
                        (entry.strip_prefix(NAMED), &mut selection.named)
                    {
                        names.insert(name.to_owned());
                    }
                }
            }
        }
        selection
    }

    /// Every named metric under its bare name, and nothing else, whatever the cluster lists: the rule before gRFC A85
    /// (A64).
    #[must_use]
    pub fn every_named() -> Self {
        Self {
            named: Named::AllBare,
            ..Self::default()
        }
    }

    /// Whether none is: then reports of backends need not be read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn has(&self, name: &str) -> bool {
        match &self.named {
            Named::Only(names) => names.contains(name),
            Named::All | Named::AllBare => true,
        }
    }
}

/// The sums of one locality.
#[derive(Debug, Default)]
pub(super) struct Metrics {
    cpu: Sum,
    mem: Sum,
    application: Sum,
    prefixed: List,
    bare: List,
}

/// Values, and how many RPCs ended with one.
#[derive(Debug, Default)]
struct Sum {
    count: AtomicU64,
    /// The bits of a float.
    total: AtomicU64,
}

/// Sums by name. It only grows, so that a name is found without a lock.
#[derive(Debug, Default)]
struct List(OnceLock<Box<Entry>>);

#[derive(Debug)]
struct Entry {
    name: Box<str>,
    sum: Sum,
    next: List,
}

impl Metrics {
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
        let list = match selection.named {
            Named::AllBare => &self.bare,
            Named::All | Named::Only(_) => &self.prefixed,
        };
        for (name, value) in &report.named_metrics {
            if selection.has(name) {
                list.add(name, *value);
            }
        }
    }

    /// What came since the last call: the fields of metrics, and no others.
    pub(super) fn take(&self) -> UpstreamLocalityStats {
        let unnamed = |sum: &Sum| {
            let (count, total) = sum.take()?;
            Some(UnnamedEndpointLoadMetricStats {
                num_requests_finished_with_metric: count,
                total_metric_value: total,
            })
        };
        let mut load_metric_stats = Vec::new();
        self.prefixed.take(NAMED, &mut load_metric_stats);
        self.bare.take("", &mut load_metric_stats);
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
        // Never `Err`: `add` always has a value.
        let _ = self
            .total
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        // Whoever counts an RPC finds its value. The reverse may be one report late; nothing is lost.
        self.count.fetch_add(1, Ordering::Release);
    }

    fn take(&self) -> Option<(u64, f64)> {
        let count = self.count.swap(0, Ordering::Acquire);
        (count > 0).then(|| (count, f64::from_bits(self.total.swap(0, Ordering::Relaxed))))
    }
}

impl List {
    /// Adds to the name's sum. A name that was never seen is made room for once, while there is room.
    fn add(&self, name: &str, value: f64) {
        let mut list = self;
        for _ in 0..MOST_NAMED {
            let entry = list.0.get_or_init(|| {
                Box::new(Entry {
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

    fn told(stats: &UpstreamLocalityStats) -> Vec<(String, u64, f64)> {
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

    /// Given a list of metrics; when two RPCs end with reports; then sums and counts of what is listed are told, named
    /// ones with their prefix, and once.
    #[test]
    fn c143_what_the_cluster_lists_is_summed_and_nothing_else() {
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
                Metrics::default(),
            );
            assert_eq!(selection.is_empty(), list.is_empty());
            metrics.add(&selection, &report(&[("queue", 2.0)]));
            metrics.add(&selection, &report(&[("queue", 3.0), ("once", 7.0)]));
            assert_eq!(told(&metrics.take()), expected, "{list:?}");
            assert_eq!(told(&metrics.take()), [], "once");
        }
    }

    /// The rule of A64: all named ones, by their own names.
    #[test]
    fn c143_before_a85_every_named_metric_was_told() {
        let metrics = Metrics::default();
        metrics.add(&MetricSelection::every_named(), &report(&[("queue", 2.0)]));
        assert_eq!(told(&metrics.take()), [("queue".to_owned(), 1, 2.0)]);
    }

    /// Given a backend that makes up names, memory is bounded.
    #[test]
    fn c143_made_up_names_are_bounded() {
        let (selection, metrics) = (
            MetricSelection::new(["named_metrics.*"]),
            Metrics::default(),
        );
        for name in 0..2 * MOST_NAMED {
            metrics.add(&selection, &report(&[(&name.to_string(), 1.0)]));
        }
        assert_eq!(metrics.take().load_metric_stats.len(), MOST_NAMED);
    }
}
