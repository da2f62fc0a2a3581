//! An xDS client: bootstrap, subscriptions, resolved configuration.
//!
//! ```text
//!   Bootstrap ──► ClientPool ──► XdsClient ──────► Watch<Cluster>, WatchAll<Cluster>, RawWatch
//!                                   │  ▲                resources, as they change
//!             ADS, or a stream for  │  │
//!             each kind, REST, file ▼  │          ┌──► ConfigWatch
//!              control planes, Source  │          │      a target's whole configuration
//!                                     Target ─────┘
//! ```
//!
//! The protocol is [`oxds_core::ads`], the configuration [`oxds_core::resolve`]; here are sockets, tasks and time.
//! It does not route, balance or call: that is `oxds-channel`.
//!
//! Watch a cluster of any control plane:
//!
//! ```no_run
//! use oxds_client::{Bootstrap, ClientPool, Update};
//! use oxds_core::resource::Cluster;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let bootstrap = Bootstrap::builder("127.0.0.1:18000").node_id("me").build()?;
//! let client = ClientPool::new(bootstrap).client("#watch");
//! let mut clusters = client.watch::<Cluster>("checkout");
//! while let Some(update) = clusters.next().await {
//!     match update {
//!         Update::Changed(Ok(cluster)) => println!("endpoints: {}", cluster.eds_service_name),
//!         Update::Changed(Err(error)) => println!("none: {error}"),
//!         Update::Ambient(remark) => println!("still the same, but: {remark:?}"),
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! A list of control planes, the most wanted first; and all clusters, as the API's own message:
//!
//! ```no_run
//! use envoy_types::pb::envoy::config::cluster::v3::Cluster;
//! use oxds_client::{Bootstrap, XdsClient};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let bootstrap = Bootstrap::builder("one.example:18000").fallback_server("two.example:18000");
//! let client = XdsClient::new(bootstrap.node_id("me").build()?.into());
//! let mut clusters = client.watch_all::<Cluster>("*");
//! while let Some((name, update)) = clusters.next().await {
//!     println!("{name}: {update:?}");
//! }
//! # Ok(())
//! # }
//! ```
//!
//! A file, without any server; it may be replaced at any time:
//!
//! ```
//! use oxds_client::{Bootstrap, Source, Update, XdsClient};
//! use oxds_core::resource::Assignment;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let file = folder.path().join("endpoints.yaml");
//! # let url = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment";
//! # std::fs::write(&file, format!("'@type': {url}\ncluster_name: checkout\n"))?;
//! let client = XdsClient::new(Bootstrap::without_servers().build()?.into());
//! let mut watch = client.watch_from::<Assignment>(&Source::file(&file), "checkout")?;
//! assert!(matches!(watch.next().await, Some(Update::Changed(Ok(_)))));
//! # Ok(())
//! # }
//! ```
//!
//! | what | status |
//! |---|---|
//! | ADS, full states or differences | yes |
//! | v3, and v2 for control planes that know no other (gRFC A30): [`bootstrap::TransportPolicy`] | yes |
//! | bootstrap from environment, JSON, code | yes |
//! | resources as views with gRPC's rules, as any generated message, as a type with rules of one's own, or raw | yes |
//! | one name, all of a kind (`*`), `xdstp` collections: [`XdsClient::watch_all`] | yes |
//! | time to live; data errors and transient silence (gRFC A88): [`Options`] | off by default |
//! | authorities: name templates, servers of their own | yes |
//! | one client per target | yes |
//! | plaintext, TCP and Unix sockets | yes |
//! | TLS, client certificates, SPIFFE bundle maps, files that are replaced; tokens of calls ([`credentials`]) | feature `tls` |
//! | fallback between the servers of a list, and back (gRFC A71) | yes |
//! | CSDS: what the clients hold, for `grpcdebug` and its like | yes |
//! | [`channelz`]: channels, connections and servers, with their calls | yes |
//! | metrics by the names of gRFC A78 ([`metrics`]) | yes |
//! | LRS: load reported to the server that delivered the cluster, with what backends say of themselves ([`load`]) | yes |
//! | [sources](source) beside ADS: a stream for each kind, REST, files | yes |
//!
//! Every `next` is cancel-safe: a read that is dropped loses nothing, and the next one finds the newest word. A watch that is
//! kept and not read holds up the stream that brings its resource, by a second per response
//! ([`Options::patience_with_watchers`]). Dropping the last handle ends the client's task and closes its socket; load that was
//! counted is told by a task of its own, which needs the runtime for a moment longer: [`load::LoadReporter::settled`].
//!
//! # What it logs
//!
//! By `tracing`. Events of one target have these fields, as far as there is something to put there:
//!
//! | target | level | event | fields |
//! |---|---|---|---|
//! | `oxds::ads` | warn | server does not answer | `server` |
//! | | warn | response rejected | `server`, `type`, `valid`, `invalid`, `cause` |
//! | | info | server answers again | `server` |
//! | | info | stream closed | `server`, `cause` |
//! | | info | no answer (to a poll) | `server`, `cause` |
//! | | debug | stream opened | `server` |
//! | | debug | response accepted | `server`, `type`, `valid` |
//! | | trace | request; response | `server`, the whole message |
//! | `oxds::lrs` | info | stream closed | `server`, `cause` |
//! | | trace | request; response | `server`, the whole message |
//! | `oxds::resource` | warn | no resource; resource kept, but it may be old | `type`, `name`, `cause`; at debug level if the server is to blame for all of its resources |
//! | | warn | the server deleted a resource that stays in use | `server`, `type`, `name` |
//! | | info | resource is current again | `server`, `type`, `name`, `version` |
//! | | debug | resource changed | the same |
//! | `oxds::credentials` | error | certificates that cannot be used: those from before stay | – |
//! | | warn | a token cannot be read; call credentials are not sent over plaintext | `server` |
//! | | info | new certificates | – |
//!
//! # Features
//!
//! All off: `prometheus` and `opentelemetry` (adapters of [`metrics`]); `tls` (of [`credentials`]); `admin`
//! (`admin::services`: CSDS, channelz and health in one call).

#[cfg(feature = "admin")]
pub mod admin;
pub mod bootstrap;
pub mod channelz;
mod client;
pub mod credentials;
mod csds;
mod link;
pub mod load;
pub mod metrics;
mod random;
mod resolve;
pub mod source;
pub mod target;
pub mod transport;

pub use bootstrap::{Bootstrap, BootstrapError};
pub use client::{ClientPool, Options, RawWatch, Update, Watch, WatchAll, XdsClient};
pub use csds::Csds;
pub use link::Link;
pub use oxds_core::ads::{Protocol, WatchError, WatchErrorReason};
pub use oxds_core::resource::{Invalid, ParsedResource, ResourceParser, Typed};
pub use resolve::ConfigWatch;
pub use source::Source;
pub use target::{Target, TargetError};
