//! HTTP/2 streams: one connection with its driver, and the bodies of requests and responses.

mod connection;
mod driver;
mod incoming;
mod pump;
mod request;
mod send;
mod slot;
mod slots;

pub(crate) use connection::{Connection, InFlight};
pub(crate) use driver::ConnectionDriver;
pub(crate) use incoming::Incoming;
pub(crate) use request::RequestBody;
pub(crate) use send::RequestSender;
pub(crate) use slot::{SendError, StreamError};
