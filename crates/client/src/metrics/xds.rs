//! Instruments of xDS clients (gRFC A78), and of the checks of fields.

use super::instrument::{Instrument, InstrumentKind, TARGET};

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
    optional_labels: &[],
    boundaries: &[],
};

/// Number of times that a server became unreachable.
pub static SERVER_FAILURE: Instrument = Instrument {
    name: "grpc.xds_client.server_failure",
    kind: InstrumentKind::Counter,
    unit: "{failure}",
    description: "A counter of xDS servers going from healthy to unhealthy",
    labels: &[TARGET, SERVER],
    optional_labels: &[],
    boundaries: &[],
};

/// Number of valid resources received, including unchanged ones.
pub static RESOURCE_UPDATES_VALID: Instrument = Instrument {
    name: "grpc.xds_client.resource_updates_valid",
    kind: InstrumentKind::Counter,
    unit: "{resource}",
    description: "A counter of resources received that were considered valid, even if they had not changed",
    labels: &[TARGET, SERVER, TYPE],
    optional_labels: &[],
    boundaries: &[],
};

/// Number of invalid resources received.
pub static RESOURCE_UPDATES_INVALID: Instrument = Instrument {
    name: "grpc.xds_client.resource_updates_invalid",
    kind: InstrumentKind::Counter,
    unit: "{resource}",
    description: "A counter of resources received that were considered invalid",
    labels: &[TARGET, SERVER, TYPE],
    optional_labels: &[],
    boundaries: &[],
};

/// Number of watched resources.
pub static RESOURCES: Instrument = Instrument {
    name: "grpc.xds_client.resources",
    kind: InstrumentKind::Gauge,
    unit: "{resource}",
    description: "Number of xDS resources",
    labels: &[TARGET, AUTHORITY, STATE, TYPE],
    optional_labels: &[],
    boundaries: &[],
};

/// Uses of deprecated fields and enum values in received resources that are allowed.
pub static DEPRECATED_FEATURE_USE: Instrument = Instrument {
    name: "oxds.xds_client.deprecated_feature_use",
    kind: InstrumentKind::Counter,
    unit: "{use}",
    description: "A counter of uses of deprecated fields and enum values in received resources",
    labels: &[TYPE],
    optional_labels: &[],
    boundaries: &[],
};

/// Uses of work-in-progress fields, messages and files in received resources.
pub static WIP_PROTOS: Instrument = Instrument {
    name: "oxds.xds_client.wip_protos",
    kind: InstrumentKind::Counter,
    unit: "{use}",
    description: "A counter of uses of work-in-progress fields, messages and files in received resources",
    labels: &[TYPE],
    optional_labels: &[],
    boundaries: &[],
};

/// Unknown fields in received resources that were accepted.
pub static DYNAMIC_UNKNOWN_FIELDS: Instrument = Instrument {
    name: "oxds.xds_client.dynamic_unknown_fields",
    kind: InstrumentKind::Counter,
    unit: "{field}",
    description: "A counter of unknown fields in received resources that were accepted",
    labels: &[TYPE],
    optional_labels: &[],
    boundaries: &[],
};
