//! The xDS protocol as pure state machines.
//!
//! ```text
//!            server                                                client
//!  ChangeSet ─► snapshot ─► session ◄── requests, responses ──► ads ─► Event ─► resolve ─► lb
//!                 ▲            │                                 │              one whole    which endpoint
//!               group       rollback                             lrs ─► reports of load      takes a call
//! ```
//!
//! No sockets, tasks, clocks or randomness in here: time and random numbers come in as arguments, effects come out
//! as values. Every machine has the same shape:
//!
//! - commands from the application (`subscribe`, `unsubscribe`, …);
//! - `handle_*` for what arrives: a message, a timer that fired;
//! - `poll_transmit`, `poll_event` and `poll_timeout` for what must happen next. After any command or `handle_*`
//!   call, poll `poll_transmit` until it returns `None`, then `poll_event` until it returns `None`, then arm one
//!   timer for `poll_timeout`.
//!
//! So both ends can be put together without a network, and what a driver does is all here:
//!
//! ```
//! use std::sync::Arc;
//!
//! use envoy_types::pb::envoy::config::cluster::v3::Cluster;
//! use oxds_core::ads::{Client, Config, Event, Protocol, Server, Transmit};
//! use oxds_core::session::{Scope, Session};
//! use oxds_core::snapshot::{ChangeSet, Resource, Snapshot};
//! use oxds_core::time::Instant;
//! use oxds_types::ResourceType;
//! use oxds_types::discovery::{DiscoveryResponse, Node};
//! use prost::Message as _;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # use envoy_types::pb::envoy::config::cluster::v3::cluster::{ClusterDiscoveryType, DiscoveryType, EdsClusterConfig};
//! # use envoy_types::pb::envoy::config::core::v3::{AggregatedConfigSource, ConfigSource};
//! # use envoy_types::pb::envoy::config::core::v3::config_source::ConfigSourceSpecifier;
//! # let ads = ConfigSourceSpecifier::Ads(AggregatedConfigSource::default());
//! # let eds_config = Some(ConfigSource { config_source_specifier: Some(ads), ..ConfigSource::default() });
//! # let blue = Cluster {
//! #     cluster_discovery_type: Some(ClusterDiscoveryType::Type(DiscoveryType::Eds.into())),
//! #     eds_cluster_config: Some(EdsClusterConfig { eds_config, ..EdsClusterConfig::default() }),
//! #     ..Cluster::default()
//! # };
//! let blue = Cluster { name: "blue".into(), ..blue };
//! let (served, _) = Snapshot::unloaded().apply(ChangeSet::default().put(Resource::of(&blue)?));
//! let mut session = Session::new(Protocol::Sotw, Scope::Aggregated, Arc::default());
//!
//! let mut config = Config::new(Node::default());
//! let server = config.add_server(Server::new("a control plane"));
//! let everyone = config.add_authority(vec![server]);
//! let mut client = Client::new(config);
//! client.watch(everyone, &ResourceType::CLUSTER, &"blue".into());
//!
//! let now = Instant::EPOCH;
//! while let Some((server, transmit)) = client.poll_transmit(now) {
//!     match transmit {
//!         Transmit::Open => client.handle_opened(server),
//!         Transmit::Request(request) => session.handle_request(now, (*request).into())?,
//!         Transmit::Delta(_) | Transmit::Close => {}
//!     }
//!     while let Some(response) = session.poll_transmit(now, &served) {
//!         let response = DiscoveryResponse::decode(response.frame.message())?;
//!         client.handle_response(now, server, response);
//!     }
//! }
//! let Some(Event::Changed { name, resource, .. }) = client.poll_event() else { panic!("an event") };
//! assert!(&*name == "blue" && resource.is_ok());
//! assert!(session.is_in_sync(&served), "the client's last request was its ACK");
//! # Ok(())
//! # }
//! ```
//!
//! | module | is |
//! |---|---|
//! | [`time`] | instants without a clock |
//! | [`snapshot`] | what a server serves: immutable, persistent, encoded once |
//! | [`group`] | resources that only some nodes see |
//! | [`subscription`] | what a client asked for: one set of rules for both protocol variants |
//! | [`session`] | the server's machine: one per stream |
//! | [`ads`] | the client's machine: its servers, what it asks of each, and what it holds |
//! | [`lrs`] | what a client counts, and the machine that reports it |
//! | [`poll`] | when a server without a stream is asked, and what |
//! | [`observe`] | a client that looks on: resources of any kind, as bytes |
//! | [`resource`] | parse-don't-validate views of the resources a data plane uses |
//! | [`resolve`] | LDS → RDS → CDS → EDS into one configuration |
//! | [`rollback`] | a change that clients refuse, and what is served instead |
//! | [`lb`] | pure pickers |
//!
//! It is not a server, not a client and not a runtime: those are `oxds-server`, `oxds-client` and `oxds-channel`,
//! and they are thin.

pub mod ads;
mod frame;
pub mod group;
pub mod lb;
pub mod lrs;
pub mod observe;
pub mod poll;
pub mod protocol;
pub mod resolve;
pub mod resource;
pub mod rollback;
pub mod session;
pub mod snapshot;
pub mod subscription;
pub mod time;
