//! Description of a metric.

/// Target of a channel, such as `xds:///checkout` (gRFC A66).
pub(super) const TARGET: &str = "grpc.target";
/// Locality of an endpoint, as `{region="r", zone="z", sub_zone="s"}` (gRFC A78).
pub const LOCALITY: &str = "grpc.lb.locality";
/// Name of a cluster with endpoints (gRFC A89).
pub const BACKEND_SERVICE: &str = "grpc.lb.backend_service";

/// Description of a metric.
#[derive(Debug, PartialEq)]
#[non_exhaustive]
pub struct Instrument {
    /// Name, in OpenTelemetry's style.
    pub name: &'static str,
    /// Kind of the metric.
    pub kind: InstrumentKind,
    /// Unit, in UCUM notation.
    pub unit: &'static str,
    /// Description of the metric, in a sentence.
    pub description: &'static str,
    /// Keys of its labels.
    pub labels: &'static [&'static str],
    /// Keys of labels that only recorders get that [want them](super::Recorder::wants_label).
    pub optional_labels: &'static [&'static str],
    /// Upper bounds of the buckets of a histogram; empty for other kinds.
    pub boundaries: &'static [f64],
}

/// Kind of an instrument.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum InstrumentKind {
    /// A sum that only grows.
    Counter,
    /// A current value.
    Gauge,
    /// A sum that grows and shrinks.
    UpDownCounter,
    /// A distribution of values.
    Histogram,
}

impl Instrument {
    /// Returns the keys of the labels that a recorder gets which wants these optional ones, in their order.
    pub fn keys(&self, wants: impl Fn(&str) -> bool) -> impl Iterator<Item = &'static str> {
        let optional = self.optional_labels.iter().copied();
        let wanted = optional.filter(move |key| wants(key));
        self.labels.iter().copied().chain(wanted)
    }
}
