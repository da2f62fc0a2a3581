//! Handle of a server, and a bound address.

use std::future::{Future, pending};
use std::net::SocketAddr;
use std::sync::Arc;

use oxds_client::ServerConfigWatch;

use crate::builder::Builder;
use crate::error::ServeError;
use crate::listening::Listening;
use crate::shared::Shared;
use crate::socket::Socket;
use crate::status::{ListenerState, ServerStatus};

/// A gRPC server that a control plane configures. Clones are the same server.
#[derive(Clone, Debug)]
pub struct XdsServer {
    shared: Arc<Shared>,
}

/// A server with an address, which is bound and does not listen yet.
#[derive(Debug)]
#[must_use = "a bound address does nothing until it serves"]
pub struct BoundServer {
    shared: Arc<Shared>,
    socket: Socket,
    state: Arc<ListenerState>,
    configs: ServerConfigWatch,
}

impl XdsServer {
    /// Returns a builder of a server.
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub(crate) fn new(shared: Shared) -> Self {
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Binds an address, and starts to ask the control plane for its configuration. Port 0 is a free port, whose number
    /// is in [`BoundServer::local_addr`] and in the name of the listener resource.
    ///
    /// # Errors
    /// [`ServeError::Bind`].
    ///
    /// # Panics
    /// If called outside a tokio runtime.
    pub fn bind(&self, address: SocketAddr) -> Result<BoundServer, ServeError> {
        let bind = |source| ServeError::Bind { address, source };
        let socket = Socket::bind(address).map_err(bind)?;
        let configs = ServerConfigWatch::new(&self.shared.clients, socket.address())?;
        let listener = Arc::clone(configs.listener_name());
        let state = Arc::new(ListenerState::new(socket.address(), listener));
        self.shared.register(&state);
        Ok(BoundServer {
            shared: Arc::clone(&self.shared),
            socket,
            state,
            configs,
        })
    }

    /// Serves an address as the control plane configures it. Returns only with an error. A server may serve several
    /// addresses.
    ///
    /// # Errors
    /// [`ServeError::Bind`]. The state of the control plane is not an error, but the serving mode.
    ///
    /// # Cancel safety
    /// Dropping the future closes the port and its connections at once.
    pub async fn serve(&self, address: SocketAddr) -> Result<(), ServeError> {
        self.serve_with_shutdown(address, pending()).await
    }

    /// Serves an address until `signal` completes. Then it closes the port and drains the connections: they get a
    /// GOAWAY, and RPCs may go on for [`drain_grace`](crate::Builder::drain_grace). Returns when the last connection is
    /// closed.
    ///
    /// # Errors
    /// As [`serve`](Self::serve).
    ///
    /// # Cancel safety
    /// As [`serve`](Self::serve).
    pub async fn serve_with_shutdown(
        &self,
        address: SocketAddr,
        signal: impl Future<Output = ()>,
    ) -> Result<(), ServeError> {
        self.bind(address)?.serve_with_shutdown(signal).await;
        Ok(())
    }

    /// Returns the current state of its addresses.
    #[must_use]
    pub fn status(&self) -> ServerStatus {
        ServerStatus {
            listeners: self.shared.listeners(),
        }
    }
}

impl BoundServer {
    /// Returns the address.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.state.address
    }

    /// Serves as the control plane configures it. Never returns; see [`XdsServer::serve`].
    pub async fn serve(self) {
        self.serve_with_shutdown(pending()).await;
    }

    /// Serves until `signal` completes; see [`XdsServer::serve_with_shutdown`].
    pub async fn serve_with_shutdown(self, signal: impl Future<Output = ()>) {
        let listening = Listening::new(self.shared, self.socket, self.state, self.configs);
        listening.run(signal).await;
    }
}
