//! Channels over real sockets, configured by a script instead of a control plane.

mod deadline;
mod failover;
mod lifetime;
mod routing;
mod support;
mod tonic_client;
mod traffic;
