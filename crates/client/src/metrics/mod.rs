//! What clients count, by the names of gRFC A78, for whatever collects it.
//!
//! ```text
//!  ClientPool ─► clients ─► dyn Recorder ──┬─► PrometheusRecorder   (feature `prometheus`)
//!   recorded_by               names, kinds ├─► OpenTelemetryRecorder (feature `opentelemetry`)
//!                             labels       └─► one's own
//! ```
//! Off unless a pool is given a recorder. A client is recorded under the target that its pool knows it by.
//!
//! | instrument | kind | unit | labels |
//! |---|---|---|---|
//! | `grpc.xds_client.connected` | gauge | `{bool}` | `grpc.target`, `grpc.xds.server` |
//! | `grpc.xds_client.server_failure` | counter | `{failure}` | the same |
//! | `grpc.xds_client.resource_updates_valid` | counter | `{resource}` | the same, `grpc.xds.resource_type` |
//! | `grpc.xds_client.resource_updates_invalid` | counter | `{resource}` | the same |
//! | `grpc.xds_client.resources` | gauge | `{resource}` | `grpc.target`, `grpc.xds.authority`, `grpc.xds.cache_state`, `grpc.xds.resource_type` |

#[cfg(feature = "opentelemetry")]
mod opentelemetry;
#[cfg(feature = "prometheus")]
mod prometheus;

use std::fmt;

#[cfg(feature = "opentelemetry")]
pub use self::opentelemetry::OpenTelemetryRecorder;
#[cfg(feature = "prometheus")]
pub use self::prometheus::PrometheusRecorder;

/// Takes in what clients count.
///
/// It is called from clients' tasks, so it must not wait. Labels are the values of [`Instrument::labels`], in their
/// order.
pub trait Recorder: fmt::Debug + Send + Sync + 'static {
    /// Adds to a counter.
    fn add(&self, counter: &'static Instrument, labels: &[&str], by: u64);

    /// Sets a gauge.
    fn set(&self, gauge: &'static Instrument, labels: &[&str], value: i64);

    /// A gauge has no value any more: what it told of is gone.
    fn end(&self, gauge: &'static Instrument, labels: &[&str]);
}

/// Something that is counted or measured.
#[derive(Debug, PartialEq, Eq)]
pub struct Instrument {
    /// As OpenTelemetry has it.
    pub name: &'static str,
    /// What its values mean.
    pub resource_type: InstrumentKind,
    /// As UCUM has it.
    pub unit: &'static str,
    /// In a sentence.
    pub description: &'static str,
    /// The keys of its labels.
    pub labels: &'static [&'static str],
}

/// What the values of an instrument mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum InstrumentKind {
    /// They add up.
    Counter,
    /// The last one counts.
    Gauge,
}

const TARGET: &str = "grpc.target";
const SERVER: &str = "grpc.xds.server";
const AUTHORITY: &str = "grpc.xds.authority";
const STATE: &str = "grpc.xds.cache_state";
const TYPE: &str = "grpc.xds.resource_type";

/// Whether a server answers.
pub static CONNECTED: Instrument = Instrument {
    name: "grpc.xds_client.connected",
    resource_type: InstrumentKind::Gauge,
    unit: "{bool}",
    description: "Whether or not the xDS client currently has a working ADS stream to the xDS server",
    labels: &[TARGET, SERVER],
};

/// How often a server stopped answering.
pub static SERVER_FAILURE: Instrument = Instrument {
    name: "grpc.xds_client.server_failure",
    resource_type: InstrumentKind::Counter,
    unit: "{failure}",
    description: "A counter of xDS servers going from healthy to unhealthy",
    labels: &[TARGET, SERVER],
};

/// Valid resources that came, unchanged ones included.
pub static RESOURCE_UPDATES_VALID: Instrument = Instrument {
    name: "grpc.xds_client.resource_updates_valid",
    resource_type: InstrumentKind::Counter,
    unit: "{resource}",
    description: "A counter of resources received that were considered valid, even if they had not changed",
    labels: &[TARGET, SERVER, TYPE],
};

/// Invalid resources that came.
pub static RESOURCE_UPDATES_INVALID: Instrument = Instrument {
    name: "grpc.xds_client.resource_updates_invalid",
    resource_type: InstrumentKind::Counter,
    unit: "{resource}",
    description: "A counter of resources received that were considered invalid",
    labels: &[TARGET, SERVER, TYPE],
};

/// Watched resources.
pub static RESOURCES: Instrument = Instrument {
    name: "grpc.xds_client.resources",
    resource_type: InstrumentKind::Gauge,
    unit: "{resource}",
    description: "Number of xDS resources",
    labels: &[TARGET, AUTHORITY, STATE, TYPE],
};

/// All that clients record.
pub static INSTRUMENTS: [&Instrument; 5] = [
    &CONNECTED,
    &SERVER_FAILURE,
    &RESOURCE_UPDATES_VALID,
    &RESOURCE_UPDATES_INVALID,
    &RESOURCES,
];
