//! Recorder for OpenTelemetry.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use opentelemetry::KeyValue;
use opentelemetry::metrics::{AsyncInstrument, Counter, Meter};

use super::{INSTRUMENTS, Instrument, InstrumentKind, Recorder};

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
    /// Observable gauges: the SDK reads them when it collects. Unlike a plain gauge, such a gauge can stop to report a value.
    gauges: HashMap<&'static str, Arc<Series>>,
}

/// Values of a gauge, by their labels.
#[derive(Debug, Default)]
struct Series(Mutex<BTreeMap<Vec<String>, i64>>);

impl OpenTelemetryRecorder {
    /// Creates the instruments of a meter.
    #[must_use]
    pub fn new(meter: &Meter) -> Self {
        let (mut counters, mut gauges) = (HashMap::new(), HashMap::new());
        for instrument in INSTRUMENTS {
            match instrument.kind {
                InstrumentKind::Counter => {
                    let counter = meter
                        .u64_counter(instrument.name)
                        .with_unit(instrument.unit)
                        .with_description(instrument.description);
                    counters.insert(instrument.name, counter.build());
                }
                InstrumentKind::Gauge => {
                    let series = Arc::new(Series::default());
                    // The SDK never drops callbacks, so the callback must not keep the values alive.
                    let observed = Arc::downgrade(&series);
                    // The handle of the gauge is not needed: the callback stays registered.
                    let _ = meter
                        .i64_observable_gauge(instrument.name)
                        .with_unit(instrument.unit)
                        .with_description(instrument.description)
                        .with_callback(move |observer| observe(&observed, instrument, observer))
                        .build();
                    gauges.insert(instrument.name, series);
                }
            }
        }
        Self { counters, gauges }
    }
}

fn observe(series: &Weak<Series>, gauge: &Instrument, observer: &dyn AsyncInstrument<i64>) {
    let Some(series) = series.upgrade() else {
        return;
    };
    for (labels, value) in series.lock().iter() {
        let labels: Vec<_> = labels.iter().map(String::as_str).collect();
        observer.observe(*value, &named(gauge, &labels));
    }
}

impl Recorder for OpenTelemetryRecorder {
    fn add(&self, counter: &'static Instrument, labels: &[&str], by: u64) {
        if let Some(made) = self.counters.get(counter.name) {
            made.add(by, &named(counter, labels));
        }
    }

    fn set(&self, gauge: &'static Instrument, labels: &[&str], value: i64) {
        if let Some(series) = self.gauges.get(gauge.name) {
            series.lock().insert(owned(labels), value);
        }
    }

    fn end(&self, gauge: &'static Instrument, labels: &[&str]) {
        if let Some(series) = self.gauges.get(gauge.name) {
            series.lock().remove(&owned(labels));
        }
    }
}

impl Series {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Vec<String>, i64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn owned(labels: &[&str]) -> Vec<String> {
    labels.iter().map(|&label| label.to_owned()).collect()
}

fn named(instrument: &Instrument, labels: &[&str]) -> Vec<KeyValue> {
    let pairs = instrument.labels.iter().zip(labels);
    pairs
        .map(|(&key, &value)| KeyValue::new(key, value.to_owned()))
        .collect()
}

impl fmt::Debug for OpenTelemetryRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenTelemetryRecorder")
            .field("gauges", &self.gauges)
            .finish_non_exhaustive()
    }
}
