//! Builder of servers.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::Request;
use oxds_client::metrics::Recorder;
use oxds_client::{Bootstrap, ClientPool};
use tonic::body::Body;
use tonic::codegen::http::Response;
use tonic::server::NamedService;
use tonic::service::Routes;
use tower_service::Service;

use crate::credentials::XdsServerCredentials;
use crate::error::BuildError;
use crate::metrics::ServerMetrics;
use crate::mode::{ModeCallback, ServingMode};
use crate::server::XdsServer;
use crate::shared::{Settings, Shared};

/// Builds an [`XdsServer`]; from [`XdsServer::builder`].
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Builder {
    routes: Routes,
    clients: Option<ClientPool>,
    credentials: XdsServerCredentials,
    on_mode: Option<ModeCallback>,
    recorder: Option<Arc<dyn Recorder>>,
    settings: Settings,
    name: Option<String>,
}

impl Builder {
    /// Adds a service, as `tonic::transport::Server` takes it.
    pub fn add_service<S>(mut self, service: S) -> Self
    where
        S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>
            + NamedService
            + Clone
            + Send
            + Sync
            + 'static,
        S::Future: Send + 'static,
    {
        self.routes = self.routes.add_service(service);
        self
    }

    /// Serves these routes, in the place of the services that were added before. `oxds_client::admin::services` returns
    /// those of the admin services (gRFC A38).
    pub fn routes(mut self, routes: Routes) -> Self {
        self.routes = routes;
        self
    }

    /// Uses the control planes of this bootstrap and ignores the environment. The server gets an xDS client of its own;
    /// to share it with channels and other servers, use [`clients`](Self::clients).
    pub fn bootstrap(self, bootstrap: Bootstrap) -> Self {
        self.clients(ClientPool::new(bootstrap))
    }

    /// Shares the xDS clients of this pool. By default the server uses the process's clients, whose bootstrap is in
    /// `GRPC_XDS_BOOTSTRAP` (a path) or `GRPC_XDS_BOOTSTRAP_CONFIG` (JSON).
    pub fn clients(mut self, clients: ClientPool) -> Self {
        self.clients = Some(clients);
        self
    }

    /// Sets the credentials. By default connections are plaintext where the control plane does not configure TLS.
    pub fn credentials(mut self, credentials: XdsServerCredentials) -> Self {
        self.credentials = credentials;
        self
    }

    /// Calls `on_change` with each new serving mode of an address (gRFC A36), and with each new reason of
    /// [`NotServing`](ServingMode::NotServing). It is called from the task that accepts connections, so it must not
    /// block. The server logs the changes, too.
    pub fn on_serving_mode(
        mut self,
        on_change: impl Fn(SocketAddr, &ServingMode) + Send + Sync + 'static,
    ) -> Self {
        self.on_mode = Some(ModeCallback::new(on_change));
        self
    }

    /// Sets how long RPCs of a connection may go on when the connection must end: its listener was replaced or deleted,
    /// or the server shuts down. Default: ten minutes (gRFC A36).
    pub fn drain_grace(mut self, grace: Duration) -> Self {
        self.settings.drain_grace = grace;
        self
    }

    /// Sets how long a client has for its TLS handshake and its HTTP/2 preface. Default: two minutes.
    pub fn handshake_timeout(mut self, timeout: Duration) -> Self {
        self.settings.handshake_timeout = timeout;
        self
    }

    /// Sets how many connections of an address may be in their handshake. With one more, the oldest of them is closed,
    /// so that clients that never finish do not keep others out. At least 1; default: 1,024.
    pub fn max_handshakes(mut self, max: usize) -> Self {
        self.settings.max_handshakes = max.max(1);
        self
    }

    /// Sets the limit of concurrent RPCs on a connection, which clients respect; `None` for no limit. Default: 200.
    pub fn max_concurrent_streams(mut self, max: impl Into<Option<u32>>) -> Self {
        self.settings.max_concurrent_streams = max.into();
        self
    }

    /// Sends a PING on each connection after every `interval`, and closes it without an answer after `timeout`. Off by
    /// default.
    pub fn keepalive(mut self, interval: Duration, timeout: Duration) -> Self {
        self.settings.keepalive = Some((interval, timeout));
        self
    }

    /// Records metrics of the server. The default is the recorder of its [clients](ClientPool::with_recorder); without
    /// one, nothing is measured. [`docs/metrics.md`] describes the metrics.
    ///
    /// [`docs/metrics.md`]: https://github.com/oxds/oxds/blob/main/docs/metrics.md
    pub fn recorder(mut self, recorder: Arc<dyn Recorder>) -> Self {
        self.recorder = Some(recorder);
        self
    }

    /// Sets the name of the server in channelz. By default it is the name of the listener resource.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Builds the server. It asks its control plane when it [serves](XdsServer::serve) an address.
    ///
    /// # Errors
    /// [`BuildError`]. An unreachable control plane is not an error, but the reason of
    /// [`NotServing`](ServingMode::NotServing).
    pub fn build(self) -> Result<XdsServer, BuildError> {
        let clients = match self.clients {
            Some(clients) => clients,
            None => ClientPool::from_env()?,
        };
        // gRFC A36: without a template, the server could never serve. The address plays no role for this.
        clients
            .bootstrap()
            .server_listener_name(SocketAddr::from(([0; 4], 0)))?;
        let recorder = self.recorder.or_else(|| clients.recorder().cloned());
        let metrics = recorder.map(|recorder| Arc::new(ServerMetrics::new(recorder)));
        Ok(XdsServer::new(Shared {
            clients,
            routes: self.routes.prepare(),
            credentials: self.credentials,
            on_mode: self.on_mode,
            metrics,
            settings: self.settings,
            name: self.name,
            listeners: Mutex::default(),
        }))
    }
}
