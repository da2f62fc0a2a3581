//! Load balancing: from a request and random numbers to route, cluster, priority and endpoint.

mod choice;
mod matching;
mod policy;
mod priorities;
mod virtual_host;
