//! Instruments of load-balancing policies and subchannels (gRFC A78, A91, A94).

use super::instrument::{BACKEND_SERVICE, Instrument, InstrumentKind, LOCALITY, TARGET};

const METHOD: &str = "grpc.lb.outlier_detection.detection_method";
const REASON: &str = "grpc.lb.outlier_detection.unenforced_reason";
const DISCONNECT_ERROR: &str = "grpc.disconnect_error";
const SECURITY_LEVEL: &str = "grpc.security_level";

/// Boundaries of weights: OpenTelemetry's default, because gRFC A78 does not define any.
static WEIGHTS: [f64; 15] = [
    0.0, 5.0, 10.0, 25.0, 50.0, 75.0, 100.0, 250.0, 500.0, 750.0, 1000.0, 2500.0, 5000.0, 7500.0,
    10000.0,
];

/// Updates of weighted round robin that had fewer than two weights.
pub static WRR_FALLBACK: Instrument = Instrument {
    name: "grpc.lb.wrr.rr_fallback",
    kind: InstrumentKind::Counter,
    unit: "{update}",
    description: "Number of scheduler updates with too few valid weights, so that round robin was used",
    labels: &[TARGET],
    optional_labels: &[LOCALITY, BACKEND_SERVICE],
    boundaries: &[],
};

/// Endpoints without a report, or in the blackout period, summed over all updates.
pub static WRR_NOT_YET_USABLE: Instrument = Instrument {
    name: "grpc.lb.wrr.endpoint_weight_not_yet_usable",
    kind: InstrumentKind::Counter,
    unit: "{endpoint}",
    description: "Number of endpoints from each scheduler update that do not yet have usable weight information",
    labels: &[TARGET],
    optional_labels: &[LOCALITY, BACKEND_SERVICE],
    boundaries: &[],
};

/// Endpoints whose last report is too old, summed over all updates.
pub static WRR_STALE: Instrument = Instrument {
    name: "grpc.lb.wrr.endpoint_weight_stale",
    kind: InstrumentKind::Counter,
    unit: "{endpoint}",
    description: "Number of endpoints from each scheduler update whose latest weight is older than the expiration period",
    labels: &[TARGET],
    optional_labels: &[LOCALITY, BACKEND_SERVICE],
    boundaries: &[],
};

/// Weight of each ready endpoint at each update; zero without a usable one.
pub static WRR_WEIGHTS: Instrument = Instrument {
    name: "grpc.lb.wrr.endpoint_weights",
    kind: InstrumentKind::Histogram,
    unit: "{weight}",
    description: "Weight of each endpoint, recorded on every scheduler update",
    labels: &[TARGET],
    optional_labels: &[LOCALITY, BACKEND_SERVICE],
    boundaries: &WEIGHTS,
};

/// Lost connections, as each channel sees them.
pub static PICK_FIRST_DISCONNECTIONS: Instrument = Instrument {
    name: "grpc.lb.pick_first.disconnections",
    kind: InstrumentKind::Counter,
    unit: "{disconnection}",
    description: "Number of times the selected subchannel becomes disconnected",
    labels: &[TARGET],
    optional_labels: &[],
    boundaries: &[],
};

/// Successful connection attempts, as each channel sees them.
pub static PICK_FIRST_SUCCEEDED: Instrument = Instrument {
    name: "grpc.lb.pick_first.connection_attempts_succeeded",
    kind: InstrumentKind::Counter,
    unit: "{attempt}",
    description: "Number of successful connection attempts",
    labels: &[TARGET],
    optional_labels: &[],
    boundaries: &[],
};

/// Failed connection attempts, as each channel sees them.
pub static PICK_FIRST_FAILED: Instrument = Instrument {
    name: "grpc.lb.pick_first.connection_attempts_failed",
    kind: InstrumentKind::Counter,
    unit: "{attempt}",
    description: "Number of failed connection attempts",
    labels: &[TARGET],
    optional_labels: &[],
    boundaries: &[],
};

/// Connections that ended or were drained.
pub static SUBCHANNEL_DISCONNECTIONS: Instrument = Instrument {
    name: "grpc.subchannel.disconnections",
    kind: InstrumentKind::Counter,
    unit: "{disconnection}",
    description: "Number of times the selected subchannel becomes disconnected",
    labels: &[TARGET],
    optional_labels: &[BACKEND_SERVICE, LOCALITY, DISCONNECT_ERROR],
    boundaries: &[],
};

/// Successful connection attempts.
pub static SUBCHANNEL_SUCCEEDED: Instrument = Instrument {
    name: "grpc.subchannel.connection_attempts_succeeded",
    kind: InstrumentKind::Counter,
    unit: "{attempt}",
    description: "Number of successful connection attempts",
    labels: &[TARGET],
    optional_labels: &[BACKEND_SERVICE, LOCALITY],
    boundaries: &[],
};

/// Failed connection attempts.
pub static SUBCHANNEL_FAILED: Instrument = Instrument {
    name: "grpc.subchannel.connection_attempts_failed",
    kind: InstrumentKind::Counter,
    unit: "{attempt}",
    description: "Number of failed connection attempts",
    labels: &[TARGET],
    optional_labels: &[BACKEND_SERVICE, LOCALITY],
    boundaries: &[],
};

/// Connections that take requests.
pub static SUBCHANNEL_OPEN: Instrument = Instrument {
    name: "grpc.subchannel.open_connections",
    kind: InstrumentKind::UpDownCounter,
    unit: "{connection}",
    description: "Number of open connections",
    labels: &[TARGET],
    optional_labels: &[SECURITY_LEVEL, BACKEND_SERVICE, LOCALITY],
    boundaries: &[],
};

/// Ejections by outlier detection.
pub static EJECTIONS_ENFORCED: Instrument = Instrument {
    name: "grpc.lb.outlier_detection.ejections_enforced",
    kind: InstrumentKind::Counter,
    unit: "{ejection}",
    description: "Enforced outlier ejections by detection method",
    labels: &[TARGET, METHOD],
    optional_labels: &[BACKEND_SERVICE],
    boundaries: &[],
};

/// Outliers that were not ejected.
pub static EJECTIONS_UNENFORCED: Instrument = Instrument {
    name: "grpc.lb.outlier_detection.ejections_unenforced",
    kind: InstrumentKind::Counter,
    unit: "{ejection}",
    description: "Unenforced outlier ejections by detection method and reason",
    labels: &[TARGET, METHOD, REASON],
    optional_labels: &[BACKEND_SERVICE],
    boundaries: &[],
};
