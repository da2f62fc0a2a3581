//! Receiver of metrics, and series of it that are written often.

use std::fmt;
use std::sync::Arc;

use super::instrument::Instrument;

/// Receiver of metrics.
///
/// Clients and channels call it from their tasks and from those of RPCs, so it must not block. `labels` are the values
/// of [`Instrument::labels`], then of those [`Instrument::optional_labels`] that it [wants](Self::wants_label), in
/// their order.
pub trait Recorder: fmt::Debug + Send + Sync + 'static {
    /// Adds `by` to a counter.
    fn add(&self, counter: &'static Instrument, labels: &[&str], by: u64);

    /// Sets the value of a gauge.
    fn set(&self, gauge: &'static Instrument, labels: &[&str], value: i64);

    /// Removes the value of a gauge: the server or resources that it describes are gone.
    fn end(&self, gauge: &'static Instrument, labels: &[&str]);

    /// Adds a value to a histogram. By default it is ignored.
    fn record(&self, histogram: &'static Instrument, labels: &[&str], value: f64) {
        let _ = (histogram, labels, value);
    }

    /// Adds `by`, which may be negative, to an up-down counter. By default it is ignored.
    fn change(&self, counter: &'static Instrument, labels: &[&str], by: i64) {
        let _ = (counter, labels, by);
    }

    /// Returns whether an optional label is recorded. Must always return the same for the same key. By default no label
    /// is, as in gRPC (gRFC A79).
    fn wants_label(&self, key: &str) -> bool {
        let _ = key;
        false
    }

    /// Returns a series of a counter or histogram, so that the labels of measurements of RPCs need not be looked up
    /// each time. By default it returns `None`, and each measurement is given with its labels.
    fn bind(&self, instrument: &'static Instrument, labels: &[&str]) -> Option<Box<dyn Bound>> {
        let _ = (instrument, labels);
        None
    }
}

/// A series of a recorder: one instrument with the values of its labels. RPCs call it, so it must not block.
pub trait Bound: fmt::Debug + Send + Sync + 'static {
    /// Adds `by` to a counter.
    fn add(&self, by: u64) {
        let _ = by;
    }

    /// Adds a value to a histogram.
    fn record(&self, value: f64) {
        let _ = value;
    }
}

/// A series of any recorder, bound if the recorder can do it.
#[derive(Debug)]
pub struct Series(Inner);

#[derive(Debug)]
enum Inner {
    Bound(Box<dyn Bound>),
    Labelled {
        recorder: Arc<dyn Recorder>,
        instrument: &'static Instrument,
        labels: Box<[Box<str>]>,
    },
}

impl Series {
    /// Returns the series of a counter or histogram with these labels.
    #[must_use]
    pub fn new(
        recorder: &Arc<dyn Recorder>,
        instrument: &'static Instrument,
        labels: &[&str],
    ) -> Self {
        Self(match recorder.bind(instrument, labels) {
            Some(bound) => Inner::Bound(bound),
            None => Inner::Labelled {
                recorder: Arc::clone(recorder),
                instrument,
                labels: labels.iter().map(|&label| label.into()).collect(),
            },
        })
    }

    /// Adds `by` to a counter.
    pub fn add(&self, by: u64) {
        match &self.0 {
            Inner::Bound(bound) => bound.add(by),
            Inner::Labelled {
                recorder,
                instrument,
                labels,
            } => recorder.add(instrument, &texts(labels), by),
        }
    }

    /// Adds a value to a histogram.
    pub fn record(&self, value: f64) {
        match &self.0 {
            Inner::Bound(bound) => bound.record(value),
            Inner::Labelled {
                recorder,
                instrument,
                labels,
            } => recorder.record(instrument, &texts(labels), value),
        }
    }
}

fn texts(labels: &[Box<str>]) -> Vec<&str> {
    labels.iter().map(|label| &**label).collect()
}
