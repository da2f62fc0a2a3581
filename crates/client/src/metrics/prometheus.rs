//! Recorder for a registry of the crate `prometheus-client`.

use std::collections::HashMap;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::{INSTRUMENTS, Instrument, InstrumentKind, Recorder};

/// Records into a Prometheus registry.
///
/// Prometheus names have no dots: `grpc.xds_client.connected` becomes `grpc_xds_client_connected`, and `grpc.target` becomes
/// `grpc_target`. Counters end in `_total`. Exporters of OpenTelemetry use the same names.
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
    gauges: HashMap<&'static str, Family<Labels, Gauge>>,
}

type Labels = Vec<(String, String)>;

impl PrometheusRecorder {
    /// Creates the metrics, and registers them.
    #[must_use]
    pub fn register(registry: &mut Registry) -> Self {
        let (mut counters, mut gauges) = (HashMap::new(), HashMap::new());
        for instrument in INSTRUMENTS {
            let name = without_dots(instrument.name);
            match instrument.kind {
                InstrumentKind::Counter => {
                    let family = Family::default();
                    registry.register(name, instrument.description, Family::clone(&family));
                    counters.insert(instrument.name, family);
                }
                InstrumentKind::Gauge => {
                    let family = Family::default();
                    registry.register(name, instrument.description, Family::clone(&family));
                    gauges.insert(instrument.name, family);
                }
            }
        }
        Self { counters, gauges }
    }
}

impl Recorder for PrometheusRecorder {
    fn add(&self, counter: &'static Instrument, labels: &[&str], by: u64) {
        if let Some(family) = self.counters.get(counter.name) {
            family.get_or_create(&named(counter, labels)).inc_by(by);
        }
    }

    fn set(&self, gauge: &'static Instrument, labels: &[&str], value: i64) {
        if let Some(family) = self.gauges.get(gauge.name) {
            family.get_or_create(&named(gauge, labels)).set(value);
        }
    }

    fn end(&self, gauge: &'static Instrument, labels: &[&str]) {
        if let Some(family) = self.gauges.get(gauge.name) {
            family.remove(&named(gauge, labels));
        }
    }
}

fn named(instrument: &Instrument, labels: &[&str]) -> Labels {
    let keys = instrument.labels.iter().map(|key| without_dots(key));
    let values = labels.iter().map(|&value| value.to_owned());
    keys.zip(values).collect()
}

fn without_dots(name: &str) -> String {
    name.replace('.', "_")
}
