//! Metrics of clients, with the names of gRFC A78.
//!
//! ```text
//!  ClientPool ─► clients ─► dyn Recorder ──┬─► PrometheusRecorder   (feature `prometheus`)
//!  with_recorder              names, kinds ├─► OpenTelemetryRecorder (feature `opentelemetry`)
//!                             labels       └─► the application's own
//! ```
//! Metrics are recorded only for pools with a recorder. `grpc.target` is the target under which the pool created the client.
//!
//! | instrument | kind | unit | labels |
//! |---|---|---|---|
//! | `grpc.xds_client.connected` | gauge | `{bool}` | `grpc.target`, `grpc.xds.server` |
//! | `grpc.xds_client.server_failure` | counter | `{failure}` | the same |
//! | `grpc.xds_client.resource_updates_valid` | counter | `{resource}` | the same, `grpc.xds.resource_type` |
//! | `grpc.xds_client.resource_updates_invalid` | counter | `{resource}` | the same |
//! | `grpc.xds_client.resources` | gauge | `{resource}` | `grpc.target`, `grpc.xds.authority`, `grpc.xds.cache_state`, `grpc.xds.resource_type` |
//! | `oxds.xds_client.deprecated_feature_use` | counter | `{use}` | `grpc.xds.resource_type` |
//! | `oxds.xds_client.wip_protos` | counter | `{use}` | the same |
//! | `oxds.xds_client.dynamic_unknown_fields` | counter | `{field}` | the same |
//!
//! The last three are recorded by the checks of the feature `lifecycle` (`FieldChecks::with_recorder`), and their meaning is that of
//! Envoy's `runtime.deprecated_feature_use`, `server.wip_protos` and `server.dynamic_unknown_fields`. gRFC A78 has the others.

#[cfg(feature = "opentelemetry")]
mod opentelemetry;
#[cfg(feature = "prometheus")]
mod prometheus;

use std::fmt;

#[cfg(feature = "opentelemetry")]
pub use self::opentelemetry::OpenTelemetryRecorder;
#[cfg(feature = "prometheus")]
pub use self::prometheus::PrometheusRecorder;

/// Receiver of metrics.
///
/// Clients call it from their tasks, so it must not block. `labels` are the values of [`Instrument::labels`], in their order.
pub trait Recorder: fmt::Debug + Send + Sync + 'static {
    /// Adds `by` to a counter.
    fn add(&self, counter: &'static Instrument, labels: &[&str], by: u64);

    /// Sets the value of a gauge.
    fn set(&self, gauge: &'static Instrument, labels: &[&str], value: i64);

    /// Removes the value of a gauge: the server or resources that it describes are gone.
    fn end(&self, gauge: &'static Instrument, labels: &[&str]);
}

/// Description of a metric.
#[derive(Debug, PartialEq, Eq)]
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
}

/// Kind of an instrument.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum InstrumentKind {
    /// A sum that only grows.
    Counter,
    /// A current value.
    Gauge,
}

const TARGET: &str = "grpc.target";
const SERVER: &str = "grpc.xds.server";
const AUTHORITY: &str = "grpc.xds.authority";
const STATE: &str = "grpc.xds.cache_state";
const TYPE: &str = "grpc.xds.resource_type";

/// Whether a server answers: 1 or 0.
pub static CONNECTED: Instrument = Instrument {
    name: "grpc.xds_client.connected",
    kind: InstrumentKind::Gauge,
    unit: "{bool}",
    description: "Whether or not the xDS client currently has a working ADS stream to the xDS server",
    labels: &[TARGET, SERVER],
};

/// Number of times that a server became unreachable.
pub static SERVER_FAILURE: Instrument = Instrument {
    name: "grpc.xds_client.server_failure",
    kind: InstrumentKind::Counter,
    unit: "{failure}",
    description: "A counter of xDS servers going from healthy to unhealthy",
    labels: &[TARGET, SERVER],
};

/// Number of valid resources received, including unchanged ones.
pub static RESOURCE_UPDATES_VALID: Instrument = Instrument {
    name: "grpc.xds_client.resource_updates_valid",
    kind: InstrumentKind::Counter,
    unit: "{resource}",
    description: "A counter of resources received that were considered valid, even if they had not changed",
    labels: &[TARGET, SERVER, TYPE],
};

/// Number of invalid resources received.
pub static RESOURCE_UPDATES_INVALID: Instrument = Instrument {
    name: "grpc.xds_client.resource_updates_invalid",
    kind: InstrumentKind::Counter,
    unit: "{resource}",
    description: "A counter of resources received that were considered invalid",
    labels: &[TARGET, SERVER, TYPE],
};

/// Number of watched resources.
pub static RESOURCES: Instrument = Instrument {
    name: "grpc.xds_client.resources",
    kind: InstrumentKind::Gauge,
    unit: "{resource}",
    description: "Number of xDS resources",
    labels: &[TARGET, AUTHORITY, STATE, TYPE],
};

/// Uses of deprecated fields and enum values in received resources that are allowed.
pub static DEPRECATED_FEATURE_USE: Instrument = Instrument {
    name: "oxds.xds_client.deprecated_feature_use",
    kind: InstrumentKind::Counter,
    unit: "{use}",
    description: "A counter of uses of deprecated fields and enum values in received resources",
    labels: &[TYPE],
};

/// Uses of work-in-progress fields, messages and files in received resources.
pub static WIP_PROTOS: Instrument = Instrument {
    name: "oxds.xds_client.wip_protos",
    kind: InstrumentKind::Counter,
    unit: "{use}",
    description: "A counter of uses of work-in-progress fields, messages and files in received resources",
    labels: &[TYPE],
};

/// Unknown fields in received resources that were accepted.
pub static DYNAMIC_UNKNOWN_FIELDS: Instrument = Instrument {
    name: "oxds.xds_client.dynamic_unknown_fields",
    kind: InstrumentKind::Counter,
    unit: "{field}",
    description: "A counter of unknown fields in received resources that were accepted",
    labels: &[TYPE],
};

/// All instruments that clients record.
pub static INSTRUMENTS: [&Instrument; 8] = [
    &CONNECTED,
    &SERVER_FAILURE,
    &RESOURCE_UPDATES_VALID,
    &RESOURCE_UPDATES_INVALID,
    &RESOURCES,
    &DEPRECATED_FEATURE_USE,
    &WIP_PROTOS,
    &DYNAMIC_UNKNOWN_FIELDS,
];
