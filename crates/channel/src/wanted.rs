//! Endpoints that RPCs wait for, on their way from picks to the driver.

use std::net::SocketAddr;

use tokio::sync::mpsc::UnboundedSender;

/// An endpoint that an RPC waits for, and the cluster of the endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// Token of the cluster's driver.
    pub(crate) token: u64,
    pub(crate) endpoint: WantedEndpoint,
}

/// An endpoint that must connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WantedEndpoint {
    /// The idle child of a policy, by the id of its member.
    Member(usize),
    /// An address that a session uses.
    Session(SocketAddr),
}

/// Sender of [`Wanted`] endpoints to the driver of one cluster.
#[derive(Clone, Debug)]
pub(crate) struct WantedSender {
    token: u64,
    wanted: UnboundedSender<Wanted>,
}

impl WantedSender {
    pub(crate) fn new(token: u64, wanted: UnboundedSender<Wanted>) -> Self {
        Self { token, wanted }
    }

    /// Asks the driver to connect an endpoint.
    pub(crate) fn send(&self, endpoint: WantedEndpoint) {
        let token = self.token;
        // Without a driver there is no channel any more, and no RPC that waits.
        let _ = self.wanted.send(Wanted { token, endpoint });
    }
}
