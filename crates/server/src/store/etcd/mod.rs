//! etcd as a store for several replicas.
//!
//! Only its [`client`] exists yet.

pub mod client;
