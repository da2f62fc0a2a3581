//! Search for fields that this build does not know (G-2): the resources are served as they were written, and each
//! finding names its key.
//!
//! ```text
//!  update ──▶ applied ──▶ pending, by key ── 500 ms ──▶ thread, at most half of a core ──▶ findings, log
//! ```
//!
//! The search reads each message by its descriptors, which takes longer than to serve it. So it follows the updates,
//! and no client waits for it. A resource that changes again within the pause is read once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use oxds_core::snapshot::Resource;
use oxds_etcd::{Entry, Key, Place, Segment};
use oxds_types::codec::{self, Options};
use oxds_types::error::Reason;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tracing::warn;

use crate::store::finding::Finding;
use crate::store::link::ServerLink;

/// Resources that are read at a time.
const BATCH: usize = 500;
/// Pause before a search, so that no thread is woken for each of many updates.
const PAUSE: Duration = Duration::from_millis(500);
/// Findings that are listed. A newer API mostly has one new field in many resources.
const MAX_FINDINGS: usize = 100;

/// Places that changed: lane and resource to look at, or `None` if it is gone.
type Changes = BTreeMap<Place, Option<(Segment, Arc<Resource>)>>;

/// Lane, and text about its unknown fields, of each resource that has some.
type Found = BTreeMap<Place, (Segment, String)>;

/// The search. It ends when this is dropped.
pub(super) struct UnknownFields {
    queue: Arc<Queue>,
    _task: JoinSet<()>,
}

#[derive(Default)]
struct Queue {
    pending: Mutex<Changes>,
    has_new: Notify,
}

impl UnknownFields {
    pub(super) fn start(link: ServerLink) -> Self {
        let queue = Arc::new(Queue::default());
        let mut task = JoinSet::new();
        task.spawn(run(Arc::clone(&queue), link));
        Self { queue, _task: task }
    }

    /// Adds changed places.
    pub(super) fn add(
        &self,
        changes: impl IntoIterator<Item = (Place, Option<(Segment, Arc<Resource>)>)>,
    ) {
        self.queue.lock().extend(changes);
        self.queue.has_new.notify_one();
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Changes> {
        // Each change leaves a complete map, so poisoning does not matter.
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes some of the changes.
    fn take(&self) -> Changes {
        let mut pending = self.lock();
        let rest = pending.keys().nth(BATCH).cloned();
        let rest = rest.map(|rest| pending.split_off(&rest));
        std::mem::replace(&mut *pending, rest.unwrap_or_default())
    }
}

async fn run(queue: Arc<Queue>, link: ServerLink) {
    let mut found = Found::new();
    loop {
        queue.has_new.notified().await;
        tokio::time::sleep(PAUSE).await;
        loop {
            let changes = queue.take();
            if changes.is_empty() {
                break;
            }
            let began = Instant::now();
            let searched = tokio::task::spawn_blocking(move || search(changes)).await;
            // It fails if the runtime shuts down, or by a bug, which the panic hook reports.
            let Ok(searched) = searched else { return };
            let mut is_new = false;
            for (place, unknown) in searched {
                is_new |= match unknown {
                    Some((lane, text)) => {
                        let key = key(&lane, &place);
                        warn!(key, unknown = %text, "resource has fields that this build does not know");
                        found.insert(place, (lane, text));
                        true
                    }
                    None => found.remove(&place).is_some(),
                };
            }
            if is_new {
                link.report_findings("unknown fields", findings(&found));
            }
            // Half of a core at most: clients come first.
            tokio::time::sleep(began.elapsed()).await;
        }
    }
}

fn search(changes: Changes) -> Vec<(Place, Option<(Segment, String)>)> {
    let changes = changes.into_iter();
    let searched = changes.map(|(place, resource)| {
        let text = resource.and_then(|(lane, resource)| Some((lane, unknown_field(&resource)?)));
        (place, text)
    });
    searched.collect()
}

fn key(lane: &Segment, place: &Place) -> String {
    let key = Key::Entry(lane.clone(), Entry::Resource(place.clone()));
    format!("etcd:{key}")
}

/// Returns the first unknown field of a resource, and how many more there are.
fn unknown_field(resource: &Resource) -> Option<String> {
    let mut options = Options::default();
    options.allow_unknown_fields = true;
    let message = resource.resource_type().message();
    let warnings = match codec::inspect(message, &resource.value(), &options) {
        // Disallowed elements are for the writer to know.
        Ok(warnings) | Err(warnings) => warnings,
    };
    let mut unknown = warnings
        .iter()
        .filter(|warning| matches!(warning.reason, Reason::AcceptedField { .. }));
    let first = unknown.next()?;
    let Reason::AcceptedField { field, message, .. } = &first.reason else {
        return None;
    };
    let more = match unknown.count() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Some(format!("field {field} of {message}{more}"))
}

fn findings(found: &Found) -> Vec<Finding> {
    let listed = found.iter().take(MAX_FINDINGS);
    listed
        .map(|(place, (lane, text))| {
            let message = format!(
                "{text} is not known to this build, which serves the resource as it was written"
            );
            Finding {
                rule: "unknown-field",
                ..Finding::warning(key(lane, place), message)
            }
        })
        .collect()
}
