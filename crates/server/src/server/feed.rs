//! The feed: from a store to the cache.
//!
//! ```text
//!  Store::next ──▶ Update ──▶ rollback ──▶ cache ──▶ sessions
//!                    └ findings ──▶ store health, log
//! ```

use std::collections::{BTreeSet, HashSet};
use std::pin::Pin;
use std::sync::Arc;

use oxds_core::snapshot::ChangeSet;
use oxds_types::ResourceType;
use tracing::{error, info, warn};

use crate::discovery::Context;
use crate::store::{Demand, Finding, Health, Severity, Store, Update};

/// A future that feeds the cache until the store ends.
pub(super) type Feed = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Starts a feed, once the server's state exists.
pub(super) type StartFeed = dyn FnOnce(Arc<Context>, Arc<Health>) -> Feed + Send;

/// Returns the feed of a store.
pub(super) fn of(store: impl Store) -> Box<StartFeed> {
    Box::new(|context, health| Box::pin(run(store, context, health)))
}

async fn run(mut store: impl Store, context: Arc<Context>, health: Arc<Health>) {
    store.watch_demand(Demand::new(context.cache.clone()));
    while let Some(update) = store.next().await {
        apply(update, &context, &health);
    }
    health.end();
    context.cache.notifier().notify();
}

/// Applies one update: errors of resources, then resources, then findings.
fn apply(update: Update, context: &Context, health: &Health) {
    log_changes(&update);
    // Before the resources: a session that the change wakes reads the errors of its names.
    let errors = resource_errors(&update.findings);
    context.cache.snapshot().set_resource_errors(errors);
    let review = context
        .rollback
        .review(&context.clients, update.changes, update.groups);
    context.cache.update(review.changes, review.groups);
    // Unlocked after the cache has the update, so that a rollback cannot overtake it.
    drop(review.lock);
    let before = health.record(update.findings, update.took);
    context.cache.notifier().notify();
    log_findings(&before, &health.findings());
}

fn log_changes(update: &Update) {
    let groups = update.groups.iter().map(|group| &group.changes);
    let all = || groups.clone().chain([&update.changes]);
    let changed: usize = all().map(|changes| changes.upserts.len()).sum();
    let removed: usize = all().map(|changes| changes.removals.len()).sum();
    if changed + removed > 0 || !update.groups.is_empty() {
        let (types, origin) = (types(all()), &update.origin);
        info!(changed, removed, types, %origin, took = ?update.took, "config updated");
    }
}

/// Returns the types of changed and removed resources as `cds,eds`.
fn types<'a>(all: impl Iterator<Item = &'a ChangeSet>) -> String {
    let types: BTreeSet<&ResourceType> = all
        .flat_map(|changes| {
            let changed = changes.upserts.iter().map(|one| one.resource_type());
            let removed = changes.removals.iter().map(|(of_type, _)| of_type);
            changed.chain(removed)
        })
        .collect();
    let names: Vec<String> = types.into_iter().map(ToString::to_string).collect();
    names.join(",")
}

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

/// Logs each new finding. A finding that stays was logged before.
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
        info!("all store errors resolved");
    }
}
