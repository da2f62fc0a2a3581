//! An xDS client: bootstrap, subscriptions, resolved configuration.
//!
//! ```text
//!   Bootstrap ──► ClientPool ──► XdsClient ──────► Watch<Cluster>, WatchAll<Cluster>, RawWatch, RawWatchAll
//!                                   │  ▲                updates of resources
//!             ADS, or one stream    │  │
//!             per type, REST, file  ▼  │          ┌──► ConfigWatch
//!              control planes, Source  │          │      the whole configuration of a target
//!                                     Target ─────┘
//! ```
//!
//! [`oxds_core::ads`] implements the protocol and [`oxds_core::resolve`] the configuration; this crate adds sockets,
//! tasks and time. It does not route, balance or send RPCs: `oxds-channel` does.
//!
//! Watch one cluster of a control plane:
//!
//! ```no_run
//! use oxds_client::{Bootstrap, ClientPool, Update};
//! use oxds_client::resource::Cluster;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let bootstrap = Bootstrap::builder("127.0.0.1:18000").node_id("me").build()?;
//! let client = ClientPool::new(bootstrap).client("#watch");
//! let mut clusters = client.watch::<Cluster>("checkout");
//! while let Some(update) = clusters.next().await {
//!     match update {
//!         Update::Changed(Ok(cluster)) => println!("endpoints: {}", cluster.eds_service_name),
//!         Update::Changed(Err(error)) => println!("no cluster: {error}"),
//!         Update::Ambient(error) => println!("cluster unchanged: {error:?}"),
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Watch all clusters, as the API's own message, with a fallback server:
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
//! Watch a file, without a server; the file may be replaced at any time:
//!
//! ```
//! use oxds_client::{Bootstrap, Source, Update, XdsClient};
//! use oxds_client::resource::Assignment;
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
//! | feature | status |
//! |---|---|
//! | ADS, SotW or delta | yes |
//! | v3, and v2 for control planes without v3 (gRFC A30): [`bootstrap::TransportPolicy`] | yes |
//! | bootstrap from environment, JSON, code | yes |
//! | resources as views with gRPC's rules, generated messages, types with own rules, or bytes | yes |
//! | one name, all resources of a type (`*`), `xdstp` collections: [`XdsClient::watch_all`] | yes |
//! | resource TTL; data error handling and transient resource timers (gRFC A88): [`Options`] | off by default |
//! | authorities: name templates, own servers (gRFC A47) | yes |
//! | one client per target (gRFC A71) | yes |
//! | plaintext, TCP and Unix sockets | yes |
//! | TLS, client certificates, SPIFFE bundle maps, reloaded files; call credentials ([`credentials`]) | feature `tls` |
//! | fallback between servers, and return to the preferred one (gRFC A71) | yes |
//! | CSDS: the cached resources, for tools such as `grpcdebug` | yes |
//! | [`channelz`]: channels, connections and servers, with their call counts | yes |
//! | metrics with the names of gRFC A78, and those of channels ([`metrics`]) | yes |
//! | LRS: load reports, with ORCA metrics, to the server that delivered the cluster ([`load`]) | yes |
//! | [sources](source) beside ADS: one stream per type | yes |
//! | RTDS: layers of a runtime that operators override ([`XdsClient::follow_runtime`]) | yes |
//! | sources beside ADS: REST, files | features `rest`, `file` |
//!
//! Every `next` is cancel-safe: dropping its future loses nothing, and the next call returns the newest update. A watch
//! that is not read delays the stream of its resource, by at most one second per response
//! ([`Options::slow_watcher_timeout`]): the client ACKs a response, and takes the next one from the connection when all
//! watches have returned their updates of the last one, or after that time. It does not wait until the application has
//! used an update, and HTTP/2 may have received the next response before.
//! Dropping the last handle and watch stops the client's task and closes its sockets. Remaining load counts are
//! reported by a separate task, which needs the runtime a little longer: [`load::LoadReporter::settled`].
//!
//! # Log events
//!
//! The crate logs with `tracing`. An event leaves out fields that have no value.
//!
//! | target | level | event | fields |
//! |---|---|---|---|
//! | `oxds::ads` | error | task panicked, it starts again: a defect, please report it | `panic` |
//! | | warn | client feature is not registered: servers may not know it | `feature` |
//! | | warn | server unreachable | `server` |
//! | | warn | deprecated, unfinished or unknown field (feature `lifecycle`), once per field | `resource_type`, `path` |
//! | | warn | response NACKed | `server`, `resource_type`, `valid`, `invalid`, `cause` |
//! | | info | server reachable again | `server` |
//! | | info | stream closed | `server`, `cause` |
//! | | info | poll failed | `server`, `cause` |
//! | | debug | stream opened | `server` |
//! | | debug | response ACKed | `server`, `resource_type`, `valid` |
//! | | trace | request; response | `server`, the whole message |
//! | `oxds::lrs` | error | task panicked, it starts again: a defect, please report it | `server`, `panic` |
//! | | info | stream closed | `server`, `cause` |
//! | | trace | request; response | `server`, the whole message |
//! | `oxds::resource` | warn (debug if the server is unreachable) | resource not available | `resource_type`, `name`, `cause` |
//! | | the same | resource kept, but may be outdated | the same |
//! | | warn | resource deletion ignored | `server`, `resource_type`, `name` |
//! | | warn | resource error ignored: the response has the resource, too | the same |
//! | | info | deleted resource is back; deleted resource is not watched any more | `server`, `resource_type`, `name` |
//! | | info | resource is current again | `server`, `resource_type`, `name`, `version` |
//! | | debug | resource changed | the same |
//! | `oxds::runtime` | warn | runtime layer not loaded, keeping its last values | `layer`, `error` |
//! | | warn | runtime resource does not exist, its keys are removed | `layer`, `resource` |
//! | | info | runtime changed | `layer`, `keys` |
//! | `oxds::credentials` | error | certificates not reloaded: the last valid ones stay in use | – |
//! | | warn | a token cannot be read; call credentials are not sent over plaintext | `server` |
//! | | info | certificates reloaded | – |
//!
//! # Features
//!
//! All features are off by default.
//!
//! | feature | content |
//! |---|---|
//! | `admin` | `admin::services`: CSDS, channelz and health in one call |
//! | `file` | files as [sources](source), in YAML, JSON, text or binary form, which are read again when they change |
//! | `lifecycle` | `lifecycle::FieldChecks`: deprecated, unfinished and unknown fields in received resources |
//! | `opentelemetry`, `prometheus` | recorders of [`metrics`] |
//! | `rest` | control planes that are polled over REST as [sources](source) |
//! | `tls` | TLS to control planes, call credentials ([`credentials`]); TLS between services ([`certificates`]) |
//!
//! Without `file` or `rest`, a config source that names a file or REST is an error:
//! [`source::SourceError::FeatureOff`].
//!
//! # Modules
//!
//! | module | content |
//! |---|---|
//! | [`bootstrap`], [`target`], `options` | configuration |
//! | `handle`, `resolve`, `runtime` | the handles that an application uses |
//! | `driver` | the task that runs the state machine of a client |
//! | `update` | updates of watched resources |
//! | [`source`] | description and IO of each kind of source |
//! | [`load`] | load reports |
//! | [`metrics`], [`channelz`], [`admin`], `telemetry` | observability |
//! | [`certificates`] | certificate providers, and TLS between services |
//! | `link`, [`transport`], [`credentials`] | connections to control planes |
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod admin;
pub mod bootstrap;
pub mod certificates;
pub mod channelz;
pub mod credentials;
mod dns;
mod driver;
mod handle;
#[cfg(feature = "lifecycle")]
pub mod lifecycle;
mod link;
pub mod load;
pub mod metrics;
mod options;
mod request_headers;
mod resolve;
mod runtime;
pub mod source;
mod supervise;
pub mod target;
mod telemetry;
mod timer;
mod update;

pub use bootstrap::{Bootstrap, BootstrapError};
pub use handle::{ClientPool, RawWatch, RawWatchAll, Watch, WatchAll, XdsClient};
pub use link::{ServerBody, ServerConnection};
pub use options::Options;
pub use oxds_core::ads::{AdsTransmit, Protocol, ServerId, WatchError, WatchErrorReason};
pub use oxds_core::lb::{Connectivity, Headers};
pub use oxds_core::resolve::{ServerConfig, XdsConfig};
pub use oxds_core::resource::{self, Invalid, ParsedResource, ResourceParser, Typed};
pub use oxds_net::transport;
pub use request_headers::RequestHeaders;
pub use resolve::{ConfigWatch, ServerConfigWatch};
pub use runtime::FollowRuntimeError;
pub use source::Source;
pub use target::{Target, TargetError};
#[cfg(feature = "tls")]
pub use tokio_rustls::rustls;
pub use update::{RawResource, Update};
