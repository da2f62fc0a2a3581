//! Load balancing: from a request and random numbers to route, cluster, priority and endpoint.

mod choice;
mod fault;
mod hash;
mod limit;
mod matching;
mod outlier;
pub(crate) mod policy;
mod priorities;
mod retry;
mod session;
mod virtual_host;
