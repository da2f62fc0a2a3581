//! HTTP/2 connections: to control planes here, to endpoints in `oxds-channel`.
//!
//! A connection is ready when the server's SETTINGS have arrived, not when the socket is open; its [`Driver`] must be
//! polled for anything to move, and ends with the connection. There is no pool and no reconnecting here: those are
//! decisions of the machines above.

mod codec;
mod dial;
mod preface;
mod socket;
mod uri;

pub use codec::{RequestCodec, RequestEncoder};
pub use dial::{
    Connected, DialError, Driver, Ends, Http, Keepalive, RequestBody, dial, dial_with, open,
};
pub use preface::{Preface, Settings};
pub use socket::{Secured, Socket};
pub use uri::{Place, ServerUri};
