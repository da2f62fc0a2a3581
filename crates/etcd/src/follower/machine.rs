//! The machine: its state, its inputs and its outputs.

use std::collections::VecDeque;
use std::mem;

use oxds_types::etcd::{RangeRequest, RangeResponse, WatchResponse};

use super::config::FollowerConfig;
use super::effect::{ConnectionId, Failure, FailureKind, FollowerTransmit, RequestId, StreamId};
use super::event::{FollowerEvent, Notice, ReadReason};
use super::finding::FollowerFinding;
use super::held::Good;
use super::lanes::Lanes;
use super::phase::{Connection, Phase};
use super::retry::Retry;
use super::saved::SavedState;
use super::updates::Updates;
use super::view::View;
use crate::entry::Entry;
use crate::format::FormatError;
use oxds_core::time::Instant;

/// State machine that follows one prefix of an etcd cluster.
///
/// Drive it like all machines: after a `handle_*` call, poll [`poll_transmit`](Self::poll_transmit) until it returns
/// `None`, then [`poll_event`](Self::poll_event) until it returns `None`, then arm one timer for
/// [`poll_timeout`](Self::poll_timeout). The machine begins to connect when it is polled first.
#[derive(Debug)]
pub struct Follower {
    pub(super) config: FollowerConfig,

    // State of the store: survives connections.
    pub(super) view: View,
    pub(super) updates: Updates,
    /// Why everything must be read before the next watch.
    pub(super) must_read: Option<ReadReason>,
    /// When the last complete read ended.
    pub(super) read_at: Option<Instant>,
    /// A member answered with an earlier revision than was seen. A second answer decides.
    pub(super) went_back: bool,
    /// Seqs of the heads whose state did not have their digest at the last complete read.
    pub(super) reread: Vec<(crate::names::Segment, u64)>,

    // State of the connection.
    pub(super) phase: Phase,
    pub(super) connection: Connection,
    pub(super) retry: Retry,
    /// Since when no watch works, and why.
    pub(super) trouble: Option<(Instant, Failure)>,
    next_id: u64,

    // Outputs.
    pub(super) transmits: VecDeque<FollowerTransmit>,
    notices: VecDeque<Notice>,
    stopped: Option<FormatError>,
    pub(super) findings: (Vec<FollowerFinding>, usize),
    pub(super) are_findings_new: bool,
    /// Number of inputs and updates.
    pub(super) changes: u64,
}

impl Follower {
    /// Makes a follower that has no state yet.
    #[must_use]
    pub fn new(config: FollowerConfig) -> Self {
        Self::with_lanes(config, Lanes::default())
    }

    /// Makes a follower whose store serves a state already: one that was saved by an earlier process.
    ///
    /// It reads everything; its first update is the difference from the saved state. It holds the saved state if the
    /// store has an earlier publish (G-27).
    #[must_use]
    pub fn with_saved(config: FollowerConfig, state: SavedState) -> Self {
        let resources = state.resources.into_iter().map(|(place, resource)| {
            let entry = Entry::Resource(place);
            (entry, Good::Resource(resource))
        });
        let matchers = state.matchers.into_iter().map(|(group, matcher)| {
            let entry = Entry::Matcher(group);
            (entry, Good::Matcher(matcher.into()))
        });
        let lanes = Lanes::saved(state.heads, resources.chain(matchers));
        Self::with_lanes(config, lanes)
    }

    fn with_lanes(config: FollowerConfig, lanes: Lanes) -> Self {
        let view = View::new(config.prefix.clone(), config.accept_restored, lanes);
        Self {
            view,
            updates: Updates::default(),
            must_read: Some(ReadReason::First),
            read_at: None,
            went_back: false,
            reread: Vec::new(),
            phase: Phase::Waiting {
                until: Instant::EPOCH,
            },
            connection: Connection::default(),
            retry: Retry::new(config.members, config.seed),
            trouble: None,
            next_id: 0,
            transmits: VecDeque::new(),
            notices: VecDeque::new(),
            stopped: None,
            findings: (Vec::new(), 0),
            are_findings_new: false,
            changes: 0,
            config,
        }
    }

    /// Handles a connection: a member can be asked.
    pub fn handle_connected(&mut self, now: Instant, connection: ConnectionId) {
        let is_current = self.connection.current == Some(connection);
        if is_current && matches!(self.phase, Phase::Connecting { .. }) {
            self.begin(now);
        }
        self.after(now);
    }

    /// Handles a connection that could not be made, or that broke.
    pub fn handle_failed(&mut self, now: Instant, connection: ConnectionId, failure: Failure) {
        if self.connection.current == Some(connection) {
            self.fail(now, failure);
        }
        self.after(now);
    }

    /// Handles the answer to a read.
    pub fn handle_range(
        &mut self,
        now: Instant,
        id: RequestId,
        answer: Result<RangeResponse, Failure>,
    ) {
        match &self.phase {
            Phase::Checking { check, .. } if check.waits_for(id) => {
                self.handle_check(now, id, answer);
            }
            Phase::Reading { request, .. } if *request == id => self.handle_page(now, answer),
            Phase::Following(following) => {
                let check = following.check.as_ref();
                if check.is_some_and(|(check, _)| check.waits_for(id)) {
                    self.handle_check(now, id, answer);
                } else {
                    self.handle_stage_page(now, id, answer);
                }
            }
            _ => {}
        }
        self.after(now);
    }

    /// Handles a response of a watch.
    pub fn handle_watch(&mut self, now: Instant, stream: StreamId, response: &WatchResponse) {
        if self.is_open(stream) {
            self.watched(now, response);
        }
        self.after(now);
    }

    /// Handles the end of a stream of watches.
    pub fn handle_watch_closed(&mut self, now: Instant, stream: StreamId, failure: Failure) {
        if self.is_open(stream) {
            self.fail(now, failure);
        }
        self.after(now);
    }

    /// Handles the time that [`poll_timeout`](Self::poll_timeout) returned.
    pub fn handle_timeout(&mut self, now: Instant) {
        let is_due = self.phase.timeout().is_some_and(|at| at <= now);
        match &self.phase {
            _ if !is_due => {}
            Phase::Waiting { .. } => self.connect(now),
            Phase::Connecting { .. } => self.fail_silent(now, "no connection"),
            Phase::Checking { .. } => self.fail_silent(now, "no answer to a read of the heads"),
            Phase::Reading { .. } => self.fail_silent(now, "no answer to a read of all keys"),
            Phase::Following(_) => self.tick(now),
            Phase::Stopped => {}
        }
        self.after(now);
    }

    /// Returns the next action of the driver.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<FollowerTransmit> {
        if let Phase::Waiting { until } = self.phase
            && until <= now
        {
            self.connect(now);
        }
        self.transmits.pop_front()
    }

    /// Returns the next notice, before all other events. A driver that logs the member with it calls this before
    /// [`poll_transmit`](Self::poll_transmit), which may lead to another member.
    pub fn poll_notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }

    /// Returns the next event. Pages of a complete read are taken here, and the first update has the whole
    /// configuration: both take time.
    pub fn poll_event(&mut self) -> Option<FollowerEvent> {
        self.take_page();
        if let Some(notice) = self.poll_notice() {
            return Some(FollowerEvent::Notice(notice));
        }
        let cluster = self.view.cluster.unwrap_or(0);
        let revision = self.view.revision;
        if let Some(update) = self.updates.next(&mut self.view.lanes, cluster, revision) {
            self.changes += 1;
            self.refresh_findings();
            return Some(FollowerEvent::Update(Box::new(update)));
        }
        if mem::take(&mut self.are_findings_new) {
            let (findings, more) = self.findings.clone();
            return Some(FollowerEvent::Findings { findings, more });
        }
        self.stopped.take().map(FollowerEvent::Stopped)
    }

    /// Returns when to call [`handle_timeout`](Self::handle_timeout), if nothing else happens before.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let report = self.next_report();
        self.phase.timeout().into_iter().chain(report).min()
    }

    /// Stops: the store has a format that this build does not read (G-4).
    pub(super) fn stop(&mut self, error: FormatError) {
        self.transmits.clear();
        self.transmits.push_back(FollowerTransmit::Disconnect);
        self.phase = Phase::Stopped;
        self.connection.current = None;
        self.stopped = Some(error);
    }

    /// Makes the failure of a member whose answers cannot be right.
    pub(super) fn inconsistent(reason: &str) -> Failure {
        Failure::new(FailureKind::Inconsistent, reason)
    }

    pub(super) fn notice(&mut self, notice: Notice) {
        self.notices.push_back(notice);
    }

    pub(super) fn new_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// Queues a read.
    pub(super) fn request(&mut self, request: RangeRequest) -> RequestId {
        let id = RequestId(self.new_id());
        let transmit = FollowerTransmit::Range { id, request };
        self.transmits.push_back(transmit);
        id
    }

    fn is_open(&self, stream: StreamId) -> bool {
        matches!(&self.phase, Phase::Following(following) if following.stream == stream)
    }

    /// Ends the handling of an input.
    fn after(&mut self, now: Instant) {
        self.changes += 1;
        self.view.track(now);
        let notices = mem::take(&mut self.view.notices);
        self.notices.extend(notices);
        self.track_reports(now);
        self.refresh_findings();
    }
}
