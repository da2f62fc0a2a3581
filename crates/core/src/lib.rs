//! The xDS protocol as pure state machines.
//!
//! **Internal to oxds; no stability is promised.** Its version stays 0.0.x, and any release may change any item. Use
//! `oxds-client`, `oxds-server`, `oxds-channel` or `oxds-grpc-server`, which re-export the items of this crate that are
//! meant for users; those keep the promises of the crate that re-exports them.
//!
//! ```text
//!            server                                                client
//!  ChangeSet ─► snapshot ─► session ◄── requests, responses ──► ads ─► ClientEvent ─► resolve ─► lb
//!                 ▲            │                                 │                     complete   endpoint
//!               group       rollback                             lrs ─► load reports   config     of a call
//! ```
//!
//! Nothing here uses sockets, tasks, clocks or randomness: time and random numbers are arguments, effects are return
//! values. Every machine has the same shape:
//!
//! - commands from the application (`subscribe`, `unsubscribe`, …);
//! - `handle_*` for inputs: a message, or a timer that is due;
//! - `poll_transmit`, `poll_event` and `poll_timeout` for the next actions. After any command or `handle_*`
//!   call, poll `poll_transmit` until it returns `None`, then `poll_event` until it returns `None`, then arm one
//!   timer for `poll_timeout`.
//!
//! So both ends can be connected without a network. This is all that a driver does:
//!
//! ```
//! use std::sync::Arc;
//!
//! use envoy_types::pb::envoy::config::cluster::v3::Cluster;
//! use oxds_core::ads::{AdsTransmit, Client, ClientConfig, ClientEvent, Protocol, Server};
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
//! let mut config = ClientConfig::new(Node::default());
//! let server = config.add_server(Server::new("a control plane"));
//! let authority = config.add_authority(vec![server]);
//! let mut client = Client::new(config);
//! client.watch(authority, &ResourceType::CLUSTER, &"blue".into());
//!
//! let now = Instant::EPOCH;
//! while let Some((server, transmit)) = client.poll_transmit(now) {
//!     match transmit {
//!         AdsTransmit::Open => client.handle_opened(server),
//!         AdsTransmit::SotwRequest(request) => session.handle_request(now, (*request).into())?,
//!         AdsTransmit::DeltaRequest(_) | AdsTransmit::Close => {}
//!     }
//!     while let Some(response) = session.poll_transmit(now, &served) {
//!         let response = DiscoveryResponse::decode(response.frame.message())?;
//!         client.handle_response(now, server, response);
//!     }
//! }
//! let Some(ClientEvent::Changed { name, resource, .. }) = client.poll_event() else { panic!("an event") };
//! assert!(&*name == "blue" && resource.is_ok());
//! assert!(session.is_in_sync(&served), "the client's last request was its ACK");
//! # Ok(())
//! # }
//! ```
//!
//! | module | content |
//! |---|---|
//! | [`time`] | instants without a clock |
//! | [`protocol`] | the two variants of the protocol: SotW and delta |
//! | [`snapshot`] | everything that a server serves: immutable, persistent, encoded once |
//! | [`group`] | resources that only some nodes see |
//! | [`subscription`] | the names that a client subscribed to: one set of rules for both protocol variants |
//! | [`session`] | the server's state machine: one per stream |
//! | [`ads`] | the client's state machine: its servers, subscriptions and cache |
//! | [`lrs`] | load reports: the counters of a client, and the machine that reports them |
//! | [`poll`] | polling of a REST server |
//! | [`observe`] | a client for tools: resources of any type, as bytes |
//! | [`resource`] | parsed and validated views of the resources that a data plane uses |
//! | [`resolve`] | one configuration out of LDS, RDS, CDS and EDS resources |
//! | [`rollback`] | changes that clients NACK, and the versions that are served instead |
//! | [`rollout`] | the latest changes, and how far the clients are with each |
//! | [`lb`] | load balancing: pure functions and one state machine |
//! | `explain` | where a request goes, and why |
//! | [`preview`] | a change before it is served: what differs, in which order clients get it, what is dangerous |
//! | [`rbac`] | authorization of calls to a server |
//! | [`cidr`] | ranges of IP addresses |
//! | [`backoff`] | delays between attempts to reach a server |
//! | [`keepalive`] | pings of a silent connection |
//!
//! # Features
//!
//! `server` (off by default): the server's half of the protocol, which is [`group`], [`preview`], [`rollback`],
//! [`rollout`], [`session`], [`snapshot`] and [`subscription`].
//!
//! `explain` (off by default): `explain`.
//!
//! It is not a server, a client or a runtime: those are `oxds-server`, `oxds-client` and `oxds-channel`, which are
//! thin.
#![cfg_attr(docsrs, feature(doc_cfg))]
// The front page links all modules, also those whose feature is off.
#![cfg_attr(not(feature = "server"), allow(rustdoc::broken_intra_doc_links))]

pub mod ads;
pub mod backoff;
pub mod cidr;
#[cfg(feature = "explain")]
pub mod explain;
#[cfg(feature = "server")]
mod frame;
#[cfg(feature = "server")]
pub mod group;
pub mod keepalive;
pub mod lb;
pub mod lrs;
#[cfg(feature = "server")]
mod nack;
#[cfg(feature = "server")]
mod nonce;
pub mod observe;
pub mod poll;
#[cfg(feature = "server")]
pub mod preview;
pub mod protocol;
pub mod rbac;
pub mod resolve;
pub mod resource;
#[cfg(feature = "server")]
mod response;
#[cfg(feature = "server")]
pub mod rollback;
#[cfg(feature = "server")]
pub mod rollout;
mod sample;
mod server_id;
#[cfg(feature = "server")]
pub mod session;
#[cfg(feature = "server")]
pub mod snapshot;
#[cfg(feature = "server")]
mod status;
#[cfg(feature = "server")]
pub mod subscription;
pub mod time;
#[cfg(feature = "server")]
mod vhds;
