//! Instruments of the RPCs that a server gets (gRFC A66).

use super::call::{LATENCY, METHOD, SIZE, STATUS};
use super::instrument::{Instrument, InstrumentKind};

/// Number of RPCs that were started.
pub static SERVER_CALL_STARTED: Instrument = Instrument {
    name: "grpc.server.call.started",
    kind: InstrumentKind::Counter,
    unit: "{call}",
    description: "Number of RPCs started at the server, including those that have not completed",
    labels: &[METHOD],
    optional_labels: &[],
    boundaries: &[],
};

/// Time from the headers of an RPC to its status, in seconds.
pub static SERVER_CALL_DURATION: Instrument = Instrument {
    name: "grpc.server.call.duration",
    kind: InstrumentKind::Histogram,
    unit: "s",
    description: "Time from the headers of an RPC until the server sends its status",
    labels: &[METHOD, STATUS],
    optional_labels: &[],
    boundaries: &LATENCY,
};

/// Bytes of the response messages of an RPC, without any framing.
pub static SERVER_CALL_SENT_SIZE: Instrument = Instrument {
    name: "grpc.server.call.sent_total_compressed_message_size",
    kind: InstrumentKind::Histogram,
    unit: "By",
    description: "Compressed message bytes sent per RPC, without framing and metadata",
    labels: &[METHOD, STATUS],
    optional_labels: &[],
    boundaries: &SIZE,
};

/// Bytes of the request messages of an RPC, without any framing.
pub static SERVER_CALL_RECEIVED_SIZE: Instrument = Instrument {
    name: "grpc.server.call.rcvd_total_compressed_message_size",
    kind: InstrumentKind::Histogram,
    unit: "By",
    description: "Compressed message bytes received per RPC, without framing and metadata",
    labels: &[METHOD, STATUS],
    optional_labels: &[],
    boundaries: &SIZE,
};
