//! State that the handles and watches of a client share.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use oxds_types::ResourceType;
use tokio::sync::{mpsc, oneshot};

use super::authorities::{self, Authorities, ClientPlan};
use super::command::Command;
use super::status::ResourceStatus;
use super::task::{ClientDriver, DriverPlan};
use crate::bootstrap::Bootstrap;
use crate::link::ServerLinks;
use crate::load::LoadReporter;
use crate::options::Options;
use crate::source::{Peer, Source, SourceError, SourceSpecifier};
use crate::telemetry::Observers;

/// Resource timeout that never ends in practice.
const NO_TIMEOUT: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// State that the handles and watches of a client share. The driver stops, and closes its sockets, when the last of
/// them is dropped.
#[derive(Debug)]
pub(crate) struct ClientShared {
    pub(crate) bootstrap: Arc<Bootstrap>,
    pub(crate) authorities: Authorities,
    pub(crate) loads: LoadReporter,
    options: Options,
    observers: Observers,
    /// Connections of all streams: ADS, LRS, and those of the sources.
    links: ServerLinks,
    commands: mpsc::UnboundedSender<Command>,
    sources: Mutex<SourceClients>,
}

/// Clients of the sources that are in use. The key has a resource type if each type has its own stream, poll or file
/// (C-272).
type SourceClients = HashMap<(Source, Option<ResourceType>), Weak<ClientShared>>;

impl ClientShared {
    /// Starts the driver of a client of the bootstrap's servers.
    ///
    /// # Panics
    /// If called outside a tokio runtime.
    pub(crate) fn new(
        bootstrap: Arc<Bootstrap>,
        options: Options,
        observers: Observers,
    ) -> Arc<Self> {
        let plan = authorities::plan(&bootstrap, &options);
        let links = ServerLinks::new(options.keepalive);
        Self::start(bootstrap, options, observers, plan, links)
    }

    fn start(
        bootstrap: Arc<Bootstrap>,
        options: Options,
        observers: Observers,
        plan: ClientPlan,
        links: ServerLinks,
    ) -> Arc<Self> {
        let (commands, queue) = mpsc::unbounded_channel();
        let loads = {
            let peers = plan.peers.iter();
            let servers = peers.filter_map(|(id, peer)| Some((*id, peer.grpc_server()?)));
            LoadReporter::new(servers, &bootstrap, &options, &links)
        };
        let driver = DriverPlan {
            config: plan.config,
            peers: plan.peers,
            node: bootstrap.node.clone(),
            options: options.clone(),
            links: links.clone(),
        };
        tokio::spawn(ClientDriver::new(driver, queue, observers.clone()).supervise());
        Arc::new(Self {
            bootstrap,
            authorities: plan.authorities,
            loads,
            options,
            observers,
            links,
            commands,
            sources: Mutex::default(),
        })
    }

    /// Returns the client of a source. For ADS this is the client itself; all watches of another source share one
    /// client.
    ///
    /// # Errors
    /// [`SourceError::NoService`] if the source cannot deliver the resource type.
    pub(crate) fn of_source(
        self: &Arc<Self>,
        source: &Source,
        resource_type: &ResourceType,
    ) -> Result<Arc<Self>, SourceError> {
        if source.specifier == SourceSpecifier::Ads {
            return Ok(Arc::clone(self));
        }
        // Sources other than ADS have one stream, poll or file per type, so the type is part of the key (C-272).
        let of_type = (!source.is_aggregated()).then(|| resource_type.clone());
        let key = (source.clone(), of_type);
        let mut sources = self.lock_sources();
        let shared = sources.get(&key).and_then(Weak::upgrade);
        if let Some(shared) = shared.filter(|shared| shared.is_alive()) {
            return Ok(shared);
        }
        sources.retain(|_, client| client.strong_count() > 0);
        let client = self.start_source(source, resource_type)?;
        sources.insert(key, Arc::downgrade(&client));
        Ok(client)
    }

    fn start_source(
        &self,
        source: &Source,
        resource_type: &ResourceType,
    ) -> Result<Arc<Self>, SourceError> {
        let (bootstrap, mut options) = (&self.bootstrap, self.options.clone());
        if let Some(timeout) = source.initial_fetch_timeout {
            options.resource_timeout = match timeout {
                // config_source.proto, `initial_fetch_timeout`: 0 means no timeout.
                Duration::ZERO => NO_TIMEOUT,
                timeout => timeout,
            };
        }
        let peers = source.peers(resource_type, bootstrap, options.protocol)?;
        let uri = peers.first().map(Peer::uri).unwrap_or_default();
        let observers = self.observers.of_source(&uri);
        let plan = authorities::plan_source(bootstrap, &options, peers);
        let (bootstrap, links) = (Arc::clone(bootstrap), self.links.clone());
        Ok(Self::start(bootstrap, options, observers, plan, links))
    }

    fn lock_sources(&self) -> MutexGuard<'_, SourceClients> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the status of all watched resources, of all sources; `None` when the client's runtime has stopped.
    pub(crate) async fn dump(&self) -> Option<Vec<ResourceStatus>> {
        let mut all = self.dump_own().await?;
        let sources: Vec<_> = {
            let sources = self.lock_sources();
            sources.values().filter_map(Weak::upgrade).collect()
        };
        for source in sources {
            all.extend(source.dump_own().await.unwrap_or_default());
        }
        Some(all)
    }

    async fn dump_own(&self) -> Option<Vec<ResourceStatus>> {
        let (sender, status) = oneshot::channel();
        self.commands.send(Command::Dump(sender)).ok()?;
        status.await.ok()
    }

    /// Sends a command. Returns `false` if the driver has stopped, which happens only with its runtime.
    pub(crate) fn send(&self, command: Command) -> bool {
        self.commands.send(command).is_ok()
    }

    /// Returns whether the driver is running.
    pub(crate) fn is_alive(&self) -> bool {
        !self.commands.is_closed()
    }
}
