//! Connections: attempts, failures, and the decision whether a watch can resume.

use std::time::Duration;

use oxds_types::etcd::RangeResponse;

use super::check::{Check, Checked};
use super::effect::{ConnectionId, Failure, FailureKind, FollowerTransmit, RequestId};
use super::event::{Notice, ReadReason};
use super::machine::Follower;
use super::phase::{Expected, Phase};
use oxds_core::time::Instant;

impl Follower {
    /// Connects to a member.
    pub(super) fn connect(&mut self, now: Instant) {
        let connection = ConnectionId(self.new_id());
        self.connection.current = Some(connection);
        let another = std::mem::take(&mut self.connection.use_another);
        self.transmits.push_back(FollowerTransmit::Connect {
            connection,
            another,
        });
        let until = now + self.config.timing.connect;
        self.phase = Phase::Connecting { until };
    }

    /// Begins on a new connection: reads everything, or decides whether a watch can resume.
    pub(super) fn begin(&mut self, now: Instant) {
        match self.must_read.clone() {
            Some(reason) => self.read_all(now, reason),
            None => {
                let check = self.check();
                let until = now + self.config.timing.answer;
                self.phase = Phase::Checking { check, until };
            }
        }
    }

    /// Queues a linearizable read of the heads of all known lanes.
    pub(super) fn check(&mut self) -> Check {
        let lanes = self.view.lanes.iter().map(|(lane, _)| lane.clone());
        let lanes = lanes.collect();
        let since = self.view.revision;
        let check = Check::new(lanes, || RequestId(self.new_id()), since);
        for (id, request) in check.requests(&self.config.prefix) {
            let transmit = FollowerTransmit::Range { id, request };
            self.transmits.push_back(transmit);
        }
        check
    }

    /// Handles an answer to a read of the heads.
    pub(super) fn handle_check(
        &mut self,
        now: Instant,
        id: RequestId,
        answer: Result<RangeResponse, Failure>,
    ) {
        let response = match answer {
            Ok(response) => response,
            Err(failure) => return self.fail(now, failure),
        };
        let taken = match &mut self.phase {
            Phase::Checking { check, .. } => check.take(id, &response),
            Phase::Following(following) => match &mut following.check {
                Some((check, _)) => check.take(id, &response),
                None => Ok(None),
            },
            _ => Ok(None),
        };
        match taken {
            Ok(Some(checked)) => self.checked(now, checked),
            Ok(None) => {}
            Err(reason) => self.fail(now, Self::inconsistent(reason)),
        }
    }

    /// Compares the heads of the store with the view.
    fn checked(&mut self, now: Instant, checked: Checked) {
        for (lane, seq) in checked.seqs() {
            self.view.lanes.lane(lane).latest = seq;
        }
        let is_resuming = matches!(self.phase, Phase::Checking { .. });
        let reason = if !checked.is_from(self.view.cluster) {
            Some(ReadReason::OtherCluster)
        } else if checked.is_behind() {
            if !self.went_back {
                return self.fail_backward(now);
            }
            Some(ReadReason::WentBack)
        } else {
            // If the store was restored, its history has its publishes before the statuses of replicas. A read shows
            // them together (G-27).
            let is_empty = is_resuming && !self.view.lanes.has_state();
            let contradiction = checked.contradicts(&self.view.lanes);
            contradiction.or_else(|| is_empty.then_some(ReadReason::First))
        };
        if let Some(reason) = reason {
            return self.read_all(now, reason);
        }
        self.went_back = false;
        // A watch that has just begun has to catch up. Until then, etcd before 3.5.8 would report progress falsely.
        if is_resuming {
            self.follow(now);
        }
        let until = now + self.config.timing.probe + self.config.timing.answer;
        let seen = self.view.revision;
        if let Phase::Following(following) = &mut self.phase {
            following.check = None;
            following.expected = Some(Expected {
                checked,
                seen,
                until,
            });
        }
        self.compare_expected(now);
        if !is_resuming {
            self.request_progress();
        }
    }

    /// Requests progress if the watch has not reached the revision of the heads: in a prefix without changes nothing
    /// else shows it.
    fn request_progress(&mut self) {
        if let Phase::Following(following) = &self.phase
            && following.expected.is_some()
        {
            let stream = following.stream;
            let transmit = FollowerTransmit::RequestProgress { stream };
            self.transmits.push_back(transmit);
        }
    }

    /// Handles an answer that is older than what was seen: a member that is behind, or a restored backup. Another
    /// answer decides.
    pub(super) fn fail_backward(&mut self, now: Instant) {
        self.went_back = true;
        self.fail(
            now,
            Self::inconsistent("the member answers with an earlier revision than was seen"),
        );
    }

    /// Handles a member that does not answer.
    pub(super) fn fail_silent(&mut self, now: Instant, what: &str) {
        self.fail(now, Failure::new(FailureKind::Silent, what));
    }

    /// Ends the connection; the next one goes to another member.
    pub(super) fn fail(&mut self, now: Instant, failure: Failure) {
        if matches!(self.phase, Phase::Stopped) {
            return;
        }
        self.transmits.clear();
        self.connection.current = None;
        self.connection.use_another = true;
        self.trouble = Some((
            self.trouble.take().map_or(now, |(since, _)| since),
            failure.clone(),
        ));
        self.notice(Notice::Disconnected(failure));
        match self.retry.next() {
            Duration::ZERO => self.connect(now),
            delay => {
                self.transmits.push_back(FollowerTransmit::Disconnect);
                let until = now + delay;
                self.phase = Phase::Waiting { until };
            }
        }
    }
}
