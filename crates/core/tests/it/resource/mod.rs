//! Views: valid resources, and the errors of invalid ones.

mod assignment;
mod cluster;
mod filter;
mod listener;
mod policy;
mod route;
mod socket_listener;
mod tls;
mod v2;
