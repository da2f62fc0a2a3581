//! A gRPC backend and scripted configurations, for tests, demonstrations and benchmarks.
//!
//! - [`EchoBackend`] echoes the messages of any method, names itself in the response header
//!   [`BACKEND_HEADER`], counts its calls, and can be made to delay, fail, drain or crash.
//! - [`Script`] configures a channel without a control plane.
//! - [`call`] makes a unary call without generated code.
//! - [`expect`] has assertions for tests.

mod backend;
mod client;
pub mod expect;
mod script;
mod service;

pub use backend::EchoBackend;
pub use client::{Call, call};
pub use oxds_core::lb::policy::PolicyConfig;
pub use oxds_core::lb::{HealthSet, OutlierConfig};
pub use oxds_core::resource::{Endpoint, Forward, HttpFilter, RouteAction, UpstreamTls};
pub use script::{
    ClusterSpec, LocalitySpec, Resources, Script, aggregate, broken, cluster, config, limited,
};
pub use service::BACKEND_HEADER;
