//! The demo's store: the folder, with a backend started for each endpoint before clients get it.
//!
//! ```text
//!   DirStore ──Update──► DemoStore: plan, backends, status ──Update──► server ──► channel
//! ```

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use oxds_channel::testing::EchoBackend;
use oxds_core::snapshot::Snapshot;
use oxds_server::{DirStore, Finding, Store, Update};
use oxds_types::ResourceType;
use tokio::sync::watch;

use super::plan::TrafficPlan;

/// State of the folder after its last update.
#[derive(Clone, Debug, Default)]
pub(super) struct FolderStatus {
    pub(super) plan: Arc<TrafficPlan>,
    /// Version of each resource type, in the order in which types are sent.
    pub(super) versions: Vec<(ResourceType, String)>,
    /// The latest change of served resources: its time, and type and name of each.
    pub(super) changed: Option<(Instant, Vec<String>)>,
    /// Errors and warnings of the files.
    pub(super) findings: Vec<Finding>,
    /// Endpoints without a backend, with the reason.
    pub(super) without_backend: BTreeMap<SocketAddr, String>,
}

/// A folder store that starts backends before it passes an update on.
#[derive(Debug)]
pub(super) struct DemoStore {
    store: DirStore,
    snapshot: Arc<Snapshot>,
    backends: BTreeMap<SocketAddr, EchoBackend>,
    status: watch::Sender<FolderStatus>,
}

impl DemoStore {
    /// Returns the store to serve, and its status. The status changes first when the folder was read.
    pub(super) fn new(store: DirStore) -> (Self, watch::Receiver<FolderStatus>) {
        let (status, receiver) = watch::channel(FolderStatus::default());
        let demo_store = Self {
            store,
            snapshot: Snapshot::unloaded(),
            backends: BTreeMap::new(),
            status,
        };
        (demo_store, receiver)
    }

    async fn handle_update(&mut self, update: &Update) {
        let first = !self.snapshot.is_loaded();
        let (snapshot, changed) = self.snapshot.apply(update.changes.clone());
        self.snapshot = snapshot;
        let plan = TrafficPlan::of(&self.snapshot);
        let without_backend = self.start_backends(&plan).await;
        let changed = changed
            .iter()
            .map(|c| format!("{} {}", short(&c.resource_type), c.name));
        let changed: Vec<_> = changed.collect();
        self.status.send_modify(|status| {
            *status = FolderStatus {
                plan: Arc::new(plan),
                versions: self.versions(),
                changed: if first || changed.is_empty() {
                    status.changed.take()
                } else {
                    Some((Instant::now(), changed))
                },
                findings: update.findings.clone(),
                without_backend,
            };
        });
    }

    /// Starts a backend for each endpoint on loopback. Returns the endpoints without one, with the reason.
    /// Backends that are not needed any more stay, because calls may be under way.
    async fn start_backends(&mut self, plan: &TrafficPlan) -> BTreeMap<SocketAddr, String> {
        let mut failed = BTreeMap::new();
        for address in plan.addresses() {
            if self.backends.contains_key(&address) {
                continue;
            }
            if !address.ip().is_loopback() {
                let reason = "no backend started: expected a loopback address";
                failed.insert(address, reason.to_owned());
                continue;
            }
            match EchoBackend::start_on(address).await {
                Ok(backend) => {
                    self.backends.insert(address, backend);
                }
                Err(error) => {
                    failed.insert(address, format!("backend cannot listen: {error}"));
                }
            }
        }
        failed
    }

    fn versions(&self) -> Vec<(ResourceType, String)> {
        let resource_types = self.snapshot.types();
        resource_types
            .map(|(resource_type, of_type)| {
                (
                    resource_type.clone(),
                    of_type.collection().version().to_string(),
                )
            })
            .collect()
    }
}

impl Store for DemoStore {
    async fn next(&mut self) -> Option<Update> {
        let update = self.store.next().await?;
        self.handle_update(&update).await;
        Some(update)
    }
}

/// Returns the last part of a type's name, without the package.
fn short(resource_type: &ResourceType) -> &str {
    let message = resource_type.message();
    message.rsplit('.').next().unwrap_or(message)
}
