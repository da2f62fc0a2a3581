//! Metrics of clients, channels and servers, with the names of gRFC A66, A78, A91, A94 and A96.
//!
//! ```text
//!  ClientPool ─► clients ──┐
//!  with_recorder           ├─► dyn Recorder ──┬─► PrometheusRecorder   (feature `prometheus`)
//!       └─────► channels ──┘   names, kinds   ├─► OpenTelemetryRecorder (feature `opentelemetry`)
//!                              labels         └─► the application's own
//! ```
//! Metrics are recorded only for pools with a recorder. `grpc.target` is the target under which the pool created the
//! client, or of the channel. [`docs/metrics.md`] describes every metric with its labels; [`INSTRUMENTS`] lists them.
//!
//! | instruments | recorded by |
//! |---|---|
//! | `grpc.xds_client.*` | xDS clients (gRFC A78) |
//! | `grpc.client.call.*`, `grpc.client.attempt.*` | channels, for RPCs and their attempts (gRFC A66, A96) |
//! | `grpc.server.call.*` | servers, for RPCs (gRFC A66) |
//! | `grpc.lb.*` | load-balancing policies of channels (gRFC A78, A91) |
//! | `grpc.subchannel.*` | connections of channels (gRFC A94) |
//! | `oxds.xds_client.*` | the checks of the feature `lifecycle` (`FieldChecks::with_recorder`) |
//!
//! The last ones have the meaning of Envoy's `runtime.deprecated_feature_use`, `server.wip_protos` and
//! `server.dynamic_unknown_fields`.
//!
//! Labels that a gRFC calls optional are recorded only if the recorder [wants](Recorder::wants_label) them: see
//! `with_optional_labels` of the recorders.
//!
//! [`docs/metrics.md`]: https://github.com/oxds/oxds/blob/main/docs/metrics.md

mod balancing;
mod call;
mod instrument;
mod messages;
#[cfg(feature = "opentelemetry")]
mod opentelemetry;
#[cfg(feature = "prometheus")]
mod prometheus;
mod recorder;
mod series;
mod server;
mod xds;

/// The API of the meters that [`OpenTelemetryRecorder`] takes.
#[cfg(feature = "opentelemetry")]
pub use ::opentelemetry as opentelemetry_api;
#[cfg(feature = "prometheus")]
pub use ::prometheus_client;

#[cfg(feature = "opentelemetry")]
pub use self::opentelemetry::OpenTelemetryRecorder;
#[cfg(feature = "prometheus")]
pub use self::prometheus::PrometheusRecorder;
pub use balancing::{
    EJECTIONS_ENFORCED, EJECTIONS_UNENFORCED, PICK_FIRST_DISCONNECTIONS, PICK_FIRST_FAILED,
    PICK_FIRST_SUCCEEDED, SUBCHANNEL_DISCONNECTIONS, SUBCHANNEL_FAILED, SUBCHANNEL_OPEN,
    SUBCHANNEL_SUCCEEDED, WRR_FALLBACK, WRR_NOT_YET_USABLE, WRR_STALE, WRR_WEIGHTS,
};
pub use call::{
    ATTEMPT_DURATION, ATTEMPT_RECEIVED_SIZE, ATTEMPT_SENT_SIZE, ATTEMPT_STARTED, CALL_DURATION,
    CALL_RETRIES, CALL_RETRY_DELAY, CALL_TRANSPARENT_RETRIES,
};
pub use instrument::{BACKEND_SERVICE, Instrument, InstrumentKind, LOCALITY};
pub use messages::MessageBytes;
pub use recorder::{Bound, Recorder, Series};
pub use series::{ByCode, ByName, LazySeries};
pub use server::{
    SERVER_CALL_DURATION, SERVER_CALL_RECEIVED_SIZE, SERVER_CALL_SENT_SIZE, SERVER_CALL_STARTED,
};
pub use xds::{
    CONNECTED, DEPRECATED_FEATURE_USE, DYNAMIC_UNKNOWN_FIELDS, RESOURCE_UPDATES_INVALID,
    RESOURCE_UPDATES_VALID, RESOURCES, SERVER_FAILURE, WIP_PROTOS,
};

/// All instruments.
pub static INSTRUMENTS: [&Instrument; 33] = [
    &CONNECTED,
    &SERVER_FAILURE,
    &RESOURCE_UPDATES_VALID,
    &RESOURCE_UPDATES_INVALID,
    &RESOURCES,
    &DEPRECATED_FEATURE_USE,
    &WIP_PROTOS,
    &DYNAMIC_UNKNOWN_FIELDS,
    &CALL_DURATION,
    &ATTEMPT_STARTED,
    &ATTEMPT_DURATION,
    &ATTEMPT_SENT_SIZE,
    &ATTEMPT_RECEIVED_SIZE,
    &CALL_RETRIES,
    &CALL_TRANSPARENT_RETRIES,
    &CALL_RETRY_DELAY,
    &WRR_FALLBACK,
    &WRR_NOT_YET_USABLE,
    &WRR_STALE,
    &WRR_WEIGHTS,
    &PICK_FIRST_DISCONNECTIONS,
    &PICK_FIRST_SUCCEEDED,
    &PICK_FIRST_FAILED,
    &SUBCHANNEL_DISCONNECTIONS,
    &SUBCHANNEL_SUCCEEDED,
    &SUBCHANNEL_FAILED,
    &SUBCHANNEL_OPEN,
    &EJECTIONS_ENFORCED,
    &EJECTIONS_UNENFORCED,
    &SERVER_CALL_STARTED,
    &SERVER_CALL_DURATION,
    &SERVER_CALL_SENT_SIZE,
    &SERVER_CALL_RECEIVED_SIZE,
];
