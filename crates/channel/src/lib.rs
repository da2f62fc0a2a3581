//! `xds:///` channels for tonic and tower: service discovery, routing and load balancing from a control
//! plane, without a sidecar.
//!
//! ```text
//!              ┌───────────────────────────── XdsChannel ─────────────────────────────┐
//!   request ──▶│ route ──▶ cluster ──▶ drop? ──▶ priority, locality ──▶ ready endpoint │──▶ backend
//!              │    ▲                                    ▲                             │    (HTTP/2)
//!              └────┼────────────────────────────────────┼─────────────────────────────┘
//!                   │ routing table and pickers, replaced whole
//!              ┌────┴────────────────────────────────────┴───┐     ┌────────────────────────────┐
//!              │ one task: configurations, failover, pickers │◀────│ one subchannel per backend │
//!              └────▲────────────────────────────────────────┘     └────────────────────────────┘
//!                   │ LDS → RDS → CDS → EDS (oxds-client)
//! ```
//!
//! Clients that tonic generated accept it in the place of `tonic::transport::Channel`. Here it is the client of the
//! health service:
//!
//! ```no_run
//! use oxds_channel::XdsChannel;
//! use tonic_health::pb::HealthCheckRequest;
//! use tonic_health::pb::health_client::HealthClient;
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     // The bootstrap is in GRPC_XDS_BOOTSTRAP (a path) or GRPC_XDS_BOOTSTRAP_CONFIG (JSON).
//!     let channel = XdsChannel::builder("xds:///greeter").build()?;
//!     let mut client = HealthClient::new(channel.clone());
//!     let response = client.check(HealthCheckRequest::default()).await?;
//!     println!("{:?}", response.into_inner().status());
//!     println!("{:#?}", channel.status());
//!     Ok(())
//! }
//! ```
//!
//! # Path of an RPC
//!
//! The request path has no lock of its own, no queue and no task: two atomic loads, a walk over compiled
//! routes, thread-local random numbers, and the HTTP/2 connection of the endpoint, into whose buffer the
//! caller's task puts the request. Only a streaming request that is not ready as a whole has a task, which
//! sends it whether the caller waits for the response, reads it, or does neither. An RPC that must wait
//! (for the configuration, for a connection) waits until its deadline, which is the smaller of the
//! application's `grpc-timeout` and the limit of its route.
//!
//! - No configuration yet, or connecting: the RPC waits.
//! - Control plane unreachable, no listener, invalid cluster, or all endpoints unreachable: the RPC fails
//!   at once with `UNAVAILABLE` and the cause in the message. If it is [wait-for-ready](WaitForReady), it
//!   waits instead.
//! - No route, or dropped: the RPC fails at once. Status codes that only backends may produce never come
//!   from the control plane (gRFC A54).
//! - The endpoint did not process the RPC (the connection closed before, `REFUSED_STREAM`, a GOAWAY that
//!   does not cover it): the channel sends it to another endpoint, if its request is unary (transparent
//!   retry, gRFC A6).
//! - The response is not gRPC, such as the error page of a proxy: the RPC fails with the code of its HTTP
//!   status, and the message quotes the page.
//! - A failure is a response: HTTP headers with a `grpc-status`. The service itself never fails, so any
//!   front end can use it.
//!
//! # Features of xDS
//!
//! | feature | status |
//! |---|---|
//! | clusters: `type: EDS`, `type: LOGICAL_DNS`, aggregates of them (gRFC A37, A75) | yes |
//! | policies: round robin, pick first, ring hash, least request, client-side weighted round robin, random subsetting | yes |
//! | policies of the program ([`policy::CustomPolicy`], gRFC A52) | yes |
//! | endpoints with several addresses (Happy Eyeballs) | yes |
//! | routes by path, prefix, regular expression, headers, fraction; weighted clusters; host rewriting (gRFC A81) | yes |
//! | priorities with failover, weighted localities, drops, health | yes |
//! | deadlines, `max_stream_duration`, wait-for-ready ([`WaitForReady`]) | yes |
//! | keepalive, backoff, GOAWAY, more connections at `MAX_CONCURRENT_STREAMS` | yes |
//! | connections shared by channels ([`Pool`]) | yes |
//! | metrics: calls, attempts, policies, outlier detection, connections ([`Builder::recorder`], gRFC A66, A78, A91, A94, A96) | yes |
//! | channelz: calls by channel, endpoint and connection ([`oxds_client::channelz`]) | yes |
//! | load reports: calls by locality, drops by category, backend metrics (ORCA) | yes |
//! | retries by policy (gRFC A44), circuit breaking (A32), outlier detection (A50), hash policies (A42) | yes |
//! | sessions by cookie, also while endpoints drain (gRFC A55, A60) | yes |
//! | TLS and mTLS to endpoints, by the control plane ([`XdsCredentials`], gRFC A29, A82, A87, A101) | feature `tls` |
//! | HTTP filters: fault injection (gRFC A33), filters of the program ([`HttpFilter`], A39) | yes |
//! | hedging | no |
//!
//! [`docs/channel.md`] describes each feature with the YAML that turns it on.
//!
//! A cluster of another type (`STATIC`, `STRICT_DNS`, `ORIGINAL_DST`, another custom `cluster_type`) or with
//! an unsupported policy is NACKed with the field and the reason, as gRPC does for what it does not support. RPCs to it
//! fail with the same text; a valid version of it that came before stays in use.
//!
//! The crate is not a proxy and does not speak HTTP/1. Of tonic it uses the body and the status, not the
//! transport.
//!
//! The channel opens another connection to an endpoint when all open ones carry as many streams as the
//! server allowed in its first SETTINGS, up to ten (gRFC A105). Until it is open, RPCs queue on the
//! connection with the fewest streams, in order; one that reaches its deadline there is not sent.
//! Connections stay open until the server closes them. A connection that gets a GOAWAY finishes its RPCs
//! while the next one is dialled, without backoff; RPCs that queue on it go elsewhere.
//!
//! A backend may send 2 MiB of a response before the application reads it, and 16 MiB on a connection.
//!
//! # Cancel safety
//!
//! Dropping a call or a response body cancels that RPC and nothing else. Dropping the last clone of a
//! channel ends its task and its subscriptions; connections that no other channel uses close when the
//! last RPC on them ends.
//!
//! # Cargo features
//!
//! - `tls` (off): TLS to control planes and endpoints.
//! - `testing` (off): the module `testing`, an echo backend and configurations without a control plane.
//!
//! Tracing targets: `oxds::channel`, `oxds::subchannel`.
//!
//! [`docs/channel.md`]: https://github.com/oxds/oxds/blob/main/docs/channel.md
#![cfg_attr(docsrs, feature(doc_cfg))]

mod attempt;
mod builder;
mod call;
mod channel;
mod channelz;
mod connection_request;
mod deadline;
mod driver;
mod endpoint;
mod endpoint_table;
mod epoch;
mod filter;
mod limits;
mod memory;
mod metrics;
mod picker;
mod pool;
mod routing;
mod security;
mod session;
mod snapshot;
mod stream;
mod subchannel;
#[cfg(feature = "testing")]
pub mod testing;

/// Load-balancing policies of the program (gRFC A52): implement [`CustomPolicy`](policy::CustomPolicy), and register it
/// with [`Extensions::with_policy`].
pub mod policy {
    pub use oxds_core::lb::policy::{
        CustomEndpoint, CustomPicker, CustomPolicy, CustomUpdate, Demand, Pick, PickCall,
        PolicyConfig, PolicyEndpoint, SharedPolicy,
    };
}

pub use attempt::{Dropped, Picked};
pub use builder::{BuildError, Builder};
pub use call::{PreviousAttempts, ResponseBody, WaitForReady};
pub use channel::{ResponseFuture, XdsChannel};
pub use endpoint::Ejected;
pub use filter::{FilterFuture, FilterRequest, HttpFilter, HttpFilters};
pub use oxds_client::bootstrap::TransportPolicy;
pub use oxds_client::credentials::{ChannelCredentials, Configured};
pub use oxds_client::{Bootstrap, ClientPool, Options};
pub use oxds_core::lb::{Connectivity, EjectionReason};
pub use oxds_core::resource::{ExtensionConfig, ExtensionValue, Extensions, Invalid};
pub use oxds_net::rpc::code_name;
pub use oxds_net::transport::Keepalive;
pub use pool::Pool;
pub use security::XdsCredentials;
pub use snapshot::{ChannelStatus, ClusterStatus, EndpointStatus};
