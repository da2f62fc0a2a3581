//! Instruments of RPCs and their attempts (gRFC A66, A96).

use super::instrument::{BACKEND_SERVICE, Instrument, InstrumentKind, LOCALITY, TARGET};

pub(super) const METHOD: &str = "grpc.method";
pub(super) const STATUS: &str = "grpc.status";

/// Boundaries of latencies, in seconds (gRFC A66).
pub(super) static LATENCY: [f64; 41] = [
    0.0, 0.00001, 0.00005, 0.0001, 0.0003, 0.0006, 0.0008, 0.001, 0.002, 0.003, 0.004, 0.005,
    0.006, 0.008, 0.01, 0.013, 0.016, 0.02, 0.025, 0.03, 0.04, 0.05, 0.065, 0.08, 0.1, 0.13, 0.16,
    0.2, 0.25, 0.3, 0.4, 0.5, 0.65, 0.8, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0,
];

/// Boundaries of sizes, in bytes (gRFC A66).
pub(super) static SIZE: [f64; 14] = [
    0.0,
    1024.0,
    2048.0,
    4096.0,
    16384.0,
    65536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
    268_435_456.0,
    1_073_741_824.0,
    4_294_967_296.0,
];

/// Time from the start of an RPC to its status, in seconds.
pub static CALL_DURATION: Instrument = Instrument {
    name: "grpc.client.call.duration",
    kind: InstrumentKind::Histogram,
    unit: "s",
    description: "Time from the start of an RPC until the application gets its status",
    labels: &[METHOD, TARGET, STATUS],
    optional_labels: &[],
    boundaries: &LATENCY,
};

/// Number of attempts that were started.
pub static ATTEMPT_STARTED: Instrument = Instrument {
    name: "grpc.client.attempt.started",
    kind: InstrumentKind::Counter,
    unit: "{attempt}",
    description: "Number of RPC attempts started, including those that have not completed",
    labels: &[METHOD, TARGET],
    optional_labels: &[],
    boundaries: &[],
};

/// Time of an attempt, in seconds, with the choice of an endpoint.
pub static ATTEMPT_DURATION: Instrument = Instrument {
    name: "grpc.client.attempt.duration",
    kind: InstrumentKind::Histogram,
    unit: "s",
    description: "Time of an RPC attempt, including the choice of a subchannel",
    labels: &[METHOD, TARGET, STATUS],
    optional_labels: &[LOCALITY, BACKEND_SERVICE],
    boundaries: &LATENCY,
};

/// Bytes of the request messages of an attempt, without any framing.
pub static ATTEMPT_SENT_SIZE: Instrument = Instrument {
    name: "grpc.client.attempt.sent_total_compressed_message_size",
    kind: InstrumentKind::Histogram,
    unit: "By",
    description: "Compressed message bytes sent per RPC attempt, without framing and metadata",
    labels: &[METHOD, TARGET, STATUS],
    optional_labels: &[LOCALITY, BACKEND_SERVICE],
    boundaries: &SIZE,
};

/// Bytes of the response messages of an attempt, without any framing.
pub static ATTEMPT_RECEIVED_SIZE: Instrument = Instrument {
    name: "grpc.client.attempt.rcvd_total_compressed_message_size",
    kind: InstrumentKind::Histogram,
    unit: "By",
    description: "Compressed message bytes received per RPC attempt, without framing and metadata",
    labels: &[METHOD, TARGET, STATUS],
    optional_labels: &[LOCALITY, BACKEND_SERVICE],
    boundaries: &SIZE,
};

/// Retries by policy of an RPC, if it had one.
pub static CALL_RETRIES: Instrument = Instrument {
    name: "grpc.client.call.retries",
    kind: InstrumentKind::Histogram,
    unit: "{retry}",
    description: "Number of retries during an RPC that had at least one",
    labels: &[METHOD, TARGET],
    optional_labels: &[],
    boundaries: &[1.0, 2.0, 3.0, 4.0, 5.0],
};

/// Transparent retries of an RPC, if it had one.
pub static CALL_TRANSPARENT_RETRIES: Instrument = Instrument {
    name: "grpc.client.call.transparent_retries",
    kind: InstrumentKind::Histogram,
    unit: "{transparent_retry}",
    description: "Number of transparent retries during an RPC that had at least one",
    labels: &[METHOD, TARGET],
    optional_labels: &[],
    boundaries: &[1.0, 2.0, 3.0, 4.0, 5.0, 10.0],
};

/// Time between the attempts of an RPC that was retried, in seconds.
pub static CALL_RETRY_DELAY: Instrument = Instrument {
    name: "grpc.client.call.retry_delay",
    kind: InstrumentKind::Histogram,
    unit: "s",
    description: "Total time without an active attempt during an RPC that was retried",
    labels: &[METHOD, TARGET],
    optional_labels: &[],
    boundaries: &LATENCY,
};
