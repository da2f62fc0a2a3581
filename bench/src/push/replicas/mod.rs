//! GB-1 … GB-16, but for GB-11: replicas of one configuration in etcd.
//!
//! ```text
//!    processor 0                                processor 1
//!   ┌───────────────────┐  publish   ┌─────────────────────────────┐
//!   │ the writer        │ ─────────▶ │ etcd: three members         │
//!   │ a watch of etcd   │ ◀───────── │   │ watch                   │
//!   │ a probe or swarm  │ ◀───────── │ oxds serve × 3, or a plain  │
//!   │ per replica       │    ADS     │ Go program × 3              │
//!   └───────────────────┘            └─────────────────────────────┘
//! ```
//!
//! The writer's own watch shows when etcd has committed a publish: the figures are the time after that, so that etcd's
//! disk does not count. The plain alternative to replicas is go-control-plane with a linear cache that etcd's Go client
//! feeds, a key per resource; it has no atomic publishes, no checks and no state of replicas.
//!
//! | scenario | module |
//! |---|---|
//! | GB-1: one resource is published; GB-2: 5,000 at once | [`publish`] |
//! | GB-3: a replica starts; GB-8: its memory | [`start`] |
//! | GB-4: a replica is killed | [`death`] |
//! | GB-5: replicas restart one by one under RPCs | [`rolling`] |
//! | GB-6: 100 publishes per second | [`rate`] |
//! | GB-7: writes of replicas to etcd | [`writes`] |
//! | GB-9: CPU of a replica per publish and per second, by the number of resources | [`cost`] |
//! | GB-10: the leader of etcd is killed under publishes | [`leader`] |
//! | GB-12: the history of etcd is discarded while a replica is cut off | [`compaction`] |
//! | GB-13: `oxds publish` of a folder with one change | [`folder`] |
//! | GB-14: `oxds wait` for all clients | [`waiting`] |
//! | GB-15: a fourth replica joins | [`joining`] |
//! | GB-16: etcd is away, and clients reconnect | [`outage`] |
//!
//! GB-11, random publishes while etcd and replicas fail, is the scenario of G-40 in `interop/`.

mod clients;
pub(crate) mod compaction;
pub(crate) mod cost;
pub(crate) mod death;
mod etcd;
mod fleet;
pub(crate) mod folder;
pub(crate) mod joining;
pub(crate) mod leader;
mod members;
pub(crate) mod outage;
mod ports;
pub(crate) mod publish;
mod quick;
pub(crate) mod rate;
pub(crate) mod rolling;
pub(crate) mod start;
mod text;
pub(crate) mod waiting;
mod watches;
mod writer;
pub(crate) mod writes;
