//! Admin HTTP: the HTTP port for operators and tools.
//!
//! | path | content |
//! |---|---|
//! | `/`, `/clients`, `/resources`, `/graph`, `/history` | the status page, with the feature `page` |
//! | `/metrics` | counters, for Prometheus |
//! | `/healthz` | 200 while the process responds |
//! | `/readyz` | 200 from the first load until a shutdown begins, else 503 |
//! | `/status.json` | clients, their resources and NACKs, store errors: see `docs/status-json.md` |
//! | `/history.json` | the latest changes, and how far the clients are with each |
//! | `/deprecations.json` | deprecated fields that resources use, by file and line, and the clients that have them |
//! | `/runtime` | keys of the runtime, their layers and readers |
//! | `/runtime_modify` | POST changes keys, if the runtime has an admin layer: from this machine only |
//! | `/v3/discovery:clusters`, … | REST discovery |
//!
//! `/metrics`, `/healthz` and `/readyz` are open; `access` decides who may read the other pages. `/status.json`,
//! `/history.json`, `/deprecations.json`, `/runtime` and REST discovery are also on the gRPC port, which can
//! authenticate clients: over HTTP/2, and over HTTP/1.1 if a TLS handshake negotiates it.

mod access;
mod deprecations;
mod history;
mod http;
mod long_poll;
#[cfg(feature = "page")]
mod page;
mod runtime;
mod scrape;
mod shared_views;
mod state;
mod status;

pub(crate) use http::{beside_grpc, serve};
pub(crate) use scrape::Scrape;
pub(crate) use shared_views::SharedViews;
pub(crate) use state::Admin;
