//! Recorder for OpenTelemetry.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use opentelemetry::KeyValue;
use opentelemetry::metrics::{AsyncInstrument, Counter, Histogram, Meter, UpDownCounter};

use super::INSTRUMENTS;
use super::instrument::{Instrument, InstrumentKind};
use super::recorder::{Bound, Recorder};

/// Records into a meter. It uses OpenTelemetry's API only, so the application chooses the SDK.
///
/// ```
/// use std::sync::Arc;
/// use oxds_client::metrics::OpenTelemetryRecorder;
/// use oxds_client::{Bootstrap, ClientPool};
///
/// # fn main() -> Result<(), oxds_client::BootstrapError> {
/// let recorder = OpenTelemetryRecorder::new(&opentelemetry::global::meter("oxds"));
/// let bootstrap = Bootstrap::builder("127.0.0.1:18000").build()?;
/// let pool = ClientPool::new(bootstrap).with_recorder(Arc::new(recorder));
/// # Ok(())
/// # }
/// ```
pub struct OpenTelemetryRecorder {
    counters: HashMap<&'static str, Counter<u64>>,
    up_down_counters: HashMap<&'static str, UpDownCounter<i64>>,
    histograms: HashMap<&'static str, Histogram<f64>>,
    /// Observable gauges: the SDK reads them when it collects. Unlike a plain gauge, such a gauge can stop to report a
    /// value.
    gauges: HashMap<&'static str, Arc<GaugeValues>>,
    optional_labels: BTreeSet<String>,
}

/// Values of a gauge, by their labels.
#[derive(Debug, Default)]
struct GaugeValues(Mutex<BTreeMap<Vec<String>, i64>>);

impl OpenTelemetryRecorder {
    /// Creates the instruments of a meter. Histograms have the boundaries of the gRFCs, unless a view of the SDK has
    /// others.
    #[must_use]
    pub fn new(meter: &Meter) -> Self {
        let mut recorder = Self {
            counters: HashMap::new(),
            up_down_counters: HashMap::new(),
            histograms: HashMap::new(),
            gauges: HashMap::new(),
            optional_labels: BTreeSet::new(),
        };
        for instrument in INSTRUMENTS {
            recorder.register(meter, instrument);
        }
        recorder
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

    fn register(&mut self, meter: &Meter, instrument: &'static Instrument) {
        let (name, unit, description) = (instrument.name, instrument.unit, instrument.description);
        match instrument.kind {
            InstrumentKind::Counter => {
                let counter = meter.u64_counter(name).with_unit(unit);
                let counter = counter.with_description(description).build();
                self.counters.insert(name, counter);
            }
            InstrumentKind::UpDownCounter => {
                let counter = meter.i64_up_down_counter(name).with_unit(unit);
                let counter = counter.with_description(description).build();
                self.up_down_counters.insert(name, counter);
            }
            InstrumentKind::Histogram => {
                let histogram = meter.f64_histogram(name).with_unit(unit);
                let histogram = histogram.with_description(description);
                let histogram = histogram.with_boundaries(instrument.boundaries.to_vec());
                self.histograms.insert(name, histogram.build());
            }
            InstrumentKind::Gauge => {
                let values = Arc::new(GaugeValues::default());
                // The SDK never drops callbacks, so the callback must not keep the values alive.
                let observed = Arc::downgrade(&values);
                // The handle of the gauge is not needed: the callback stays registered.
                let _ = meter
                    .i64_observable_gauge(name)
                    .with_unit(unit)
                    .with_description(description)
                    .with_callback(move |observer| observe(&observed, instrument, observer))
                    .build();
                self.gauges.insert(name, values);
            }
        }
    }

    fn named(&self, instrument: &Instrument, labels: &[&str]) -> Vec<KeyValue> {
        let keys = instrument.keys(|key| self.wants_label(key));
        pairs(keys, labels)
    }
}

fn observe(values: &Weak<GaugeValues>, gauge: &Instrument, observer: &dyn AsyncInstrument<i64>) {
    let Some(values) = values.upgrade() else {
        return;
    };
    for (labels, value) in values.lock().iter() {
        let labels: Vec<_> = labels.iter().map(String::as_str).collect();
        // No gauge has optional labels.
        observer.observe(*value, &pairs(gauge.labels.iter().copied(), &labels));
    }
}

impl Recorder for OpenTelemetryRecorder {
    fn add(&self, counter: &'static Instrument, labels: &[&str], by: u64) {
        if let Some(made) = self.counters.get(counter.name) {
            made.add(by, &self.named(counter, labels));
        }
    }

    fn set(&self, gauge: &'static Instrument, labels: &[&str], value: i64) {
        if let Some(values) = self.gauges.get(gauge.name) {
            values.lock().insert(owned(labels), value);
        }
    }

    fn end(&self, gauge: &'static Instrument, labels: &[&str]) {
        if let Some(values) = self.gauges.get(gauge.name) {
            values.lock().remove(&owned(labels));
        }
    }

    fn record(&self, histogram: &'static Instrument, labels: &[&str], value: f64) {
        if let Some(made) = self.histograms.get(histogram.name) {
            made.record(value, &self.named(histogram, labels));
        }
    }

    fn change(&self, counter: &'static Instrument, labels: &[&str], by: i64) {
        if let Some(made) = self.up_down_counters.get(counter.name) {
            made.add(by, &self.named(counter, labels));
        }
    }

    fn wants_label(&self, key: &str) -> bool {
        self.optional_labels.contains(key)
    }

    fn bind(&self, instrument: &'static Instrument, labels: &[&str]) -> Option<Box<dyn Bound>> {
        let labels = self.named(instrument, labels).into();
        let counter = self.counters.get(instrument.name).cloned();
        if let Some(counter) = counter {
            return Some(Box::new(BoundCounter(counter, labels)));
        }
        let histogram = self.histograms.get(instrument.name).cloned()?;
        Some(Box::new(BoundHistogram(histogram, labels)))
    }
}

/// A counter with labels.
struct BoundCounter(Counter<u64>, Box<[KeyValue]>);

/// A histogram with labels.
struct BoundHistogram(Histogram<f64>, Box<[KeyValue]>);

impl Bound for BoundCounter {
    fn add(&self, by: u64) {
        self.0.add(by, &self.1);
    }
}

impl Bound for BoundHistogram {
    fn record(&self, value: f64) {
        self.0.record(value, &self.1);
    }
}

impl GaugeValues {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Vec<String>, i64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn owned(labels: &[&str]) -> Vec<String> {
    labels.iter().map(|&label| label.to_owned()).collect()
}

fn pairs(keys: impl Iterator<Item = &'static str>, labels: &[&str]) -> Vec<KeyValue> {
    keys.zip(labels)
        .map(|(key, &value)| KeyValue::new(key, value.to_owned()))
        .collect()
}

impl fmt::Debug for OpenTelemetryRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenTelemetryRecorder")
            .field("gauges", &self.gauges)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for BoundCounter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("BoundCounter").field(&self.1).finish()
    }
}

impl fmt::Debug for BoundHistogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("BoundHistogram").field(&self.1).finish()
    }
}
