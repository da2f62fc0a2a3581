//! The client at the other end of a connection.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use http::Extensions;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use super::budget::Budgets;
use super::shared::Shared;
use crate::security::Identity;

/// Address and identity of a client. The listener adds it to the extensions of every request.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    /// Names in the client certificate; `None` if the client sent no certificate.
    pub(crate) identity: Option<Arc<Identity>>,
    /// Budgets of the connection.
    pub(crate) budgets: Budgets,
    /// Cancelled to end the connection and its streams: it is old, another server has fewer clients, or this one shuts
    /// down.
    pub(crate) moving: CancellationToken,
}

impl Peer {
    /// Returns the peer of a new connection.
    pub(crate) fn new(
        address: SocketAddr,
        identity: Option<Arc<Identity>>,
        server: &Shared,
    ) -> Self {
        Self {
            address,
            identity,
            budgets: Budgets::of_connection(&server.budget, &server.limits),
            moving: server.closing.child_token(),
        }
    }

    /// Returns the peer of a call.
    ///
    /// # Errors
    /// `INTERNAL` if the request has no peer. Only the listener creates requests, so this is a bug of the server.
    pub(crate) fn of(extensions: &Extensions) -> Result<Self, Status> {
        let peer = extensions.get::<Self>().cloned();
        peer.ok_or_else(|| Status::internal("request without peer information"))
    }

    /// Returns the names in the client certificate, none without a certificate.
    pub(crate) fn names(&self) -> Vec<String> {
        let names = self.identity.iter().flat_map(|identity| identity.names());
        names.map(str::to_owned).collect()
    }
}

/// Writes the address, then the identity in parentheses.
impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.identity {
            Some(identity) => write!(f, "{} ({identity})", self.address),
            None => self.address.fmt(f),
        }
    }
}
