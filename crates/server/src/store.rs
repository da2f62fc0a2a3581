//! Where resources come from.

use std::fmt;
use std::future::Future;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use oxds_core::group::GroupUpdate;
use oxds_core::snapshot::ChangeSet;
use oxds_types::{Position, ResourceType};

/// A source of change sets, each of which is applied as one (S-69).
///
/// The first update is the whole initial state. A store that meets trouble says so in
/// [`Update::findings`] and goes on serving its last good state; it ends only with its source.
pub trait Store: Send + 'static {
    /// The next update; `None` when no more can come, whereupon what was served last stays.
    ///
    /// The future is dropped when the server shuts down, and at no other time. It runs beside the streams: what blocks
    /// belongs into `spawn_blocking`.
    fn next(&mut self) -> impl Future<Output = Option<Update>> + Send;
}

/// What a store yields. Begin with `Update::from(changes)`, and set what there is besides.
///
/// ```
/// use oxds_core::snapshot::ChangeSet;
/// use oxds_server::{Finding, Update};
///
/// let mut update = Update::from(ChangeSet::default());
/// update.findings.push(Finding::error("consul:services/shop", "no port"));
/// assert_eq!(update.findings[0].to_string(), "consul:services/shop: error: no port");
/// ```
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Update {
    /// What changed for all nodes; may be empty.
    pub changes: ChangeSet,
    /// What changed for some nodes (S-74); applied together with `changes`.
    pub groups: Vec<GroupUpdate>,
    /// Everything that is wrong with the source now, not only what is new.
    pub findings: Vec<Finding>,
    /// How long the store took to make this.
    pub took: Duration,
}

impl From<ChangeSet> for Update {
    fn from(changes: ChangeSet) -> Self {
        Self {
            changes,
            ..Self::default()
        }
    }
}

/// Something wrong with a store's content, and where.
///
/// `Display` is one line that editors and `grep` understand: `file:line:column: severity: path: message`.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Finding {
    /// How bad.
    pub severity: Severity,
    /// The file (or key) as the operator knows it.
    pub file: PathBuf,
    /// The place in it, where known.
    pub position: Option<Position>,
    /// The kind of the resource it is in, where its name is known.
    pub resource_type: Option<ResourceType>,
    /// The resource it is in, where known.
    pub resource: Option<String>,
    /// Path to the field; empty where none is to blame.
    pub path: String,
    /// Names the kind of trouble, for machines: `rule`, `unknown-field`, `duplicate`, …
    pub rule: &'static str,
    /// What is wrong, for people.
    pub message: String,
    /// The lines around the place, with a mark under it.
    pub snippet: Option<String>,
}

impl Finding {
    /// What keeps this file, or key, from being served.
    #[must_use]
    pub fn error(file: impl Into<PathBuf>, message: impl Into<String>) -> Self {
        Self::new(Severity::Error, file.into(), message.into())
    }

    /// What does not.
    #[must_use]
    pub fn warning(file: impl Into<PathBuf>, message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, file.into(), message.into())
    }

    fn new(severity: Severity, file: PathBuf, message: String) -> Self {
        Self {
            severity,
            file,
            position: None,
            resource_type: None,
            resource: None,
            path: String::new(),
            rule: "store",
            message,
            snippet: None,
        }
    }
}

/// How bad a [`Finding`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// What it is in is served; perhaps not for ever.
    Warning,
    /// What it is in is not served: the last good state is.
    Error,
}

impl Severity {
    /// `warning` or `error`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file.display())?;
        if let Some(position) = self.position {
            write!(f, "{position}:")?;
        }
        write!(f, " {}: ", self.severity)?;
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)
    }
}

/// What is known of a store's state, for the status page and the metrics.
#[derive(Debug, Default)]
pub(crate) struct Health {
    state: Mutex<State>,
    updates: AtomicU64,
    ended: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    findings: Vec<Finding>,
    took: Duration,
}

impl Health {
    /// Returns what was found before.
    pub(crate) fn record(&self, findings: Vec<Finding>, took: Duration) -> Vec<Finding> {
        self.updates.fetch_add(1, Relaxed);
        std::mem::replace(&mut *self.lock(), State { findings, took }).findings
    }

    /// The store will yield nothing any more.
    pub(crate) fn end(&self) {
        self.ended.store(true, Relaxed);
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Relaxed)
    }

    pub(crate) fn findings(&self) -> Vec<Finding> {
        self.lock().findings.clone()
    }

    /// Errors and warnings.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let state = self.lock();
        let errors = state
            .findings
            .iter()
            .filter(|f| f.severity == Severity::Error)
            .count();
        (errors, state.findings.len() - errors)
    }

    pub(crate) fn updates(&self) -> u64 {
        self.updates.load(Relaxed)
    }

    pub(crate) fn load_time(&self) -> Duration {
        self.lock().took
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Replaced as a whole, never torn.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
