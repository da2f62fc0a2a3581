//! Listening sockets, and the connections that they accept.

mod connection;
mod listener;

pub(crate) use connection::{Connection, Ports};
pub use listener::BindError;
pub(crate) use listener::{Bound, bind};
