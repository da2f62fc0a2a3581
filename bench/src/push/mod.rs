//! P-1 … P-13: cost of a change for a server, by the number of its resources and of its clients.
//!
//! ```text
//!    processor 0                                   processor 1
//!   ┌──────────────────────┐   lines, "change"    ┌────────────────────────────────┐
//!   │ a scenario, its      │ ───────────────────▶ │ oxds-server, or go-control-    │
//!   │ swarm and its probes │ ◀── discovery ─────▶ │ plane's snapshot, linear cache │
//!   └──────────────────────┘     streams          └────────────────────────────────┘
//! ```
//!
//! | scenario | module |
//! |---|---|
//! | P-1: one of M clusters changes, one client | [`change`] |
//! | P-2, P-3, P-4: one change, many clients | [`fan_out`] |
//! | P-5: all resources to each client, over SotW | [`full_state`] |
//! | P-6, P-7: all clients reconnect at once | [`reconnect`] |
//! | P-8: memory of a client that waits | [`idle`] |
//! | P-9: changes without a pause | [`sustained`] |
//! | P-10: clients that stop reading | [`stalled`] |
//! | P-11: a whole state replaced by an equal one | [`replace`] |
//! | P-12: node groups | [`groups`] |
//! | P-13: a resource that every client NACKs | [`poison`] |
//! | GB-1 … GB-16, but for GB-11: replicas of a configuration in etcd | [`replicas`] |
//! | O-1, O-2: pages for operators, and their readers | [`operators`] |

pub(crate) mod change;
pub(crate) mod fan_out;
pub(crate) mod full_state;
pub(crate) mod groups;
mod http;
pub(crate) mod idle;
mod metrics;
pub(crate) mod operators;
pub(crate) mod poison;
mod probe;
pub(crate) mod reconnect;
pub(crate) mod replace;
pub(crate) mod replicas;
mod request;
mod resources;
pub(crate) mod rig;
mod server;
pub(crate) mod stalled;
pub(crate) mod sustained;
mod swarm;

pub(crate) use server::serve;
