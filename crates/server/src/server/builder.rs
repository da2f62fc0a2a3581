//! Set-up of a server.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use oxds_core::session::Config;
use oxds_core::snapshot::Awaited;
use oxds_types::runtime::{Disk, Runtime, UnknownLayer};
use oxds_types::{ApiVersion, ResourceType};
use tokio_util::sync::CancellationToken;

use super::feed::{StoreFeed, Target};
use super::run::Server;
use crate::cache::Cache;
use crate::calls::{Budget, ClientLog, Clock, CsdsAccess, Limits, Shared};
use crate::clients::Clients;
use crate::context::Context;
use crate::disk_layers::DiskLayer;
use crate::hooks::{AnyHooks, Hooks};
use crate::load::LoadReports;
use crate::metrics::Metrics;
use crate::not_representable::NotRepresentableLog;
use crate::rollback::{OnNack, RollbackDriver, RollbackFile};
use crate::security::{HttpSecurity, Security};
use crate::store::{Health, Reporter, SavedState, Store};
use crate::transport::{BindError, bind};

/// Configuration of a server. Start with [`Server::builder`].
#[must_use = "a builder does nothing until it is bound"]
#[derive(Default)]
pub struct Builder {
    addresses: Addresses,
    cache: Cache,
    config: Config,
    limits: Limits,
    csds: CsdsAccess,
    security: Security,
    http_security: HttpSecurity,
    hooks: Option<Arc<dyn AnyHooks>>,
    feed: Option<StoreFeed>,
    load_reports: LoadReports,
    rollback: RollbackOptions,
    lost_log_lines: Arc<AtomicU64>,
    state: Option<SavedState>,
    runtime: RuntimeOptions,
    oldest_api: Option<ApiVersion>,
}

/// Addresses to bind.
#[derive(Debug, Default)]
struct Addresses {
    grpc: Option<SocketAddr>,
    http: Option<SocketAddr>,
}

/// The runtime, and its layers that are read from disk.
#[derive(Default)]
struct RuntimeOptions {
    handle: Runtime,
    disks: Vec<DiskLayer>,
}

/// Handling of NACKs of a change from the store.
#[derive(Default)]
struct RollbackOptions {
    on_nack: OnNack,
    file: Option<RollbackFile>,
}

impl Builder {
    /// Sets the address of the gRPC port: ADS, health, reflection and REST discovery. Port 0 lets the system choose.
    /// Default: `127.0.0.1:0`.
    pub fn grpc(mut self, address: SocketAddr) -> Self {
        self.addresses.grpc = Some(address);
        self
    }

    /// Sets the address of the HTTP port: metrics, status and REST discovery. Port 0 lets the system choose. Default:
    /// no HTTP port.
    pub fn http(mut self, address: SocketAddr) -> Self {
        self.addresses.http = Some(address);
        self
    }

    /// Serves this cache; the caller keeps a handle of it. Default: a new, empty cache.
    pub fn cache(mut self, cache: Cache) -> Self {
        self.cache = cache;
        self
    }

    /// Feeds the cache from a store.
    pub fn store(mut self, store: impl Store) -> Self {
        self.feed = Some(StoreFeed::of(store));
        self
    }

    /// Sets the limits and timers of sessions: names, resource types, hold timers. Call it before
    /// [`resource_type`](Self::resource_type) and [`identifier`](Self::identifier), which change parts of it.
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// Sets the limits of connections and streams: sizes, counts, times.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the clients that CSDS answers. Default: those of this machine, or, with authorization rules, those that a
    /// rule lets inspect others.
    pub fn csds(mut self, access: CsdsAccess) -> Self {
        self.csds = access;
        self
    }

    /// Sets authentication and authorization of the gRPC port. Default: every client may connect, as any node.
    pub fn security(mut self, security: Security) -> Self {
        self.security = security;
        self
    }

    /// Sets TLS of the HTTP port, and the clients that may read its pages. Default: plain HTTP, and clients of this
    /// machine. Every client may read `/healthz`, `/readyz` and `/metrics`.
    pub fn http_security(mut self, security: HttpSecurity) -> Self {
        self.http_security = security;
        self
    }

    /// Calls these hooks for every call of a client. They can deny a call.
    pub fn hooks(mut self, hooks: impl Hooks) -> Self {
        self.hooks = Some(Arc::new(hooks));
        self
    }

    /// Sets the reaction to NACKs of a change from the store. Changes that the program makes in the cache itself are
    /// never rolled back.
    pub fn on_nack(mut self, policy: OnNack) -> Self {
        self.rollback.on_nack = policy;
        self
    }

    /// Keeps what [`OnNack::Rollback`] rolled back in this file, so that a restarted server does not serve it again.
    /// Default: rollbacks end with the process.
    ///
    /// The file has the resources that are served in place of rejected ones, secrets among them; only its owner can
    /// read it. Folders on its path are made. An error is logged, and the server continues without the file.
    pub fn rollback_file(mut self, file: impl Into<PathBuf>) -> Self {
        self.rollback.file = Some(RollbackFile {
            path: file.into(),
            keeps_secrets: true,
        });
        self
    }

    /// Leaves rollbacks of secrets out of the [file](Self::rollback_file): they end with the process. Call it after
    /// that.
    pub fn rollbacks_without_secrets(mut self) -> Self {
        if let Some(file) = &mut self.rollback.file {
            file.keeps_secrets = false;
        }
        self
    }

    /// Keeps the last good state of the [store](Self::store) on disk. If an earlier process kept one, the server serves
    /// it when the store does not deliver within half a second, or reports that it cannot; status, metrics and log mark
    /// it as stale, and the server is ready. Then clients get only what the store has differently. Default: without its
    /// store, a server has no configuration.
    ///
    /// Saves run beside the updates. An error of the disk is a finding, and the server continues without saving.
    pub fn state(mut self, state: SavedState) -> Self {
        self.state = Some(state);
        self
    }

    /// Sets the runtime: settings that operators override while the server runs. The admin port shows it; requests to
    /// `/runtime_modify` change it if it has a layer of [`Source::Admin`](oxds_types::runtime::Source::Admin). Default:
    /// no layers.
    pub fn runtime(mut self, runtime: Runtime) -> Self {
        self.runtime.handle = runtime;
        self
    }

    /// Reads this layer of the runtime from disk, and again within a second of a change. An invalid change is logged,
    /// and the last valid values stay. Call it after [`runtime`](Self::runtime).
    ///
    /// # Errors
    /// The runtime has no layer of this name.
    pub fn runtime_disk(
        mut self,
        layer: impl Into<String>,
        disk: Disk,
    ) -> Result<Self, UnknownLayer> {
        let name = layer.into();
        self.runtime.handle.knows(&name)?;
        self.runtime.disks.push(DiskLayer { name, disk });
        Ok(self)
    }

    /// Records the load reports of clients here, where the caller can read them. Default: only the status shows them.
    pub fn load_reports(mut self, reports: LoadReports) -> Self {
        self.load_reports = reports;
        self
    }

    /// Shows this counter as the metric `oxds_log_lines_lost_total`: log lines that the program could not write.
    /// Default: 0.
    pub fn lost_log_lines(mut self, counter: Arc<AtomicU64>) -> Self {
        self.lost_log_lines = counter;
        self
    }

    /// Serves a resource type of your own. A client that subscribes before the cache has such a resource waits, as it
    /// does for the types of the API. Without this call it gets an empty response (S-59, S-61).
    pub fn resource_type(mut self, resource_type: ResourceType) -> Self {
        self.config.own_types.insert(resource_type);
        self
    }

    /// Serves clients of this major of the API and of later ones. A client of an older major gets UNIMPLEMENTED, with
    /// the reason in the text. Default: v2, so all clients are served.
    ///
    /// Envoy's versioning policy, "upgrade to a new API version": a server supports both majors while its clients are
    /// upgraded, and drops the older one when no client uses it. `/status.json` has the major of each client.
    pub fn oldest_api(mut self, oldest: ApiVersion) -> Self {
        self.oldest_api = Some(oldest);
        self
    }

    /// Sets `control_plane.identifier`, which names the replica in every response (S-65).
    pub fn identifier(mut self, identifier: impl Into<String>) -> Self {
        self.config.identifier = Some(identifier.into());
        self
    }

    /// Binds the addresses. Clients can connect from here on; [`Server::run`] answers them.
    ///
    /// # Errors
    /// An address cannot be bound. Then none is.
    ///
    /// # Panics
    /// Outside of a Tokio runtime.
    pub async fn bind(self) -> Result<Server, BindError> {
        let grpc = bind(
            self.addresses
                .grpc
                .unwrap_or_else(|| ([127, 0, 0, 1], 0).into()),
        )?;
        let http = self.addresses.http.map(bind).transpose()?;
        let health = Arc::new(Health::default());
        let clock = Clock::start();
        let metrics = Arc::new(Metrics::new(self.config.own_types.clone()));
        let rollback = RollbackDriver::new(
            self.rollback.on_nack,
            self.feed
                .as_ref()
                .is_some_and(|feed| feed.decides_rollbacks),
            self.rollback.file,
            self.cache.clone(),
            Arc::clone(&metrics),
            clock,
        );
        let config = Arc::new(self.config);
        let budget = Budget::of_server(&self.limits);
        self.load_reports.count_in(&budget);
        let context = Arc::new(Context {
            clients: Clients::new(
                Arc::clone(&config),
                clock,
                self.cache.notifier(),
                Arc::clone(&budget),
            ),
            cache: self.cache,
            config,
            rollback,
            not_representable: NotRepresentableLog::default(),
            server: Arc::new(Shared {
                budget: Arc::clone(&budget),
                csds: self.csds,
                limits: self.limits,
                security: self.security,
                http_security: self.http_security,
                hooks: self.hooks,
                metrics,
                clock,
                runtime: self.runtime.handle,
                oldest_api: self.oldest_api.unwrap_or(ApiVersion::V2),
                log: ClientLog::default(),
                closing: CancellationToken::new(),
            }),
        });
        let reporter = || Reporter::new("state", Arc::clone(&health), context.cache.clone());
        let state = self.state.map(|state| state.start(reporter()));
        let recorder = state.as_ref().map(|state| Arc::clone(&state.recorder));
        if let Some(state) = &state {
            health.set_state(Arc::clone(&state.status));
        }
        let has_last_good = state.iter().any(|state| state.last_good.is_some());
        let feed = self.feed.as_ref();
        if feed.is_some_and(|feed| has_last_good || feed.is_shared) {
            context.cache.set_awaited(Awaited::Everything);
        }
        let target = Target {
            context: Arc::clone(&context),
            health: Arc::clone(&health),
            state,
            addresses: (grpc.address, http.as_ref().map(|bound| bound.address)),
        };
        let feed = self.feed.map(|feed| (feed.start)(target));
        Ok(Server {
            grpc,
            http,
            context,
            health,
            feed,
            load_reports: self.load_reports,
            lost_log_lines: self.lost_log_lines,
            recorder,
            disks: self.runtime.disks,
        })
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("grpc", &self.addresses.grpc)
            .field("http", &self.addresses.http)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}
