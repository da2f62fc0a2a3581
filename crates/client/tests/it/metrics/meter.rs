//! An OpenTelemetry meter that keeps measurements, as an SDK does, and returns them when it collects.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use opentelemetry::KeyValue;
use opentelemetry::metrics::{
    AsyncInstrument, AsyncInstrumentBuilder, Callback, Counter, Histogram, HistogramBuilder,
    InstrumentBuilder, InstrumentProvider, Meter, ObservableGauge, SyncInstrument, UpDownCounter,
};

/// Instruments and measurements of the meter.
#[derive(Clone, Default)]
pub(super) struct Collected(Arc<Mutex<Measurements>>);

#[derive(Default)]
struct Measurements {
    /// Names and units of the instruments.
    made: Vec<(String, String)>,
    sums: BTreeMap<String, i64>,
    /// Number of values of histograms, and their boundaries.
    counts: BTreeMap<String, (u64, Vec<f64>)>,
    gauges: Vec<(String, Callback<i64>)>,
}

impl Collected {
    pub(super) fn meter(&self) -> Meter {
        Meter::new(Arc::new(self.clone()))
    }

    /// Series of histograms, with the number of their values and their boundaries.
    pub(super) fn histograms(&self) -> BTreeMap<String, (u64, Vec<f64>)> {
        self.0.lock().unwrap().counts.clone()
    }

    pub(super) fn made(&self) -> Vec<(String, String)> {
        self.0.lock().unwrap().made.clone()
    }

    /// Lines as `name{key="value",…} number`: sums so far, and the current values of gauges.
    pub(super) fn lines(&self) -> Vec<String> {
        let state = self.0.lock().unwrap();
        let sums = state.sums.iter();
        let mut lines: Vec<_> = sums.map(|(name, sum)| format!("{name} {sum}")).collect();
        for (name, callback) in &state.gauges {
            let observed = Observed(name.clone(), Mutex::default());
            callback(&observed);
            lines.extend(observed.1.into_inner().unwrap());
        }
        lines.sort();
        lines
    }

    fn make<T>(&self, builder: &InstrumentBuilder<'_, T>) -> String {
        let unit = builder.unit.as_deref().unwrap_or_default();
        self.declare(&builder.name, unit)
    }

    fn declare(&self, name: &str, unit: &str) -> String {
        let made = &mut self.0.lock().unwrap().made;
        made.push((name.to_owned(), unit.to_owned()));
        name.to_owned()
    }
}

impl InstrumentProvider for Collected {
    fn u64_counter(&self, builder: InstrumentBuilder<'_, Counter<u64>>) -> Counter<u64> {
        let name = self.make(&builder);
        Counter::new(Arc::new(Sum(name, self.clone())))
    }

    fn i64_up_down_counter(
        &self,
        builder: InstrumentBuilder<'_, UpDownCounter<i64>>,
    ) -> UpDownCounter<i64> {
        let name = self.make(&builder);
        UpDownCounter::new(Arc::new(Sum(name, self.clone())))
    }

    fn f64_histogram(&self, builder: HistogramBuilder<'_, Histogram<f64>>) -> Histogram<f64> {
        let unit = builder.unit.as_deref().unwrap_or_default();
        let name = self.declare(&builder.name, unit);
        let boundaries = builder.boundaries.unwrap_or_default();
        Histogram::new(Arc::new(Values(name, boundaries, self.clone())))
    }

    fn i64_observable_gauge(
        &self,
        builder: AsyncInstrumentBuilder<'_, ObservableGauge<i64>, i64>,
    ) -> ObservableGauge<i64> {
        let name = self.declare(&builder.name, builder.unit.as_deref().unwrap_or_default());
        let gauges = &mut self.0.lock().unwrap().gauges;
        gauges.extend(
            builder
                .callbacks
                .into_iter()
                .map(|callback| (name.clone(), callback)),
        );
        ObservableGauge::new()
    }
}

struct Sum(String, Collected);

impl SyncInstrument<u64> for Sum {
    fn measure(&self, by: u64, labels: &[KeyValue]) {
        self.measure(i64::try_from(by).unwrap(), labels);
    }
}

impl SyncInstrument<i64> for Sum {
    fn measure(&self, by: i64, labels: &[KeyValue]) {
        let mut state = self.1.0.lock().unwrap();
        *state.sums.entry(series(&self.0, labels)).or_default() += by;
    }
}

/// A histogram: its name and its boundaries.
struct Values(String, Vec<f64>, Collected);

impl SyncInstrument<f64> for Values {
    fn measure(&self, _value: f64, labels: &[KeyValue]) {
        let mut state = self.2.0.lock().unwrap();
        let new = || (0, self.1.clone());
        let counts = state.counts.entry(series(&self.0, labels));
        counts.or_insert_with(new).0 += 1;
    }
}

struct Observed(String, Mutex<Vec<String>>);

impl AsyncInstrument<i64> for Observed {
    fn observe(&self, value: i64, labels: &[KeyValue]) {
        let line = format!("{} {value}", series(&self.0, labels));
        self.1.lock().unwrap().push(line);
    }
}

fn series(name: &str, labels: &[KeyValue]) -> String {
    let labels = labels
        .iter()
        .map(|label| format!("{}={:?}", label.key, label.value.as_str()));
    format!("{name}{{{}}}", labels.collect::<Vec<_>>().join(","))
}
