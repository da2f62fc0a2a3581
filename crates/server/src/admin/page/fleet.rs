//! The fleet: one line about each client, made at most once per second however many people look.
//!
//! ```text
//!   views ──▶ latest ── of this tag, or younger than a second? ──▶ shared
//!                └── no ──▶ walk: client, client, …  each locked for itself; other tasks run in between
//! ```
//! A page of 100 clients sorted by state needs a look at all of them, so that the walk is shared by all views.

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
use crate::discovery::{Client, ClientCursor, Context};

/// Age up to which a walk is used again although something has changed.
const FRESH: Duration = Duration::from_secs(1);
/// Clients after which other tasks run.
const BATCH: usize = 64;

/// All clients at one time.
#[derive(Debug)]
pub(super) struct Fleet {
    /// Tag of the state before the walk.
    pub(super) tag: String,
    pub(super) rows: Vec<Row>,
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
    pub(super) id: String,
    pub(super) cluster: String,
    pub(super) user_agent: String,
    pub(super) peer: Option<SocketAddr>,
    pub(super) protocol: &'static str,
    pub(super) since: Instant,
    pub(super) state: Progress,
    /// State of each resource type.
    pub(super) kinds: Vec<(String, Progress)>,
    pub(super) held: usize,
    pub(super) isolating: bool,
    /// Type and reason of a NACK that stands.
    pub(super) nack: Option<(String, String)>,
}

/// Shares the latest walk.
#[derive(Debug, Default)]
pub(crate) struct FleetCache(Mutex<Option<Arc<Fleet>>>);

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
        let fleet = Arc::new(Fleet::walk(context, now).await);
        *latest = Some(Arc::clone(&fleet));
        fleet
    }
}

impl Fleet {
    async fn walk(context: &Context, now: Instant) -> Self {
        // Before the walk: what changes from here on has another tag.
        let tag = context.cache.notifier().tag();
        let mut rows = Vec::new();
        let mut cursor = ClientCursor::default();
        loop {
            let mut row = None;
            let mut see =
                |client: &Client<'_>, served: &Snapshot| row = Some(Row::of(client, served));
            let seen = context.clients.see_next(&context.cache, cursor, &mut see);
            let Some(seen) = seen else { break };
            if let Some(mut row) = row {
                row.cursor = seen.clone();
                rows.push(row);
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
            id: node.map(|node| shown(&node.id)).unwrap_or_default(),
            cluster: node.map(|node| shown(&node.cluster)).unwrap_or_default(),
            user_agent: node
                .map(|node| shown(&user_agent(node)))
                .unwrap_or_default(),
            peer: client.peer,
            protocol: client.protocol,
            since: client.since,
            state: Progress::Synced,
            kinds: Vec::with_capacity(types.len()),
            held: 0,
            isolating: false,
            nack: None,
        };
        for status in types {
            let progress = client.progress(&status.resource_type, served);
            let kind = status.resource_type.to_string();
            row.held += status.held;
            row.isolating |= status.isolating.is_some();
            if let Some(nack) = status.nack.filter(|_| row.nack.is_none()) {
                row.nack = Some((kind.clone(), shown(&nack.reason)));
            }
            row.state = row.state.max(progress);
            row.kinds.push((kind, progress));
        }
        row
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
