//! HTTP/2 connections to control planes, and to the endpoints of `oxds-channel`.
//!
//! A connection is ready when the server's SETTINGS frame has arrived, not when the socket is open. Its [`Driver`] must be
//! polled for the connection to make progress, and ends with the connection. [`GoingAway`] reports the server's GOAWAY at
//! once. This module has no pool and does not
//! reconnect: the state machines that use it decide about both.

mod codec;
mod dial;
mod error;
mod first_of;
mod http;
mod inbound;
mod read_first;
mod sender;
mod socket;
mod uri;

pub use self::http::Http;
pub use codec::{RequestCodec, RequestEncoder};
pub use dial::{Connected, Keepalive, SocketAddresses, dial, dial_with, open};
pub use error::{DialError, ForeignPreface};
pub use inbound::{GoingAway, Settings};
pub use sender::{Driver, RequestBody, RequestSender, SendError};
pub use socket::{SecureStream, Socket};
pub use uri::{DialTarget, ServerUri};
