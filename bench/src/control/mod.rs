//! traffic between clients and control planes, and the memory of clients.

pub(crate) mod calls;
mod failover;
pub(crate) mod held;
pub(crate) mod resources;
mod startup;

pub(crate) use failover::run as failover;
pub(crate) use held::run as held;
pub(crate) use startup::run as startup;
