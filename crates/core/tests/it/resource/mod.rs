//! Views: valid resources, and the errors of invalid ones.

mod assignment;
mod cluster;
mod cluster_policy;
mod filter;
mod listener;
mod policy;
mod route;
mod route_policy;
mod socket_listener;
mod tls;
mod v2;
