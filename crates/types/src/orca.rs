//! ORCA load reports of backends (`xds/data/orca/v3/orca_load_report.proto`). `envoy-types` does not have the message.

use std::collections::HashMap;

use envoy_types::pb::google::protobuf::Duration;
use prost::Message;

/// Name of the trailer with the [`OrcaLoadReport`] of an RPC, base64-encoded like all binary metadata (gRFC A51).
pub const TRAILER: &str = "endpoint-load-metrics-bin";

/// Path of the method that streams reports out of band (`xds/service/orca/v3/orca.proto`, gRFC A51).
pub const STREAM_METHOD: &str = "/xds.service.orca.v3.OpenRcaService/StreamCoreMetrics";

/// Request of [`STREAM_METHOD`].
#[derive(Clone, PartialEq, Message)]
pub struct OrcaLoadReportRequest {
    /// Time between two reports. Servers may have a longer minimum.
    #[prost(message, optional, tag = "1")]
    pub report_interval: Option<Duration>,
    /// Names of request costs, which servers may ignore.
    #[prost(string, repeated, tag = "2")]
    pub request_cost_names: Vec<String>,
}

/// Load of a backend, at the end of one RPC or out of band.
#[derive(Clone, PartialEq, Message)]
pub struct OrcaLoadReport {
    /// Share of the CPUs in use. It may exceed 1 if bursting is allowed.
    #[prost(double, tag = "1")]
    pub cpu_utilization: f64,
    /// Share of the memory in use, from 0 to 1.
    #[prost(double, tag = "2")]
    pub mem_utilization: f64,
    /// Costs of this RPC, by name of the cost.
    #[prost(map = "string, double", tag = "4")]
    pub request_cost: HashMap<String, f64>,
    /// Shares of other resources in use, from 0 to 1, by name.
    #[prost(map = "string, double", tag = "5")]
    pub utilization: HashMap<String, f64>,
    /// Requests per second that the backend serves.
    #[prost(double, tag = "6")]
    pub rps_fractional: f64,
    /// Errors per second of the backend.
    #[prost(double, tag = "7")]
    pub eps: f64,
    /// Custom metrics of the application, by name.
    #[prost(map = "string, double", tag = "8")]
    pub named_metrics: HashMap<String, f64>,
    /// Share of the capacity in use, as computed by the application. It may exceed 1.
    #[prost(double, tag = "9")]
    pub application_utilization: f64,
}
