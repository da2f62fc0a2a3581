//! The demo's view of its store: the folder, with backends started before the client hears of them.
//!
//! ```text
//!   DirStore ──Update──► Watched: plan, backends, news ──Update──► server ──► channel
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

use super::plan::Plan;

/// What the folder says at present.
#[derive(Clone, Debug, Default)]
pub(super) struct News {
    pub(super) plan: Arc<Plan>,
    /// By kind, in the order in which they are sent.
    pub(super) versions: Vec<(ResourceType, String)>,
    /// The latest change of what is served: when, and which resources.
    pub(super) changed: Option<(Instant, Vec<String>)>,
    /// What is wrong with the folder.
    pub(super) findings: Vec<Finding>,
    /// Endpoints without a backend, and why.
    pub(super) without_backend: BTreeMap<SocketAddr, String>,
}

/// A folder that is looked over before it is served.
#[derive(Debug)]
pub(super) struct Watched {
    store: DirStore,
    snapshot: Arc<Snapshot>,
    backends: BTreeMap<SocketAddr, EchoBackend>,
    news: watch::Sender<News>,
}

impl Watched {
    /// The store to serve, and what it has to say; the first of it once the folder was read.
    pub(super) fn new(store: DirStore) -> (Self, watch::Receiver<News>) {
        let (news, receiver) = watch::channel(News::default());
        let watched = Self {
            store,
            snapshot: Snapshot::unloaded(),
            backends: BTreeMap::new(),
            news,
        };
        (watched, receiver)
    }

    async fn look_over(&mut self, update: &Update) {
        let first = !self.snapshot.is_loaded();
        let (snapshot, changed) = self.snapshot.apply(update.changes.clone());
        self.snapshot = snapshot;
        let plan = Plan::of(&self.snapshot);
        let without_backend = self.start_backends(&plan).await;
        let changed = changed
            .iter()
            .map(|c| format!("{} {}", short(&c.resource_type), c.name));
        let changed: Vec<_> = changed.collect();
        self.news.send_modify(|news| {
            *news = News {
                plan: Arc::new(plan),
                versions: self.versions(),
                changed: if first || changed.is_empty() {
                    news.changed.take()
                } else {
                    Some((Instant::now(), changed))
                },
                findings: update.findings.clone(),
                without_backend,
            };
        });
    }

    /// One backend per endpoint on this machine. Those no longer needed stay: calls may be under way.
    async fn start_backends(&mut self, plan: &Plan) -> BTreeMap<SocketAddr, String> {
        let mut failed = BTreeMap::new();
        for address in plan.addresses() {
            if self.backends.contains_key(&address) {
                continue;
            }
            if !address.ip().is_loopback() {
                let why = "not on this machine's loopback: no backend is started for it";
                failed.insert(address, why.to_owned());
                continue;
            }
            match EchoBackend::start_on(address).await {
                Ok(backend) => {
                    self.backends.insert(address, backend);
                }
                Err(error) => {
                    failed.insert(address, format!("no backend can listen here: {error}"));
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

impl Store for Watched {
    async fn next(&mut self) -> Option<Update> {
        let update = self.store.next().await?;
        self.look_over(&update).await;
        Some(update)
    }
}

/// The last part of a kind's name: what people call it.
fn short(resource_type: &ResourceType) -> &str {
    let message = resource_type.message();
    message.rsplit('.').next().unwrap_or(message)
}
