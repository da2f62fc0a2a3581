//! Setting a server up.

use std::collections::HashSet;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use oxds_core::session::Config;
use oxds_types::ResourceType;
use tokio::net::{TcpListener, TcpSocket};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::ads::{Clock, Context, Streams};
use crate::cache::Cache;
use crate::hooks::{AnyHooks, Hooks};
use crate::limits::Limits;
use crate::load::LoadReports;
use crate::metrics::Metrics;
use crate::on_nack::{OnNack, Reaction};
use crate::security::Security;
use crate::server::Server;
use crate::store::{Finding, Health, Severity, Store, Update};
use crate::withheld::Withheld;

/// Feeds a cache from a store until the store ends.
pub(crate) type Feed = Pin<Box<dyn Future<Output = ()> + Send>>;

type StartFeed = dyn FnOnce(Arc<Context>, Arc<Health>) -> Feed + Send;

/// What a server is made of. Begin with [`Server::builder`].
#[must_use = "a builder does nothing until it is bound"]
#[derive(Default)]
pub struct Builder {
    grpc: Option<SocketAddr>,
    http: Option<SocketAddr>,
    cache: Cache,
    config: Config,
    limits: Limits,
    security: Security,
    hooks: Option<Arc<dyn AnyHooks>>,
    store: Option<Box<StartFeed>>,
    load_reports: LoadReports,
    on_nack: OnNack,
}

/// An address could not be bound.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot listen on {address}: {reason}")]
#[non_exhaustive]
pub struct BindError {
    /// The address that was asked for.
    pub address: SocketAddr,
    /// Of what kind the trouble is: `AddrInUse`, above all.
    pub kind: io::ErrorKind,
    /// What the system said.
    pub reason: String,
}

impl Builder {
    /// Where ADS, health, reflection and REST discovery are served; port 0 lets the system choose. Without it: `127.0.0.1:0`.
    pub fn grpc(mut self, address: SocketAddr) -> Self {
        self.grpc = Some(address);
        self
    }

    /// Where metrics and status are served; port 0 lets the system choose. Without it they are not.
    pub fn http(mut self, address: SocketAddr) -> Self {
        self.http = Some(address);
        self
    }

    /// Serves this cache, which the caller keeps a handle of. Without it the server has one of its own.
    pub fn cache(mut self, cache: Cache) -> Self {
        self.cache = cache;
        self
    }

    /// Feeds the cache from a store.
    pub fn store(mut self, mut store: impl Store) -> Self {
        self.store = Some(Box::new(|context, health| {
            Box::pin(async move {
                while let Some(update) = store.next().await {
                    log_changes(&update);
                    // Before anybody is answered.
                    let faults = faults(&update.findings);
                    context.cache.snapshot().set_resource_errors(faults);
                    let (changes, groups) = (update.changes, update.groups);
                    context.on_nack.update(&context, changes, groups);
                    let before = health.record(update.findings, update.took);
                    context.cache.pulse().beat();
                    log_findings(&before, &health.findings());
                }
                health.end();
                context.cache.pulse().beat();
            })
        }));
        self
    }

    /// What sessions grant their clients: names, kinds, patience. Say it before [`resource_type`](Self::resource_type) and
    /// [`identifier`](Self::identifier), which are part of it.
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// What the server grants its clients: sizes, streams, times.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Who may connect to the gRPC port, and as whom. Without it everybody may, as anybody.
    pub fn security(mut self, security: Security) -> Self {
        self.security = security;
        self
    }

    /// Tells these of every call of a client, and lets them refuse it.
    pub fn hooks(mut self, hooks: impl Hooks) -> Self {
        self.hooks = Some(Arc::new(hooks));
        self
    }

    /// What to do when clients refuse what the store changed. What a program changes in the cache itself stays.
    pub fn on_nack(mut self, policy: OnNack) -> Self {
        self.on_nack = policy;
        self
    }

    /// Keeps the loads that clients report here, where the caller can read them. Without it only the status shows them.
    pub fn load_reports(mut self, reports: LoadReports) -> Self {
        self.load_reports = reports;
        self
    }

    /// Serves a kind of one's own, too: a client that asks for it before there is any waits, as it does for those of the
    /// API, instead of being told that there is none.
    pub fn resource_type(mut self, resource_type: ResourceType) -> Self {
        self.config.own_types.insert(resource_type);
        self
    }

    /// Names the replica in every response (S-65).
    pub fn identifier(mut self, identifier: impl Into<String>) -> Self {
        self.config.identifier = Some(identifier.into());
        self
    }

    /// Binds the addresses. Clients can connect from here on; they are answered by [`Server::run`].
    ///
    /// # Errors
    /// An address cannot be bound; then neither is.
    ///
    /// # Panics
    /// Outside of a Tokio runtime.
    pub async fn bind(self) -> Result<Server, BindError> {
        let grpc = bind(self.grpc.unwrap_or_else(|| ([127, 0, 0, 1], 0).into()))?;
        let http = match self.http {
            Some(address) => Some(bind(address)?),
            None => None,
        };
        let health = Arc::new(Health::default());
        let streams = Streams::new(self.cache.pulse());
        let context = Arc::new(Context {
            cache: self.cache,
            metrics: Arc::new(Metrics::new(self.config.own_types.clone())),
            config: Arc::new(self.config),
            limits: self.limits,
            security: self.security,
            hooks: self.hooks,
            streams: Arc::new(streams),
            polls: Arc::default(),
            withheld: Withheld::default(),
            clock: Clock::start(),
            closing: CancellationToken::new(),
            on_nack: Reaction::new(self.on_nack),
        });
        let feed = self
            .store
            .map(|store| store(Arc::clone(&context), Arc::clone(&health)));
        Ok(Server {
            grpc,
            http,
            context,
            health,
            feed,
            load_reports: self.load_reports,
        })
    }
}

/// Connections that may wait to be accepted. A fleet connects anew at once, and whoever finds no room tries again only
/// after a second: with Tokio's default, some 200 of them came in per second. The system's limit (`somaxconn`) holds
/// besides.
const BACKLOG: u32 = 4096;

fn bind(address: SocketAddr) -> Result<Bound, BindError> {
    let listen = || {
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4()?,
            SocketAddr::V6(_) => TcpSocket::new_v6()?,
        };
        // A successor can bind the port of a process that has just died. (On Windows this says something else.)
        #[cfg(not(windows))]
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        let listener = socket.listen(BACKLOG)?;
        let address = listener.local_addr()?;
        Ok(Bound { listener, address })
    };
    listen().map_err(|error: io::Error| BindError {
        address,
        kind: error.kind(),
        reason: error.to_string(),
    })
}

/// A listener, and where it turned out to listen.
#[derive(Debug)]
pub(crate) struct Bound {
    pub(crate) listener: TcpListener,
    pub(crate) address: SocketAddr,
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder")
            .field("grpc", &self.grpc)
            .field("http", &self.http)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

fn log_changes(update: &Update) {
    let groups = update.groups.iter().map(|group| &group.changes);
    let all = || groups.clone().chain([&update.changes]);
    let upserts: usize = all().map(|changes| changes.upserts.len()).sum();
    let removals: usize = all().map(|changes| changes.removals.len()).sum();
    if upserts + removals > 0 || !update.groups.is_empty() {
        info!(upserts, removals, took = ?update.took, "the store has changed");
    }
}

/// What is wrong with which names.
fn faults(findings: &[Finding]) -> impl Iterator<Item = (ResourceType, Arc<str>, Arc<str>)> {
    let errors = findings.iter().filter(|f| f.severity == Severity::Error);
    errors.filter_map(|error| {
        let (resource_type, name) = (error.resource_type.clone()?, error.resource.as_deref()?);
        Some((resource_type, name.into(), error.to_string().into()))
    })
}

/// One line for each finding that is new; one that stays was told before.
fn log_findings(before: &[Finding], now: &[Finding]) {
    let known: HashSet<String> = before.iter().map(Finding::to_string).collect();
    for finding in now {
        let line = finding.to_string();
        match finding.severity {
            _ if known.contains(&line) => {}
            Severity::Error => error!("{line}"),
            Severity::Warning => warn!("{line}"),
        }
    }
    if now.is_empty() && !before.is_empty() {
        info!("all that was wrong in the store is mended");
    }
}
