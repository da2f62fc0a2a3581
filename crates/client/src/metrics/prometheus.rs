//! Recorder for a registry of the crate `prometheus-client`.

use std::collections::{BTreeSet, HashMap};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::INSTRUMENTS;
use super::instrument::{Instrument, InstrumentKind};
use super::recorder::{Bound, Recorder};

/// Records into a Prometheus registry.
///
/// Prometheus names have no dots: `grpc.xds_client.connected` becomes `grpc_xds_client_connected`, and `grpc.target`
/// becomes
/// `grpc_target`. Counters end in `_total`, times in `_seconds` and sizes in `_bytes`. Exporters of OpenTelemetry use
/// the same names.
///
/// ```
/// use std::sync::Arc;
/// use oxds_client::metrics::PrometheusRecorder;
/// use oxds_client::{Bootstrap, ClientPool};
///
/// # fn main() -> Result<(), oxds_client::BootstrapError> {
/// let mut registry = prometheus_client::registry::Registry::default();
/// let recorder = PrometheusRecorder::register(&mut registry);
/// let bootstrap = Bootstrap::builder("127.0.0.1:18000").build()?;
/// let pool = ClientPool::new(bootstrap).with_recorder(Arc::new(recorder));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct PrometheusRecorder {
    counters: HashMap<&'static str, Family<Labels, Counter>>,
    /// Gauges and up-down counters.
    gauges: HashMap<&'static str, Family<Labels, Gauge>>,
    histograms: HashMap<&'static str, Family<Labels, Histogram, Boundaries>>,
    optional_labels: BTreeSet<String>,
}

type Labels = Vec<(String, String)>;

/// Boundaries of the buckets of a family's histograms.
#[derive(Debug, Clone, Copy)]
struct Boundaries(&'static [f64]);

impl MetricConstructor<Histogram> for Boundaries {
    fn new_metric(&self) -> Histogram {
        Histogram::new(self.0.iter().copied())
    }
}

impl PrometheusRecorder {
    /// Creates the metrics, and registers them.
    #[must_use]
    pub fn register(registry: &mut Registry) -> Self {
        let (mut counters, mut gauges) = (HashMap::new(), HashMap::new());
        let mut histograms = HashMap::new();
        for instrument in INSTRUMENTS {
            let name = metric_name(instrument);
            match instrument.kind {
                InstrumentKind::Counter => {
                    let family = Family::default();
                    registry.register(name, instrument.description, Family::clone(&family));
                    counters.insert(instrument.name, family);
                }
                InstrumentKind::Gauge | InstrumentKind::UpDownCounter => {
                    let family = Family::default();
                    registry.register(name, instrument.description, Family::clone(&family));
                    gauges.insert(instrument.name, family);
                }
                InstrumentKind::Histogram => {
                    let family = Family::new_with_constructor(Boundaries(instrument.boundaries));
                    registry.register(name, instrument.description, Family::clone(&family));
                    histograms.insert(instrument.name, family);
                }
            }
        }
        Self {
            counters,
            gauges,
            histograms,
            optional_labels: BTreeSet::new(),
        }
    }

    /// Records these optional labels, such as `grpc.lb.locality`, too.
    #[must_use]
    pub fn with_optional_labels<L: Into<String>>(
        mut self,
        labels: impl IntoIterator<Item = L>,
    ) -> Self {
        self.optional_labels = labels.into_iter().map(Into::into).collect();
        self
    }

    fn named(&self, instrument: &Instrument, labels: &[&str]) -> Labels {
        let keys = instrument.keys(|key| self.wants_label(key));
        let values = labels.iter().map(|&value| value.to_owned());
        keys.map(without_dots).zip(values).collect()
    }
}

impl Recorder for PrometheusRecorder {
    fn add(&self, counter: &'static Instrument, labels: &[&str], by: u64) {
        if let Some(family) = self.counters.get(counter.name) {
            family
                .get_or_create(&self.named(counter, labels))
                .inc_by(by);
        }
    }

    fn set(&self, gauge: &'static Instrument, labels: &[&str], value: i64) {
        if let Some(family) = self.gauges.get(gauge.name) {
            family.get_or_create(&self.named(gauge, labels)).set(value);
        }
    }

    fn end(&self, gauge: &'static Instrument, labels: &[&str]) {
        if let Some(family) = self.gauges.get(gauge.name) {
            family.remove(&self.named(gauge, labels));
        }
    }

    fn record(&self, histogram: &'static Instrument, labels: &[&str], value: f64) {
        if let Some(family) = self.histograms.get(histogram.name) {
            family
                .get_or_create(&self.named(histogram, labels))
                .observe(value);
        }
    }

    fn change(&self, counter: &'static Instrument, labels: &[&str], by: i64) {
        if let Some(family) = self.gauges.get(counter.name) {
            family
                .get_or_create(&self.named(counter, labels))
                .inc_by(by);
        }
    }

    fn wants_label(&self, key: &str) -> bool {
        self.optional_labels.contains(key)
    }

    fn bind(&self, instrument: &'static Instrument, labels: &[&str]) -> Option<Box<dyn Bound>> {
        let labels = self.named(instrument, labels);
        if let Some(family) = self.counters.get(instrument.name) {
            let counter = family.get_or_create_owned(&labels);
            return Some(Box::new(BoundCounter(counter)));
        }
        let family = self.histograms.get(instrument.name)?;
        Some(Box::new(BoundHistogram(
            family.get_or_create_owned(&labels),
        )))
    }
}

/// A counter with labels.
#[derive(Debug)]
struct BoundCounter(Counter);

/// A histogram with labels.
#[derive(Debug)]
struct BoundHistogram(Histogram);

impl Bound for BoundCounter {
    fn add(&self, by: u64) {
        self.0.inc_by(by);
    }
}

impl Bound for BoundHistogram {
    fn record(&self, value: f64) {
        self.0.observe(value);
    }
}

fn metric_name(instrument: &Instrument) -> String {
    // OpenTelemetry, "Prometheus and OpenMetrics Compatibility": the unit is a suffix of the name.
    let suffix = match instrument.unit {
        "s" => "_seconds",
        "By" => "_bytes",
        _ => "",
    };
    without_dots(instrument.name) + suffix
}

fn without_dots(name: &str) -> String {
    name.replace('.', "_")
}
