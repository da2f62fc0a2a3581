//! Pickers: from a request and random numbers to a route, a cluster, a priority, an endpoint.

mod choice;
mod matching;
mod priorities;
mod virtual_host;
