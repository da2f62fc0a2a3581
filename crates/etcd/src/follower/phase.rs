//! Phases of the connection to etcd.

use std::collections::BTreeMap;

use oxds_types::etcd::KeyValue;

use super::check::{Check, Checked};
use super::effect::{ConnectionId, RequestId, StreamId};
use crate::names::{PublishId, Segment};
use crate::pages::Pages;
use oxds_core::time::Instant;

/// Phase of a follower.
#[derive(Debug)]
pub(super) enum Phase {
    /// No connection; the next attempt is due at `until`.
    Waiting { until: Instant },
    /// The driver connects.
    Connecting { until: Instant },
    /// The heads are read, to decide whether a watch can resume.
    Checking { check: Check, until: Instant },
    /// The whole prefix is read.
    Reading {
        pages: Pages,
        request: RequestId,
        until: Instant,
        /// Keys of the last page, which the view does not have yet.
        page: Vec<KeyValue>,
    },
    /// A watch is open.
    Following(Box<Following>),
    /// The store has another format.
    Stopped,
}

/// State of a watch.
#[derive(Debug)]
pub(super) struct Following {
    pub(super) stream: StreamId,
    /// Revision of the last event, if more events of it may follow.
    pub(super) open_revision: Option<i64>,
    /// When the member is silent, unless the watch sends something before.
    pub(super) silent_at: Option<Instant>,
    /// When progress is requested and the heads are read.
    pub(super) probe_at: Instant,
    pub(super) renew_at: Instant,
    /// Read of the heads that is under way, and when it has failed.
    pub(super) check: Option<(Check, Instant)>,
    /// Heads that the watch must have delivered when it has reached their revision.
    pub(super) expected: Option<Expected>,
    /// Reads of stages that heads name.
    pub(super) stages: BTreeMap<Segment, StageRead>,
}

/// Heads that the watch must deliver.
#[derive(Debug)]
pub(super) struct Expected {
    pub(super) checked: Checked,
    /// Revision of the view when `until` was set.
    pub(super) seen: i64,
    /// The watch is stuck if it has not advanced until then.
    pub(super) until: Instant,
}

/// Read of a stage at the revision of its head.
#[derive(Debug)]
pub(super) struct StageRead {
    pub(super) publish: PublishId,
    pub(super) pages: Pages,
    pub(super) request: RequestId,
    pub(super) until: Instant,
}

impl Phase {
    /// Returns when the phase has to be left, or something of it is due.
    pub(super) fn timeout(&self) -> Option<Instant> {
        match self {
            Self::Waiting { until }
            | Self::Connecting { until }
            | Self::Checking { until, .. }
            | Self::Reading { until, .. } => Some(*until),
            Self::Following(following) => Some(following.timeout()),
            Self::Stopped => None,
        }
    }
}

impl Following {
    fn timeout(&self) -> Instant {
        let check = self.check.as_ref().map(|(_, until)| *until);
        let expected = self.expected.as_ref().map(|expected| expected.until);
        let stages = self.stages.values().map(|stage| stage.until);
        let others = self.silent_at.into_iter().chain(check).chain(expected);
        let others = others.chain(stages).chain([self.renew_at]);
        others.fold(self.probe_at, Instant::min)
    }
}

/// Number of a connection, and whether the next one goes to another member.
#[derive(Debug, Default)]
pub(super) struct Connection {
    pub(super) current: Option<ConnectionId>,
    pub(super) use_another: bool,
}
