//! One stream of watches.
//!
//! ```text
//!   history ──► deliver ──► one response per revision ──► Outbox (faults) ──► the client
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use oxds_types::etcd::{
    Event, ResponseHeader, WatchCreateRequest, WatchRequest, WatchRequestUnion, WatchResponse,
};
use tokio::sync::mpsc::UnboundedSender;
use tonic::metadata::MetadataMap;
use tonic::{Code, Request, Status, Streaming};

use super::cluster::Data;
use super::member::Member;
use super::mvcc::KeyRange;
use super::outbox::Outbox;
use super::refusal;
use super::users::Need;

/// Greatest number of revisions in one response to a watch that catches up (`watchBatchMaxRevs` of etcd).
const BATCH: usize = 1000;

/// Watch id of responses that do not belong to one watch.
const NO_WATCH: i64 = -1;

struct Watches {
    member: Arc<Member>,
    metadata: MetadataMap,
    watches: BTreeMap<i64, Watch>,
    next_id: i64,
    outbox: Outbox,
}

struct Watch {
    key: Bytes,
    end: Bytes,
    /// Next revision whose events are sent.
    next: i64,
    fragment: bool,
    /// Whether all revisions up to the store's have been sent once.
    is_synced: bool,
}

/// Serves a stream until the client ends it, or the member loses its leader.
pub(super) async fn serve_watches(
    member: Arc<Member>,
    request: Request<Streaming<WatchRequest>>,
    responses: UnboundedSender<Result<WatchResponse, Status>>,
) {
    let (metadata, _, mut requests) = request.into_parts();
    let needs_leader = metadata
        .get("hasleader")
        .is_some_and(|value| value == "true");
    let mut changes = member.cluster.changes();
    let mut releases = member.releases.subscribe();
    let mut watches = Watches {
        member: Arc::clone(&member),
        metadata,
        watches: BTreeMap::new(),
        next_id: 0,
        outbox: Outbox::new(Arc::clone(&member), responses.clone()),
    };
    loop {
        if needs_leader && member.faults().is_leaderless {
            let _ = responses.send(Err(refusal::no_leader()));
            return;
        }
        watches.deliver();
        tokio::select! {
            () = responses.closed() => return,
            request = requests.message() => match request {
                Ok(Some(request)) => watches.handle(request),
                _ => return,
            },
            _ = changes.changed() => {}
            _ = releases.changed() => watches.outbox.release(),
        }
    }
}

impl Watches {
    fn handle(&mut self, request: WatchRequest) {
        match request.union {
            Some(WatchRequestUnion::Create(create)) => self.create(create),
            Some(WatchRequestUnion::Cancel(cancel)) => self.cancel(cancel.watch_id),
            Some(WatchRequestUnion::Progress(_)) => {
                self.deliver();
                self.outbox.progress(WatchResponse {
                    watch_id: NO_WATCH,
                    ..self.response()
                });
                let activity = &self.member.activity;
                activity.send_modify(|activity| activity.progress_requests += 1);
            }
            None => {}
        }
    }

    fn cancel(&mut self, id: i64) {
        if self.remove(id) {
            self.outbox.control(WatchResponse {
                watch_id: id,
                canceled: true,
                ..self.response()
            });
        }
    }

    /// Returns a response with nothing but a header.
    fn response(&self) -> WatchResponse {
        let data = self.member.cluster.data();
        WatchResponse {
            header: Some(self.member.header(&data)),
            ..WatchResponse::default()
        }
    }

    fn create(&mut self, create: WatchCreateRequest) {
        if let Err(status) = self.check(&create) {
            let code = status.code();
            self.outbox.control(WatchResponse {
                watch_id: NO_WATCH,
                created: true,
                canceled: true,
                cancel_reason: format!("rpc error: code = {code:?} desc = {}", status.message()),
                ..self.response()
            });
            return;
        }
        let revision = self.member.cluster.data().store.revision();
        let id = match create.watch_id {
            0 => {
                while self.watches.contains_key(&self.next_id) {
                    self.next_id += 1;
                }
                self.next_id
            }
            id => id,
        };
        let watch = Watch {
            key: create.key,
            end: create.range_end,
            next: match create.start_revision {
                0 => revision + 1,
                start => start,
            },
            fragment: create.fragment,
            is_synced: create.start_revision == 0,
        };
        self.watches.insert(id, watch);
        self.member
            .activity
            .send_modify(|activity| activity.watches += 1);
        self.outbox.control(WatchResponse {
            watch_id: id,
            created: true,
            ..self.response()
        });
    }

    fn check(&self, create: &WatchCreateRequest) -> Result<(), Status> {
        let range = KeyRange {
            key: &create.key,
            end: &create.range_end,
        };
        let data = self.member.cluster.data();
        let checked = data.users.check(&self.metadata, &[Need::Read(range)]);
        drop(data);
        checked.map_err(|status| {
            // etcd#12385
            let hides_reason = self.member.faults().denies_expired_tokens;
            if hides_reason && status.code() != Code::PermissionDenied {
                refusal::permission_denied()
            } else {
                status
            }
        })
    }

    fn remove(&mut self, id: i64) -> bool {
        let existed = self.watches.remove(&id).is_some();
        if existed {
            self.member
                .activity
                .send_modify(|activity| activity.watches -= 1);
        }
        existed
    }

    /// Sends all events that the watches do not have yet.
    fn deliver(&mut self) {
        let member = Arc::clone(&self.member);
        let data = member.cluster.data();
        let (header, compacted) = (member.header(&data), data.store.compacted());
        let mut ended = Vec::new();
        for (id, watch) in &mut self.watches {
            if watch.next < compacted {
                // Its header has no revision.
                let header = ResponseHeader {
                    revision: 0,
                    ..header
                };
                self.outbox.control(WatchResponse {
                    header: Some(header),
                    watch_id: *id,
                    canceled: true,
                    compact_revision: compacted,
                    ..WatchResponse::default()
                });
                ended.push(*id);
                continue;
            }
            for events in watch.take_events(&data) {
                let response = WatchResponse {
                    header: Some(header),
                    watch_id: *id,
                    events,
                    ..WatchResponse::default()
                };
                self.outbox.events(response, watch.fragment);
            }
        }
        drop(data);
        for id in ended {
            self.remove(id);
        }
    }
}

impl Watch {
    /// Returns the events of each response: those of one revision, or those of up to [`BATCH`] revisions while the
    /// watch catches up.
    fn take_events(&mut self, data: &Data) -> Vec<Vec<Event>> {
        let range = KeyRange {
            key: &self.key,
            end: &self.end,
        };
        let is_inside = |event: &&Event| {
            let kv = event.kv.as_ref();
            kv.is_some_and(|kv| range.contains(&kv.key))
        };
        let mut revisions: Vec<Vec<Event>> = Vec::new();
        for (_, events) in data.store.events(self.next) {
            let events: Vec<Event> = events.iter().filter(is_inside).cloned().collect();
            if !events.is_empty() {
                revisions.push(events);
            }
        }
        self.next = self.next.max(data.store.revision() + 1);
        if self.is_synced {
            return revisions;
        }
        self.is_synced = true;
        let batches = revisions.chunks(BATCH);
        batches.map(<[Vec<Event>]>::concat).collect()
    }
}

impl Drop for Watches {
    fn drop(&mut self) {
        let count = self.watches.len();
        self.member
            .activity
            .send_modify(|activity| activity.watches -= count);
    }
}
