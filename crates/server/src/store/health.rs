//! The state of a store, for the status page and the metrics.

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use tracing::{error, info, warn};

use super::connection::{Connection, ReplicaState};
use super::finding::{Finding, FindingCounts, Severity};
use super::state_status::StateStatus;
use super::uses::DeprecatedUses;
use crate::cache::Cache;

/// The state of a store: its findings, and how many updates it yielded.
#[derive(Debug, Default)]
pub(crate) struct Health {
    latest: Mutex<Latest>,
    updates: AtomicU64,
    ended: AtomicBool,
    stale: Mutex<Option<Stale>>,
    state: OnceLock<Arc<StateStatus>>,
    connection: Mutex<Option<Connection>>,
    replicas: Mutex<Vec<ReplicaState>>,
}

/// Mark of a state that an earlier process kept, and that is served until the store delivers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stale {
    /// When its latest change was saved.
    pub(crate) saved_at: Option<SystemTime>,
}

impl Stale {
    /// Returns the time since its latest change was saved; zero if the clock went back.
    pub(crate) fn age(self) -> Duration {
        let age = self.saved_at.and_then(|at| at.elapsed().ok());
        age.unwrap_or_default()
    }
}

/// The part of the latest update that is shown.
#[derive(Debug, Default)]
struct Latest {
    store: Findings,
    deprecated_uses: DeprecatedUses,
    took: Duration,
    /// Findings of others than the store, by their names.
    others: BTreeMap<&'static str, Findings>,
}

/// Findings, and the numbers of those that are only counted.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Findings {
    pub(crate) listed: Vec<Finding>,
    pub(crate) more: FindingCounts,
}

impl Findings {
    fn counts(&self) -> FindingCounts {
        let mut counts = FindingCounts::of(&self.listed);
        counts += self.more;
        counts
    }

    /// Logs each finding that was not there before. A finding that stays was logged before.
    pub(crate) fn log(&self, before: &Self) {
        let mut known: HashSet<String> = before.listed.iter().map(Finding::log_key).collect();
        for finding in &self.listed {
            let line = finding.to_string();
            match finding.severity {
                _ if !known.insert(finding.log_key()) => {}
                // A file that takes a moment to be written is nothing to worry about.
                Severity::Warning if finding.rule == Finding::WAITING => info!("{line}"),
                Severity::Error => error!("{line}"),
                Severity::Warning => warn!("{line}"),
            }
        }
        let FindingCounts {
            errors, warnings, ..
        } = self.more;
        if self.more != before.more && self.more.total() > 0 {
            warn!(errors, warnings, "more findings, which are only counted");
        }
        if *self == Self::default() && *before != Self::default() {
            info!("all store errors resolved");
        }
    }
}

impl Health {
    /// Records an update and returns the findings of the previous one.
    pub(crate) fn record(&self, findings: Findings, took: Duration) -> Findings {
        self.updates.fetch_add(1, Relaxed);
        let mut latest = self.lock();
        latest.took = took;
        std::mem::replace(&mut latest.store, findings)
    }

    /// Records the uses of deprecated elements in the latest update.
    pub(crate) fn record_uses(&self, uses: DeprecatedUses) {
        self.lock().deprecated_uses = uses;
    }

    /// Returns the uses of deprecated elements.
    pub(crate) fn deprecated_uses(&self) -> DeprecatedUses {
        self.lock().deprecated_uses.clone()
    }

    /// Records the findings of another part of the server, and returns its previous ones.
    pub(crate) fn record_of(&self, part: &'static str, findings: Findings) -> Findings {
        let before = self.lock().others.insert(part, findings);
        before.unwrap_or_default()
    }

    /// Records that the store yields no more updates.
    pub(crate) fn end(&self) {
        self.ended.store(true, Relaxed);
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Relaxed)
    }

    /// Returns the findings of the store and of all other parts.
    pub(crate) fn findings(&self) -> Findings {
        let latest = self.lock();
        let mut all = latest.store.clone();
        for others in latest.others.values() {
            all.listed.extend(others.listed.iter().cloned());
            all.more += others.more;
        }
        all
    }

    /// Returns the numbers of errors and of warnings.
    pub(crate) fn counts(&self) -> FindingCounts {
        let latest = self.lock();
        let mut counts = latest.store.counts();
        for others in latest.others.values() {
            counts += others.counts();
        }
        counts
    }

    /// Sets whether the served state is that of an earlier process. Returns the mark that was set before.
    pub(crate) fn set_stale(&self, stale: Option<Stale>) -> Option<Stale> {
        let mut now = self.stale.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut now, stale)
    }

    /// Returns the mark of a state of an earlier process, while that is served.
    pub(crate) fn stale(&self) -> Option<Stale> {
        *self.stale.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets where to read how far the state is saved.
    pub(crate) fn set_state(&self, status: Arc<StateStatus>) {
        // A server has one state, set at its start.
        let _ = self.state.set(status);
    }

    /// Returns how far the state is saved; `None` if no state is kept.
    pub(crate) fn state(&self) -> Option<&StateStatus> {
        self.state.get().map(|status| &**status)
    }

    /// Sets the servers that follow the same source.
    #[cfg(feature = "etcd")]
    pub(crate) fn set_replicas(&self, replicas: Vec<ReplicaState>) {
        *self.lock_replicas() = replicas;
    }

    /// Returns the servers that follow the same source, by id; none if the store does not know.
    pub(crate) fn replicas(&self) -> Vec<ReplicaState> {
        self.lock_replicas().clone()
    }

    fn lock_replicas(&self) -> MutexGuard<'_, Vec<ReplicaState>> {
        self.replicas.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets how the store is connected. Returns whether that is another state than before.
    pub(crate) fn set_connection(&self, connection: Connection) -> bool {
        let mut now = self.connection();
        let is_new = now.as_ref() != Some(&connection);
        *now = Some(connection);
        is_new
    }

    /// Returns how the store is connected to its source; `None` if it does not say.
    pub(crate) fn connection(&self) -> MutexGuard<'_, Option<Connection>> {
        let connection = self.connection.lock();
        connection.unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn updates(&self) -> u64 {
        self.updates.load(Relaxed)
    }

    /// Returns how long the store took to make the latest update.
    pub(crate) fn load_time(&self) -> Duration {
        self.lock().took
    }

    fn lock(&self) -> MutexGuard<'_, Latest> {
        // Values are replaced as a whole, so a panic cannot leave half of a change.
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reports findings of a part of the program beside the store: they are logged once, and shown with those of the store.
///
/// The default value only logs. [`Server::reporter`](crate::Server::reporter) returns one for a server.
#[derive(Debug, Default)]
pub struct Reporter {
    part: &'static str,
    health: Arc<Health>,
    cache: Cache,
}

impl Reporter {
    pub(crate) fn new(part: &'static str, health: Arc<Health>, cache: Cache) -> Self {
        Self {
            part,
            health,
            cache,
        }
    }

    /// Replaces the findings of this part. An error stays until it is not reported any more.
    pub fn report(&self, findings: Vec<Finding>) {
        let now = Findings {
            listed: findings,
            more: FindingCounts::default(),
        };
        let before = self.health.record_of(self.part, now.clone());
        if before != now {
            self.cache.notifier().notify();
            now.log(&before);
        }
    }
}
