//! The feed: from a store to the cache.
//!
//! ```text
//!  Store::next ──▶ Update ──▶ rollback ──▶ cache ──▶ sessions
//!                    │ └ findings ──▶ store health, log
//!                    └ state on disk
//!
//!  start:
//!  ┌─────────┐ first update                          ┌─────────┐
//!  │ waiting │ ────────────────────────────────────▶ │ current │
//!  └─────────┘                                       └─────────┘
//!       │ 0.5 s, or the store is unavailable              ▲
//!       ▼                                                 │ first update: only the difference
//!  ┌─────────────────────────────────────────────┐        │
//!  │ stale: the state on disk is served, if any  │ ───────┘
//!  └─────────────────────────────────────────────┘
//! ```

use std::collections::BTreeSet;
use std::mem;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use oxds_core::group::GroupUpdate;
use oxds_core::rollout::{ChangeSort, RolloutContents, Unanswered};
use oxds_core::session::Progress;
use oxds_core::snapshot::{Awaited, ChangeSet, ResourceKey, Snapshot};
use oxds_types::ResourceType;
use tokio::time::timeout;
use tracing::{Level, info, warn};

#[cfg(feature = "etcd")]
use super::fleet_member::Member;
use crate::cache::Answers;
use crate::context::Context;
use crate::store::{
    ClientCounts, Demand, Finding, Findings, Health, LastGood, Origin, ServerLink, Severity, Stale,
    Started, Store, Update,
};

/// A future that feeds the cache until the store ends.
pub(super) type Feed = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A store that feeds the cache once the server's state exists, and what the server must know of it before.
pub(super) struct StoreFeed {
    pub(super) start: Box<dyn FnOnce(Target) -> Feed + Send>,
    /// Whether clients may have the state of the store already.
    pub(super) is_shared: bool,
    pub(super) decides_rollbacks: bool,
}

/// Everything that updates go to.
pub(super) struct Target {
    pub(super) context: Arc<Context>,
    pub(super) health: Arc<Health>,
    pub(super) state: Option<Started>,
    /// The gRPC port, and the HTTP port if there is one.
    pub(super) addresses: (SocketAddr, Option<SocketAddr>),
}

impl StoreFeed {
    pub(super) fn of(store: impl Store) -> Self {
        Self {
            is_shared: store.is_shared(),
            decides_rollbacks: store.decides_rollbacks(),
            start: Box::new(|target| Box::pin(run(store, target))),
        }
    }
}

/// Time for a store to deliver before the state on disk is served. A store that is there needs less, unless it is
/// large; then clients that reconnect need not wait for it.
const WAIT_FOR_STORE: Duration = Duration::from_millis(500);

/// Time for a store to end what it has at its source. Clients drain in that time.
const CLOSE: Duration = Duration::from_secs(1);

/// Feeds the cache until the store ends or the server shuts down.
async fn run(mut store: impl Store, target: Target) {
    let closing = target.context.server.closing.clone();
    tokio::select! {
        () = feed(&mut store, target) => {
            warn!("store ended, its last resources stay served");
            closing.cancelled().await;
        }
        () = closing.cancelled() => {}
    }
    if timeout(CLOSE, store.close()).await.is_err() {
        warn!("store did not close in time");
    }
}

async fn feed(store: &mut impl Store, mut target: Target) {
    store.watch_demand(Demand::new(target.context.cache.clone()));
    store.link(target.link());
    let mut stale = target
        .state
        .as_mut()
        .and_then(|state| state.last_good.take());
    let (mut is_served, mut is_first) = (false, true);
    loop {
        let update = {
            // Not cancel-safe, so it is polled to its end.
            let mut next = pin!(store.next());
            match stale.as_ref().filter(|_| !is_served) {
                None => next.await,
                Some(last_good) => match timeout(WAIT_FOR_STORE, next.as_mut()).await {
                    Ok(update) => update,
                    Err(_) => {
                        is_served = true;
                        target.serve_stale(last_good);
                        next.await
                    }
                },
            }
        };
        let was_served = is_served;
        is_served |= update.as_ref().is_none_or(|update| update.is_unavailable);
        if let Some(last_good) = stale.as_ref().filter(|_| is_served && !was_served) {
            target.serve_stale(last_good);
        }
        match update {
            None => break,
            Some(update) if update.is_unavailable => target.note(update),
            Some(mut update) => {
                let last_good = stale.take();
                match &last_good {
                    Some(last_good) if !update.continues_last_good => {
                        last_good.complete(&mut update);
                    }
                    // Clients must not see the state in between.
                    Some(last_good) if !is_served => last_good.precede(&mut update),
                    _ => {}
                }
                target.apply(update);
                if mem::take(&mut is_first) {
                    target.end_stale();
                }
            }
        }
    }
    target.health.end();
    target.context.cache.notifier().notify();
}

impl Target {
    /// Returns the way back for the store.
    fn link(&self) -> ServerLink {
        let (health, cache) = (Arc::clone(&self.health), self.context.cache.clone());
        let context = Arc::clone(&self.context);
        ServerLink::new(
            health,
            cache,
            self.addresses,
            move || count(&context),
            #[cfg(feature = "etcd")]
            Arc::new(Member(Arc::clone(&self.context))),
        )
    }

    /// Serves the state of an earlier process.
    fn serve_stale(&self, last_good: &LastGood) {
        let (saved_at, resources) = (last_good.saved_at(), last_good.len());
        let age = saved_at
            .and_then(|at| at.elapsed().ok())
            .unwrap_or_default();
        warn!(
            ?age,
            resources, "store is not available: serving the last good state, which is on disk"
        );
        self.health.set_stale(Some(Stale { saved_at }));
        let cache = &self.context.cache;
        if last_good.lacks_secrets() {
            cache.set_awaited(Awaited::Types([ResourceType::SECRET].into()));
        }
        let mut update = last_good.as_update();
        update.origin = Origin::new("state on disk");
        log_changes(&update, &cache.snapshot());
        self.serve(&update.origin, update.changes, update.groups);
        cache.notifier().notify();
    }

    /// Marks the served state as current, and as known.
    fn end_stale(&self) {
        if self.health.set_stale(None).is_some() {
            info!("store delivered: the served state is current again");
        }
        self.context.cache.set_awaited(Awaited::Nothing);
        self.context.cache.notifier().notify();
    }

    /// Applies one update: errors of resources, then resources, then findings.
    fn apply(&self, mut update: Update) {
        let before = self.context.cache.snapshot();
        log_changes(&update, &before);
        // Before the resources: a session that the change wakes reads the errors of its names.
        before.set_resource_errors(resource_errors(&update.findings));
        if let Some(state) = &self.state {
            state.recorder.record(&update);
        }
        let (changes, groups) = (
            mem::take(&mut update.changes),
            mem::take(&mut update.groups),
        );
        self.serve(&update.origin, changes, groups);
        self.note(update);
    }

    fn serve(&self, origin: &Origin, changes: ChangeSet, groups: Vec<GroupUpdate>) {
        let context = &self.context;
        let review = context.rollback.review(&context.clients, changes, groups);
        let cache = &context.cache;
        cache.update_from(origin.into(), review.changes, review.groups);
        // Unlocked after the cache has the update, so that a rollback cannot overtake it.
        drop(review.lock);
    }

    /// Records what an update reports about the store.
    fn note(&self, update: Update) {
        let now = Findings {
            listed: update.findings,
            more: update.more_findings,
        };
        self.context.server.metrics.notices(update.notices);
        self.health.record_uses(update.deprecated_uses);
        let before = self.health.record(now.clone(), update.took);
        self.context.cache.notifier().notify();
        now.log(&before);
    }
}

/// Counts how far the clients are.
fn count(context: &Context) -> ClientCounts {
    let mut counts = ClientCounts {
        change: context.cache.convergence().latest(),
        ..ClientCounts::default()
    };
    context.clients.each(&context.cache, |client, snapshot| {
        let is_in_sync = client.is_in_sync(snapshot);
        let (mut is_nacked, mut has_answered) = (false, true);
        for one in client.resource_types() {
            let progress = client.progress(&one.resource_type, snapshot);
            is_nacked |= progress == Progress::Nacked;
            // A client that NACKed an earlier response has not answered one that is under way.
            has_answered &= progress == Progress::Synced
                || progress == Progress::Nacked && one.waiting_since.is_none();
        }
        counts.clients += 1;
        counts.in_sync += u64::from(is_in_sync);
        counts.nacked += u64::from(is_nacked);
        if !is_in_sync && !has_answered {
            // How far a client is that polls is not known: it delays everything.
            let polls = Unanswered {
                connected: Some(0),
                ..Unanswered::default()
            };
            let answers = client.answers.as_ref();
            let unanswered = answers.map_or(polls, Answers::unanswered);
            counts.unanswered = counts.unanswered.and(unanswered);
        }
    });
    counts
}

/// Logs which resources an update adds, changes and removes. Unchanged resources in the
/// update are not counted.
fn log_changes(update: &Update, before: &Snapshot) {
    let has_removals = !update.changes.removals.is_empty();
    if !has_removals && !tracing::enabled!(Level::INFO) {
        return;
    }
    let mut contents = RolloutContents::default();
    contents.add_changes(&update.changes, None, |(resource_type, name)| {
        let resource = before.get(resource_type, name);
        resource.map(|resource| resource.version())
    });
    let origin = &update.origin;
    for (resource_type, of_type) in contents.types() {
        let removed = of_type.removed.count;
        let of = before.of_type(resource_type).collection().len();
        // Rarely what an operator intends, and hard to undo for clients without a fallback.
        if removed > MANY_REMOVALS && removed * 2 > of {
            warn!(%resource_type, removed, of, %origin, "many resources removed at once");
        }
    }
    for group in &update.groups {
        add_group(&mut contents, group);
    }
    let [added, changed, removed] = contents.counts();
    if added + changed + removed > 0 || !update.groups.is_empty() {
        info!(added, changed, removed, names = %contents, %origin, took = ?update.took, "config updated");
    }
}

/// Adds the changes of a group. It has no snapshot here, so each of its resources counts as changed.
fn add_group(contents: &mut RolloutContents, group: &GroupUpdate) {
    let GroupUpdate { name, changes, .. } = group;
    let upserted: BTreeSet<ResourceKey> = changes
        .upserts
        .iter()
        .map(|resource| {
            (
                resource.resource_type().clone(),
                Arc::clone(resource.name()),
            )
        })
        .collect();
    for key in &upserted {
        contents.add(ChangeSort::Changed, key, Some(name));
    }
    let removed: BTreeSet<&ResourceKey> = changes.removals.iter().collect();
    for key in removed.into_iter().filter(|key| !upserted.contains(*key)) {
        contents.add(ChangeSort::Removed, key, Some(name));
    }
}

/// The number of removals of a type in one update above which a removal of more than half of them is logged as a
/// warning.
const MANY_REMOVALS: usize = 10;

/// Returns the errors of resources by type and name, as sessions report them (S-73).
fn resource_errors(
    findings: &[Finding],
) -> impl Iterator<Item = (ResourceType, Arc<str>, Arc<str>)> {
    let errors = findings.iter().filter(|f| f.severity == Severity::Error);
    errors.filter_map(|error| {
        let (resource_type, name) = (error.resource_type.clone()?, error.resource.as_deref()?);
        Some((resource_type, name.into(), error.to_string().into()))
    })
}
