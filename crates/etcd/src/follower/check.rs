//! Read of the heads of all known lanes, and its comparison with the view.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use oxds_types::etcd::{RangeRequest, RangeResponse};

use super::effect::RequestId;
use super::event::ReadReason;
use super::lanes::Lanes;
use crate::head::Head;
use crate::keys::Key;
use crate::names::{Prefix, Segment};

/// Linearizable read of the heads: one request per lane, and one for the key `format`, which shows the revision also if
/// no lane is known.
#[derive(Debug)]
pub(super) struct Check {
    waiting: BTreeMap<RequestId, Option<Segment>>,
    checked: Checked,
}

/// Heads that a check read.
#[derive(Debug, Clone)]
pub(super) struct Checked {
    /// Revision of the view when the requests were sent.
    since: i64,
    /// Least revision of the answers: the heads are at least as new.
    pub(super) revision: i64,
    clusters: BTreeSet<u64>,
    heads: BTreeMap<Segment, CheckedHead>,
}

#[derive(Debug, Clone, Default)]
struct CheckedHead {
    /// `None` without a head, or with one that cannot be read.
    head: Option<Head>,
    /// Revision at which it was written; 0 without a head.
    revision: i64,
}

impl Check {
    /// Makes a check of these lanes; `since` is the revision of the view.
    pub(super) fn new(
        lanes: Vec<Segment>,
        mut new_id: impl FnMut() -> RequestId,
        since: i64,
    ) -> Self {
        let lanes = lanes.into_iter().map(Some).chain([None]);
        Self {
            waiting: lanes.map(|lane| (new_id(), lane)).collect(),
            checked: Checked {
                since,
                revision: i64::MAX,
                clusters: BTreeSet::new(),
                heads: BTreeMap::new(),
            },
        }
    }

    /// Returns the requests with their numbers.
    pub(super) fn requests(&self, prefix: &Prefix) -> Vec<(RequestId, RangeRequest)> {
        let request = |(id, lane): (&RequestId, &Option<Segment>)| {
            let key: Bytes = prefix.key(&lane.clone().map_or(Key::Format, Key::Head));
            let request = RangeRequest {
                key,
                ..RangeRequest::default()
            };
            (*id, request)
        };
        self.waiting.iter().map(request).collect()
    }

    /// Returns whether this request belongs to the check.
    pub(super) fn waits_for(&self, id: RequestId) -> bool {
        self.waiting.contains_key(&id)
    }

    /// Handles an answer. Returns the result after the last one.
    pub(super) fn take(
        &mut self,
        id: RequestId,
        response: &RangeResponse,
    ) -> Result<Option<Checked>, &'static str> {
        let Some(lane) = self.waiting.remove(&id) else {
            return Ok(None);
        };
        let header = response.header.as_ref().ok_or("an answer has no header")?;
        let checked = &mut self.checked;
        checked.revision = checked.revision.min(header.revision);
        checked.clusters.insert(header.cluster_id);
        let head = response.kvs.first().map(|kv| CheckedHead {
            head: Head::decode(&kv.value).ok(),
            revision: kv.mod_revision,
        });
        if let Some(lane) = lane {
            checked.heads.insert(lane, head.unwrap_or_default());
        }
        Ok(self.waiting.is_empty().then(|| checked.clone()))
    }
}

impl Checked {
    /// Returns whether all answers came from this cluster.
    pub(super) fn is_from(&self, cluster: Option<u64>) -> bool {
        self.clusters.iter().all(|from| Some(*from) == cluster)
    }

    /// Returns whether the answers are older than the view was when the requests were sent: they were not linearizable,
    /// or the store went back.
    pub(super) fn is_behind(&self) -> bool {
        self.revision < self.since
    }

    /// Returns why a watch after the revision of the view would not lead to these heads. `None` if it may.
    ///
    /// Each head must be the known one, or a later one that was written after the revision of the view.
    pub(super) fn contradicts(&self, lanes: &Lanes) -> Option<ReadReason> {
        let mut heads = self.heads.iter();
        heads.find_map(|(name, checked)| {
            let lane = lanes.get(name)?;
            let known_seq = lane.head.as_ref().map_or(0, |head| head.seq);
            let follows = match &checked.head {
                _ if checked.revision == lane.head_revision => {
                    checked.head.as_ref().map(|head| head.publish)
                        == lane.head.as_ref().map(|head| head.publish)
                        || lane.head_error.is_some()
                }
                // The view may have a later head by now.
                Some(_) if checked.revision < lane.head_revision => {
                    lane.head_revision > self.revision
                }
                Some(head) => checked.revision > self.since && head.seq >= known_seq,
                // A deletion is in the history if the head was there; it is not visible here when.
                None => true,
            };
            (!follows).then(|| ReadReason::OtherHistory(name.clone()))
        })
    }

    /// Returns the lane whose head the view does not have, although it has reached the revision of the check.
    pub(super) fn lost(&self, lanes: &Lanes) -> Option<ReadReason> {
        let mut heads = self.heads.iter();
        heads.find_map(|(name, checked)| {
            let lane = lanes.get(name)?;
            let is_lost = match checked.revision {
                0 => lane.head.is_some() && lane.head_revision <= self.revision,
                revision => lane.head_revision < revision,
            };
            is_lost.then(|| ReadReason::LostEvents(name.clone()))
        })
    }

    /// Returns the heads by lane.
    pub(super) fn seqs(&self) -> impl Iterator<Item = (&Segment, u64)> {
        let heads = self.heads.iter();
        heads.filter_map(|(lane, checked)| Some((lane, checked.head.as_ref()?.seq)))
    }
}
