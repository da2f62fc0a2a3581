//! Load-balancing policies: which endpoint of a priority gets an RPC, and which endpoints connect.
//!
//! ```text
//!  PolicyConfig ──┐                                    ┌─► connectivity of the priority
//!  endpoints ─────┴─► Policy ── update(states) ────────┼─► children to connect
//!                       │                              └─► PolicyPicker ── pick(call, random) ─► Pick
//!                       └─► children: what connects as one
//! ```
//!
//! A [`Policy`] is built from the configuration of a cluster and the endpoints of one priority. Its *children* are the
//! groups of endpoints that connect as one: a single endpoint, or for `pick_first` all of them. Whenever the
//! connectivity of a child changes, [`Policy::update`] makes a new [`PolicyPicker`], which the request path reads.
//! Pickers have atomic counters and nothing else that changes; a pick does not allocate, lock or wait.
//!
//! | policy | module | rules |
//! |---|---|---|
//! | `round_robin` | `round_robin` | gRFC A27, A61 |
//! | `pick_first` | `pick_first` | gRFC A61, A62, A113 |
//! | `ring_hash` | `ring_hash` | gRFC A42, A61, A76 |
//! | `least_request` | `least_request` | gRFC A48 |
//! | `client_side_weighted_round_robin` | `weight`, `stride` | gRFC A58, A114 |
//! | `random_subsetting` | `tree` | gRFC A68 |
//! | those of the program | `custom` | gRFC A52 |
//! | `wrr_locality` | `tree` | gRFC A27, A52 |
//!
//! Nothing here connects, has a clock or makes random numbers: `oxds-channel` does.

mod config;
mod custom;
mod least_request;
mod pick_first;
mod picker;
mod ring_hash;
mod round_robin;
mod stride;
mod tree;
mod view;
mod weight;

pub use config::PolicyConfig;
pub use custom::{CustomEndpoint, CustomPicker, CustomPolicy, CustomUpdate, SharedPolicy};
pub use pick_first::PickFirst;
pub use picker::PolicyPicker;
pub use tree::{Policy, PolicyUpdate};
pub use view::{
    ChildAddress, Children, Demand, Pick, PickCall, PolicyChild, PolicyEndpoint, PolicyInput,
    PolicyLocality,
};
pub use weight::{EndpointWeight, WeightReport, WeightState, WeightedRoundRobinConfig};
