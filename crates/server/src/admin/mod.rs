//! The HTTP port: what operators and their tools look at.
//!
//! | path | says |
//! |---|---|
//! | `/metrics` | counters, for Prometheus |
//! | `/healthz` | 200 as long as the process answers |
//! | `/readyz` | 200 once there is something to serve and until a shutdown begins, else 503 |
//! | `/status.json` | clients, what they have and rejected, what is wrong with the store: see `docs/status-json.md` |
//! | `/v3/discovery:clusters`, … | REST discovery, for clients that poll |
//!
//! `/status.json` and REST discovery are on the gRPC port too, which knows its clients: over HTTP/2, and over HTTP/1.1
//! where a TLS handshake agrees to it.

mod http;
mod state;
mod status;

pub(crate) use http::{beside_grpc, serve};
pub(crate) use state::Admin;
