//! mTLS between services (gRFC A29, A65) with real peers: C-256, C-257, C-259. Our channel calls xDS-enabled servers of
//! grpc-go and C-core; their clients and Envoy call `XdsServer`.
//!
//! ```text
//!   files ─► provider ─► client ════ mTLS ════► server ◄─ provider ◄─ files
//!                          ▲                      ▲
//!             clusters, endpoints                 │ listeners, RBAC
//!                          └───── oxds serve ─────┘
//! ```

mod envoy;
mod faults;
mod grpc;
mod world;

use super::{SETTLED, SOON, Scenario, only_at};

pub(super) fn scenarios() -> Vec<Scenario> {
    let mut all = grpc::scenarios();
    all.extend(envoy::scenarios());
    all
}
