//! `xds:///` channels for tonic and tower: a Rust service finds, routes to and balances over its
//! backends as a control plane says, without a sidecar.
//!
//! ```text
//!              ┌───────────────────────────── XdsChannel ─────────────────────────────┐
//!   request ──▶│ route ──▶ cluster ──▶ drop? ──▶ priority, locality ──▶ ready endpoint │──▶ backend
//!              │    ▲                                    ▲                             │    (HTTP/2)
//!              └────┼────────────────────────────────────┼─────────────────────────────┘
//!                   │ tables and pickers, swapped in whole │
//!              ┌────┴────────────────────────────────────┴──┐      ┌──────────────────────────┐
//!              │ one task: configurations, failover, pickers │◀────│ subchannels, one a backend│
//!              └────▲───────────────────────────────────────┘      └──────────────────────────┘
//!                   │ LDS → RDS → CDS → EDS (oxds-client)
//! ```
//!
//! A client that tonic generated takes the channel as it takes `tonic::transport::Channel`:
//!
//! ```no_run
//! use oxds_channel::XdsChannel;
//! use tonic::client::Grpc; // what generated clients hold
//! # use tonic::client::GrpcService;
//! # struct GreeterClient<T>(Grpc<T>);
//! # impl<T: GrpcService<tonic::body::Body>> GreeterClient<T> {
//! #     fn new(channel: T) -> Self { Self(Grpc::new(channel)) }
//! # }
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! // The bootstrap is in GRPC_XDS_BOOTSTRAP (a path) or GRPC_XDS_BOOTSTRAP_CONFIG (JSON).
//! let channel = XdsChannel::builder("xds:///greeter").build()?;
//! let client = GreeterClient::new(channel.clone());
//! // client.say_hello(request).await?;
//! println!("{:#?}", channel.status());
//! # drop(client);
//! # Ok(())
//! # }
//! ```
//!
//! # What an RPC meets
//!
//! On the request path there is no lock, no queue of oxds' own and no task: two atomic loads, a
//! walk over compiled routes, random numbers of the thread, and the HTTP/2 connection of the
//! endpoint. What has to wait (for the configuration, for a connection) waits under the RPC's
//! deadline: the `grpc-timeout` that the application set, or what its route allows, whichever is less.
//!
//! - No configuration yet, or connecting: the RPC waits.
//! - Known not to work (no listener, no route, a broken cluster, no endpoint to be reached, dropped):
//!   it fails at once, as `UNAVAILABLE`, with the cause in words. A control plane's own statuses never
//!   reach the application as if they were its backend's.
//! - The endpoint did not process it (the connection went away before, `REFUSED_STREAM`, an orderly
//!   GOAWAY): it goes to another one, if its message was taken whole, as unary ones are.
//! - A failure is an answer: HTTP headers with a `grpc-status`. The service itself never errs, so any
//!   front end can sit on it.
//!
//! # What there is
//!
//! | feature | status |
//! |---|---|
//! | routes by path, prefix, regular expression, headers, fraction; weighted clusters | yes |
//! | priorities with failover, weighted localities, drops, health, round robin | yes |
//! | deadlines, `max_stream_duration` | yes |
//! | keepalive, backoff, GOAWAY, more connections at `MAX_CONCURRENT_STREAMS` | yes |
//! | connections shared by channels ([`Pool`]) | yes |
//! | channelz: calls by channel, endpoint and connection ([`oxds_client::channelz`]) | yes |
//! | load reports: calls by locality, drops by category, what backends say of themselves (ORCA) | yes |
//! | retries by policy, hedging, circuit breaking, outlier detection | not yet |
//! | ring hash, least request, weighted round robin, TLS, fault injection | not yet |
//!
//! It is not a proxy, it does not speak HTTP/1, and it does not need tonic's transport: of tonic it
//! takes the body and the status.
//!
//! More than one connection to an endpoint is opened when all that are open carry as many streams as
//! the server allowed in its first SETTINGS, up to ten in all; what comes meanwhile queues on the one
//! that carries fewest. They stay until they are closed from the other end.
//!
//! # Cancel safety
//!
//! Dropping a call or a response body cancels that RPC and nothing else. Dropping the last clone of a
//! channel ends its task and its subscriptions; connections that no other channel uses close when the
//! last RPC on them is over.
//!
//! # Features
//!
//! `testing` (off): [`testing`], an echo backend and configurations without a control plane. Tracing
//! targets: `oxds::channel`, `oxds::subchannel`.

mod body;
mod builder;
mod call;
mod channel;
mod channelz;
mod count;
mod deadline;
mod driver;
mod picker;
mod pool;
mod random;
mod routing;
mod snapshot;
mod status;
mod subchannel;
#[cfg(feature = "testing")]
pub mod testing;

pub use body::ResponseBody;
pub use builder::{BuildError, Builder};
pub use channel::{ResponseFuture, XdsChannel};
pub use oxds_client::bootstrap::TransportPolicy;
pub use oxds_client::transport::Keepalive;
pub use oxds_client::{Bootstrap, ClientPool};
pub use oxds_core::lb::Connectivity;
pub use picker::Picked;
pub use pool::Pool;
pub use snapshot::{ChannelStatus, ClusterStatus, EndpointStatus};
