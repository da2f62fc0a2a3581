//! HTTP/2 connections to control planes, and to the endpoints of `oxds-channel`.
//!
//! A connection is ready when the server's SETTINGS frame has arrived, not when the socket is open. Its [`Driver`] must
//! be polled for the connection to make progress, and ends with the connection. [`GoingAway`] reports the server's
//! GOAWAY at once. [`dial_with`] makes connections of hyper, which queue their requests; a caller of [`dial`] makes the
//! HTTP/2 handshake itself. This module has no pool and does not reconnect: the state machines that use it decide about
//! both.

mod dial;
mod error;
mod first_of;
mod inbound;
mod preface;
mod read_first;
mod sender;
mod uri;

pub use crate::http::Http;
pub use crate::socket::{SecureStream, Socket};
pub use dial::{
    Connected, Http2Socket, Keepalive, Opened, SocketAddresses, dial, dial_secured, dial_with, open,
};
pub use error::{DialError, ForeignPreface};
pub use inbound::{GoingAway, ReadActivity, Settings};
pub use preface::Preface;
pub use sender::{Driver, RequestBody, RequestSender, SendError};
pub use uri::{DialTarget, ServerUri};
