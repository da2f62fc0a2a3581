//! The fleet: one line about each client, made at most once per second however many people look.
//!
//! ```text
//!   views ──▶ latest ── of this tag, or younger than a second? ──▶ shared
//!                └── no ──▶ walk: stream, stream, …  other tasks run in between
//!                                    ├─ neither polled nor woken since ──▶ its line of before
//!                                    └─ else: locked for itself, and seen again
//! ```
//! Sorting by state visits every client, so all views share one walk. A stream changes only when
//! its task is polled, and a change of resources that concerns it wakes it: so the cost follows what has changed.

use std::cmp::Ordering;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use oxds_core::session::Progress;
use oxds_core::snapshot::Snapshot;
use oxds_core::time::Instant;
use oxds_types::identity::user_agent;
use tokio::sync::Mutex;

use super::parts::shown;
use crate::clients::{Client, ClientCursor, StreamState};
use crate::context::Context;

/// Age up to which a walk is used again although something has changed.
const FRESH: Duration = Duration::from_secs(1);
/// Clients after which other tasks run.
const BATCH: usize = 64;

/// All clients at one time.
#[derive(Debug)]
pub(super) struct Fleet {
    /// Tag of the state before the walk.
    pub(super) tag: String,
    pub(super) rows: Vec<Arc<Row>>,
    pub(super) synced: usize,
    pub(super) pending: usize,
    pub(super) nacked: usize,
    /// Held-back changes of all clients.
    pub(super) held: usize,
    pub(super) isolating: usize,
    made: Instant,
}

/// One client.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) cursor: ClientCursor,
    /// State of the stream before it was seen; `None` of a client that polls.
    seen: Option<StreamState>,
    pub(super) id: String,
    pub(super) cluster: String,
    pub(super) user_agent: String,
    pub(super) peer: Option<SocketAddr>,
    pub(super) protocol: &'static str,
    pub(super) since: Instant,
    pub(super) state: Progress,
    /// State of each resource type.
    pub(super) types: Vec<(String, Progress)>,
    pub(super) held: usize,
    pub(super) isolating: bool,
    /// Type and reason of a NACK that stands.
    pub(super) nack: Option<(String, String)>,
}

/// Shares the latest walk.
#[derive(Debug, Default)]
pub(super) struct FleetCache(Mutex<Option<Arc<Fleet>>>);

impl FleetCache {
    /// Returns the fleet: of now if nothing changed since, else at most a second old. Cancel-safe.
    pub(super) async fn get(&self, context: &Context) -> Arc<Fleet> {
        // Others wait here for the walk, and then share it.
        let mut latest = self.0.lock().await;
        let now = context.server.clock.now();
        if let Some(fleet) = &*latest {
            let is_current = fleet.tag == context.cache.notifier().tag();
            if is_current || now.saturating_since(fleet.made) < FRESH {
                return Arc::clone(fleet);
            }
        }
        let before = latest.as_ref().map_or(&[][..], |fleet| &fleet.rows);
        let fleet = Arc::new(Fleet::walk(context, now, before).await);
        *latest = Some(Arc::clone(&fleet));
        fleet
    }
}

impl Fleet {
    /// Looks at all clients. `before` are the lines of the last walk.
    async fn walk(context: &Context, now: Instant, before: &[Arc<Row>]) -> Self {
        // Before the walk: what changes from here on has another tag.
        let tag = context.cache.notifier().tag();
        let mut rows = Vec::with_capacity(before.len());
        let mut known = before.iter().peekable();
        let mut after = None;
        loop {
            let batch = context.clients.streams.after(after, BATCH);
            let Some((last, _)) = batch.last() else { break };
            after = Some(*last);
            for (id, open) in &batch {
                // Both lists are in the order of the streams.
                while known.next_if(|row| row.stream() < Some(*id)).is_some() {}
                let known = known.next_if(|row| row.stream() == Some(*id));
                let state = open.state();
                match known.filter(|row| row.seen.is_some_and(|seen| seen.is_as(state))) {
                    Some(row) => rows.push(Arc::clone(row)),
                    None => rows.extend(see(context, &ClientCursor::Stream(*id), Some(state))),
                }
            }
            tokio::task::yield_now().await;
        }
        let mut cursor = ClientCursor::Stream(u64::MAX);
        loop {
            let mut row = None;
            let mut see =
                |client: &Client<'_>, served: &Snapshot| row = Some(Row::of(client, served));
            let seen = context.clients.see_next(&context.cache, cursor, &mut see);
            let Some(seen) = seen else { break };
            if let Some(mut row) = row {
                row.cursor = seen.clone();
                rows.push(Arc::new(row));
            }
            cursor = seen;
            if rows.len() % BATCH == 0 {
                tokio::task::yield_now().await;
            }
        }
        let of = |state: fn(Progress) -> bool| rows.iter().filter(|row| state(row.state)).count();
        Self {
            tag,
            synced: of(|state| state == Progress::Synced),
            pending: of(is_pending),
            nacked: of(|state| state == Progress::Nacked),
            held: rows.iter().map(|row| row.held).sum(),
            isolating: rows.iter().filter(|row| row.isolating).count(),
            rows,
            made: now,
        }
    }
}

/// Returns the line of a stream, if it is still open.
fn see(context: &Context, cursor: &ClientCursor, state: Option<StreamState>) -> Option<Arc<Row>> {
    let mut row = None;
    let mut see = |client: &Client<'_>, served: &Snapshot| row = Some(Row::of(client, served));
    context.clients.see_at(&context.cache, cursor, &mut see);
    row.map(|row| {
        Arc::new(Row {
            cursor: cursor.clone(),
            seen: state,
            ..row
        })
    })
}

/// Whether a client has not accepted something that it has not NACKed either.
pub(super) fn is_pending(state: Progress) -> bool {
    matches!(state, Progress::NotSent | Progress::Stale)
}

impl Row {
    fn of(client: &Client<'_>, served: &Snapshot) -> Self {
        let node = client.node;
        let types = client.resource_types();
        let mut row = Self {
            cursor: ClientCursor::default(),
            seen: None,
            id: node.map(|node| shown(&node.id)).unwrap_or_default(),
            cluster: node.map(|node| shown(&node.cluster)).unwrap_or_default(),
            user_agent: node
                .map(|node| shown(&user_agent(node)))
                .unwrap_or_default(),
            peer: client.peer,
            protocol: client.protocol,
            since: client.since,
            state: Progress::Synced,
            types: Vec::with_capacity(types.len()),
            held: 0,
            isolating: false,
            nack: None,
        };
        for status in types {
            let progress = client.progress(&status.resource_type, served);
            let resource_type = status.resource_type.to_string();
            row.held += status.held;
            row.isolating |= status.isolating.is_some();
            if let Some(nack) = status.nack.filter(|_| row.nack.is_none()) {
                row.nack = Some((resource_type.clone(), shown(&nack.reason)));
            }
            row.state = row.state.max(progress);
            row.types.push((resource_type, progress));
        }
        row
    }

    /// Returns the number of its stream; `None` of a client that polls.
    fn stream(&self) -> Option<u64> {
        match self.cursor {
            ClientCursor::Stream(id) => Some(id),
            _ => None,
        }
    }

    /// Whether the client is one that a person looks for.
    pub(super) fn matches(&self, text: &str) -> bool {
        let has = |of: &str| of.to_lowercase().contains(text);
        has(&self.id)
            || has(&self.cluster)
            || has(&self.user_agent)
            || self
                .peer
                .is_some_and(|peer| peer.to_string().contains(text))
    }

    /// Compares by a column; equal ones stay in the order of their connection.
    pub(super) fn compare(&self, other: &Self, column: &str) -> Ordering {
        match column {
            "id" => self.id.cmp(&other.id),
            "cluster" => self.cluster.cmp(&other.cluster),
            "agent" => self.user_agent.cmp(&other.user_agent),
            "protocol" => self.protocol.cmp(other.protocol),
            "address" => self.peer.cmp(&other.peer),
            // The longest connection is the largest age.
            "since" => other.since.cmp(&self.since),
            // The worst first.
            "state" => other.state.cmp(&self.state),
            _ => Ordering::Equal,
        }
    }
}
