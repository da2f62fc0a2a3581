//! Selection of the backend metrics that a cluster reports.

use std::collections::BTreeSet;

/// Prefix of named metrics in a selection and in reports (gRFC A85).
pub(crate) const NAMED_PREFIX: &str = "named_metrics.";

/// Backend metrics that load reports have: a cluster's `lrs_report_endpoint_metrics` (gRFC A85). None by default.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MetricSelection {
    pub(crate) cpu: bool,
    pub(crate) mem: bool,
    pub(crate) application: bool,
    named: NamedMetrics,
}

/// Selection among the metrics that a backend names itself.
#[derive(Debug, Clone, PartialEq, Eq)]
enum NamedMetrics {
    /// The metrics with these names.
    Only(BTreeSet<String>),
    /// All of them.
    All,
    /// All of them, reported without the prefix `named_metrics.`.
    AllUnprefixed,
}

impl Default for NamedMetrics {
    fn default() -> Self {
        Self::Only(BTreeSet::new())
    }
}

impl MetricSelection {
    /// Reads a list such as `cpu_utilization`, `named_metrics.*`, `named_metrics.queue`. Unknown entries are ignored.
    #[must_use]
    pub fn new<'a>(list: impl IntoIterator<Item = &'a str>) -> Self {
        let mut selection = Self::default();
        for entry in list {
            match entry {
                "cpu_utilization" => selection.cpu = true,
                "mem_utilization" => selection.mem = true,
                "application_utilization" => selection.application = true,
                "named_metrics.*" => selection.named = NamedMetrics::All,
                _ => {
                    if let (Some(name), NamedMetrics::Only(names)) =
                        (entry.strip_prefix(NAMED_PREFIX), &mut selection.named)
                    {
                        names.insert(name.to_owned());
                    }
                }
            }
        }
        selection
    }

    /// Returns the rule of gRFC A64, before gRFC A85: every named metric without the prefix, and no other metric,
    /// whatever the cluster lists.
    #[must_use]
    pub fn every_named() -> Self {
        Self {
            named: NamedMetrics::AllUnprefixed,
            ..Self::default()
        }
    }

    /// Returns whether no metric is selected. Then the reports of backends need not be read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns whether a named metric is selected.
    pub(crate) fn has_named(&self, name: &str) -> bool {
        match &self.named {
            NamedMetrics::Only(names) => names.contains(name),
            NamedMetrics::All | NamedMetrics::AllUnprefixed => true,
        }
    }

    /// Returns whether named metrics are reported without the prefix.
    pub(crate) fn is_unprefixed(&self) -> bool {
        self.named == NamedMetrics::AllUnprefixed
    }
}
