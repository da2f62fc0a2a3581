//! The streams that are open: for the status page, and for their limits.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use oxds_core::session::{Request, ResourceErrorCode, Session};
use oxds_core::snapshot::Protocol;
use oxds_core::subscription::WILDCARD;
use oxds_core::time::Instant;
use oxds_types::ResourceType;
use tokio_util::sync::CancellationToken;

use super::context::Context;
use super::permit::{self, Asked};
use super::refusal::Refusal;
use super::service::Peer;
use crate::cache::{Cache, View};
use crate::limits::Limits;
use crate::pulse::Pulse;
use crate::security::{Denied, Grant};

/// One open stream, as others see it.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) peer: Peer,
    pub(crate) protocol: Protocol,
    /// When it was opened.
    pub(crate) since: Instant,
    /// Cancelled when the stream has to end: the server shuts down, or what was granted has changed.
    pub(super) end: CancellationToken,
    /// What the client is granted, once it has said who it is, or that it does not.
    pub(super) grant: Mutex<Option<Grant>>,
    /// Whether it was said that the client asks for what it may not have.
    pub(super) reported: AtomicBool,
    /// The stream holds this while it is polled, the status page while it reads: neither for long.
    pub(super) session: Mutex<Session>,
    /// What the node sees, from the first request on.
    pub(super) view: Mutex<Option<Arc<View>>>,
}

impl Open {
    /// Lets a request pass as far as its client may have what it asks for.
    pub(super) fn permit(&self, context: &Context, request: &mut Request) -> Result<(), Denied> {
        let mut grant = lock(&self.grant);
        let (node, type_url) = match &*request {
            Request::Sotw(request) => (&request.node, &request.type_url),
            Request::Delta(request) => (&request.node, &request.type_url),
        };
        // As the session takes it: the first node that is named, and none until then.
        if grant.is_none() || self.session().node().is_none() {
            *grant = Some(context.admit(&self.peer, node.as_ref())?);
        }
        if let (Some(grant), Some((resource_type, _))) =
            (&*grant, ResourceType::from_type_url(type_url))
        {
            let withheld = permit::withhold(grant, &resource_type, Asked::by(request));
            // SotW requests repeat all names: what was said of them once is enough.
            if !withheld.is_empty() && !self.reported.swap(true, Ordering::Relaxed) {
                permit::report(context, &self.peer, &withheld);
            }
            let mut session = self.session();
            // All of them is not a name: who may not have all is told of those that it may have.
            for name in withheld.iter().filter(|name| *name != WILDCARD) {
                let refusal = oxds_core::session::ResourceErrorDetail {
                    code: ResourceErrorCode::PermissionDenied,
                    message: "not for this client".to_owned(),
                };
                session.deny(resource_type.clone(), name, refusal);
            }
        }
        Ok(())
    }

    /// Ends the stream if its client would be granted something else now.
    pub(crate) fn review(&self, context: &Context) {
        let grant = lock(&self.grant);
        let Some(grant) = &*grant else {
            return;
        };
        let now = context.admit(&self.peer, self.session().node());
        if now.as_ref() != Ok(grant) {
            self.end.cancel();
        }
    }

    /// Says what the node sees.
    pub(super) fn look_at(&self, view: Arc<View>) {
        *lock(&self.view) = Some(view);
    }

    /// What the node sees; before its first request, what nodes see that are in no group.
    pub(crate) fn view(&self, cache: &Cache) -> Arc<View> {
        let view = lock(&self.view).clone();
        view.unwrap_or_else(|| Arc::clone(cache.root()))
    }

    pub(crate) fn session(&self) -> MutexGuard<'_, Session> {
        lock(&self.session)
    }
}

/// A panic ended its stream; what others may still read of it is only shown.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All open streams of a server, in the order in which they were opened.
#[derive(Debug)]
pub(crate) struct Streams {
    table: Mutex<Table>,
    /// Beats when one comes or goes.
    pulse: Arc<Pulse>,
}

#[derive(Debug, Default)]
struct Table {
    next: u64,
    open: BTreeMap<u64, Arc<Open>>,
    /// How many there are of an address.
    peers: HashMap<IpAddr, usize>,
}

/// A stream's place in the table, given back when dropped.
#[derive(Debug)]
pub(crate) struct Place {
    streams: Arc<Streams>,
    id: u64,
}

impl Streams {
    pub(crate) fn new(pulse: &Arc<Pulse>) -> Self {
        Self {
            table: Mutex::default(),
            pulse: Arc::clone(pulse),
        }
    }

    /// Takes a place, if the limits leave one (S-77).
    pub(super) fn enter(
        self: &Arc<Self>,
        stream: &Arc<Open>,
        limits: &Limits,
    ) -> Result<Place, Refusal> {
        let mut table = self.lock();
        if table.open.len() >= limits.streams {
            return Err(Refusal::Streams(limits.streams));
        }
        let (peer, limit) = (stream.peer.address.ip(), limits.streams_per_peer);
        let of_peer = table.peers.entry(peer).or_default();
        if *of_peer >= limit {
            return Err(Refusal::StreamsOfPeer { peer, limit });
        }
        *of_peer += 1;
        let id = table.next;
        table.next += 1;
        table.open.insert(id, Arc::clone(stream));
        drop(table);
        self.pulse.beat();
        Ok(Place {
            streams: Arc::clone(self),
            id,
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().open.len()
    }

    /// The open streams, oldest first.
    pub(crate) fn list(&self) -> Vec<Arc<Open>> {
        self.lock().open.values().map(Arc::clone).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        lock(&self.table)
    }
}

impl Place {
    /// Names the stream in logs.
    pub(super) fn id(&self) -> u64 {
        self.id
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut table = self.streams.lock();
        let Some(stream) = table.open.remove(&self.id) else {
            return;
        };
        if let Entry::Occupied(mut of_peer) = table.peers.entry(stream.peer.address.ip()) {
            *of_peer.get_mut() -= 1;
            if *of_peer.get() == 0 {
                of_peer.remove();
            }
        }
        drop(table);
        self.streams.pulse.beat();
    }
}
