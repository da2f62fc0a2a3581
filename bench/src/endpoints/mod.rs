//! a cluster of 10,000 endpoints: the cost of a change of one of them, and their memory.
//!
//! All endpoints are one backend process, which listens on every loopback address. The client has a processor to
//! itself; backends and control plane have the scenario's.

mod change;
mod held;
mod rig;
mod source;

pub(crate) use change::run as change;
pub(crate) use held::run as held;
pub(crate) use source::{Ports, serve};
