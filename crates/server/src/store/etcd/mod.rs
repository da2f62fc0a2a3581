//! etcd as a store for several replicas.
//!
//! | module | content |
//! |---|---|
//! | [`client`] | a client of one member |
//! | [`writer`] | the driver of a publish, and one read of all published resources |

pub mod client;
pub mod writer;
