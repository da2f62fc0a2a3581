//! Cluster of members over one model, with streams of watches that break each guarantee on command.

use std::collections::VecDeque;

use oxds_types::etcd::{
    Event, EventType, RangeRequest, RangeResponse, WatchCreateRequest, WatchResponse,
};

use crate::model::{Etcd, EtcdError};
use oxds_etcd::follower::{Failure, FailureKind};

/// State of a member.
#[derive(Debug, Clone)]
pub(super) enum Member {
    Up,
    /// Connections are refused.
    Down,
    /// Connections are accepted, and nothing is answered: SIGSTOP, or packets vanish.
    Silent,
    /// Without a quorum: it answers progress requests and no linearizable reads.
    Alone,
    /// The member answers from an earlier state, also to reads that ask for the latest one.
    Stale(Box<Etcd>),
    /// The member denies everything.
    Denied,
    /// The values are so large that the replica accepts only this many in a response.
    Large(usize),
}

/// Fault of a watch, which concerns the next delivered events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// Every response comes twice.
    Duplicate,
    /// A response is missing.
    Drop,
    /// The events of the heads are missing.
    DropHead,
    /// The responses come in the opposite order.
    Reorder,
    /// The events of a revision come in two responses that are not fragments.
    Split,
    /// The first response comes after the others.
    Delay,
    /// Responses of earlier revisions come again, at the end.
    Back,
    /// Progress to the latest revision is reported, and the events do not come.
    FalseProgress,
    /// Progress to the latest revision is reported before the events come.
    EarlyProgress,
    /// Deletions are missing.
    OmitDelete,
}

pub(super) const FAULTS: [Fault; 10] = [
    Fault::Duplicate,
    Fault::Drop,
    Fault::DropHead,
    Fault::Reorder,
    Fault::Split,
    Fault::Delay,
    Fault::Back,
    Fault::FalseProgress,
    Fault::EarlyProgress,
    Fault::OmitDelete,
];

/// Stream with one watch.
#[derive(Debug)]
pub(super) struct Watch {
    request: WatchCreateRequest,
    next: i64,
    is_created: bool,
}

impl Watch {
    pub(super) fn new(request: WatchCreateRequest) -> Self {
        Self {
            next: request.start_revision,
            request,
            is_created: false,
        }
    }

    fn has(&self, event: &Event) -> bool {
        let key = &event.kv.as_ref().unwrap().key;
        self.request.key <= key && *key < self.request.range_end
    }

    /// Returns the responses that are due. `fragment`: the greatest number of events of a response.
    pub(super) fn deliver(
        &mut self,
        etcd: &Etcd,
        fault: Option<Fault>,
        fragment: Option<usize>,
    ) -> Vec<WatchResponse> {
        let mut responses = Vec::new();
        if !self.is_created {
            self.is_created = true;
            responses.push(WatchResponse {
                created: true,
                ..self.response(etcd, Vec::new())
            });
        }
        if self.next < etcd.compacted() {
            responses.push(WatchResponse {
                canceled: true,
                compact_revision: etcd.compacted(),
                ..self.response(etcd, Vec::new())
            });
            self.next = i64::MAX;
            return responses;
        }
        let mut batch = VecDeque::new();
        for (_, events) in etcd.events(self.next) {
            let events = events.iter().filter(|event| self.has(event)).cloned();
            let events: Vec<_> = events.collect();
            if !events.is_empty() {
                batch.push_back(self.response(etcd, events));
            }
        }
        let first = self.next;
        if self.next <= etcd.revision() {
            self.next = etcd.revision() + 1;
        }
        if let Some(fault) = fault.filter(|_| !batch.is_empty()) {
            self.break_batch(etcd, fault, first, &mut batch);
        }
        for response in batch {
            match fragment {
                Some(size) => responses.extend(fragments(&response, size)),
                None => responses.push(response),
            }
        }
        responses
    }

    fn break_batch(
        &self,
        etcd: &Etcd,
        fault: Fault,
        first: i64,
        batch: &mut VecDeque<WatchResponse>,
    ) {
        let is_head = |event: &Event| event.kv.as_ref().unwrap().key.ends_with(b"/head");
        match fault {
            Fault::Duplicate => {
                *batch = batch.iter().flat_map(|r| [r.clone(), r.clone()]).collect();
            }
            Fault::Drop => drop(batch.pop_front()),
            Fault::DropHead => batch
                .iter_mut()
                .for_each(|r| r.events.retain(|event| !is_head(event))),
            Fault::Reorder => batch.make_contiguous().reverse(),
            Fault::Split => {
                let halves = batch.iter().flat_map(|r| {
                    let (one, other) = r.events.split_at(r.events.len().div_ceil(2));
                    [one, other].map(|events| self.response(etcd, events.to_vec()))
                });
                *batch = halves.collect();
            }
            Fault::Delay => batch.rotate_left(1),
            Fault::Back => {
                let early = etcd.events((first - 4).max(1));
                for (revision, events) in early {
                    let events = events.iter().filter(|event| self.has(event)).cloned();
                    let events: Vec<_> = events.collect();
                    if revision < first && !events.is_empty() {
                        batch.push_back(self.response(etcd, events));
                    }
                }
            }
            Fault::FalseProgress => {
                batch.clear();
                batch.push_back(self.response(etcd, Vec::new()));
            }
            Fault::EarlyProgress => batch.push_front(self.response(etcd, Vec::new())),
            Fault::OmitDelete => batch.iter_mut().for_each(|r| {
                r.events.retain(|event| event.r#type() != EventType::Delete);
            }),
        }
        // A response without events would be progress.
        if !matches!(fault, Fault::FalseProgress | Fault::EarlyProgress) {
            batch.retain(|r| !r.events.is_empty());
        }
    }

    pub(super) fn progress(&self, etcd: &Etcd) -> WatchResponse {
        WatchResponse {
            watch_id: -1,
            ..self.response(etcd, Vec::new())
        }
    }

    fn response(&self, etcd: &Etcd, events: Vec<Event>) -> WatchResponse {
        WatchResponse {
            header: Some(etcd.header()),
            events,
            ..WatchResponse::default()
        }
    }
}

/// Splits a response into fragments, as etcd does if the watch asks for it.
fn fragments(response: &WatchResponse, size: usize) -> Vec<WatchResponse> {
    if response.events.is_empty() {
        return vec![response.clone()];
    }
    let parts = response.events.chunks(size).map(|events| WatchResponse {
        events: events.to_vec(),
        fragment: true,
        ..response.clone()
    });
    let mut parts: Vec<_> = parts.collect();
    parts.last_mut().unwrap().fragment = false;
    parts
}

impl Member {
    /// Answers a read; `None` if nothing is answered.
    pub(super) fn range(
        &self,
        etcd: &Etcd,
        request: &RangeRequest,
    ) -> Option<Result<RangeResponse, Failure>> {
        let failure = |kind| Failure::new(kind, format!("{kind:?}"));
        let etcd = match self {
            Self::Up | Self::Large(_) => etcd,
            Self::Stale(stale) => stale,
            Self::Down | Self::Silent | Self::Alone => return None,
            Self::Denied => return Some(Err(failure(FailureKind::PermissionDenied))),
        };
        let page = etcd.range(request).map_err(|error| {
            failure(match error {
                EtcdError::Compacted => FailureKind::Compacted,
                _ => FailureKind::Other,
            })
        });
        Some(match (self, page) {
            (Self::Large(most), Ok(page)) if page.kvs.len() > *most => {
                Err(failure(FailureKind::ResponseTooLarge))
            }
            (_, page) => page,
        })
    }
}
