//! ORCA: what a backend says of itself (`xds/data/orca/v3/orca_load_report.proto`).
//!
//! Declared here because `envoy-types` lacks it.

use std::collections::HashMap;

use prost::Message;

/// The trailer in which a backend sends an [`OrcaLoadReport`] with an RPC's status, base64-encoded as binary metadata is
/// (gRFC A51).
pub const TRAILER: &str = "endpoint-load-metrics-bin";

/// The load of a backend, at the end of one RPC.
#[derive(Clone, PartialEq, Message)]
pub struct OrcaLoadReport {
    /// Share of the processors that is in use; may exceed 1 where bursting is allowed.
    #[prost(double, tag = "1")]
    pub cpu_utilization: f64,
    /// Share of the memory that is in use.
    #[prost(double, tag = "2")]
    pub mem_utilization: f64,
    /// Costs of this RPC, by name.
    #[prost(map = "string, double", tag = "4")]
    pub request_cost: HashMap<String, f64>,
    /// Shares of other resources, by name.
    #[prost(map = "string, double", tag = "5")]
    pub utilization: HashMap<String, f64>,
    /// RPCs per second that the backend serves.
    #[prost(double, tag = "6")]
    pub rps_fractional: f64,
    /// Errors per second.
    #[prost(double, tag = "7")]
    pub eps: f64,
    /// The application's own metrics.
    #[prost(map = "string, double", tag = "8")]
    pub named_metrics: HashMap<String, f64>,
    /// Share of the application's capacity that is in use, as it says.
    #[prost(double, tag = "9")]
    pub application_utilization: f64,
}
