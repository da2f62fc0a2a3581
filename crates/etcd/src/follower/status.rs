//! Status of a follower: connection, lanes and findings.

use std::time::Duration;

use super::effect::Failure;
use super::finding::{FindingKind, FollowerFinding, MAX_FINDINGS};
use super::lane::{Lane, Obstacle};
use super::machine::Follower;
use super::phase::Phase;
use crate::head::Head;
use crate::keys::Key;
use crate::names::Segment;
use crate::replica_status::ReplicaStatus;
use oxds_core::time::Instant;

/// Status of a follower.
#[derive(Debug, Clone)]
pub struct FollowerStatus {
    /// Whether a member answers: a watch works, or is about to begin.
    pub is_connected: bool,
    /// Since when no watch works, and why; `None` if one does, or if none was tried.
    pub trouble: Option<(Instant, Failure)>,
    /// Cluster that was read.
    pub cluster: Option<u64>,
    /// Revision up to which all changes are known.
    pub revision: i64,
    /// All lanes, by name.
    pub lanes: Vec<LaneStatus>,
}

/// Status of a lane.
#[derive(Debug, Clone)]
pub struct LaneStatus {
    /// Name of the lane.
    pub lane: Segment,
    /// Head that vouches for the served state.
    pub serving: Option<Head>,
    /// Head of the store, as it is known.
    pub store: Option<Head>,
    /// Number of publishes that the last polled update does not cover.
    pub behind: u64,
    /// Time for which there have been such publishes.
    pub behind_for: Duration,
    /// The state of the store is held back: it went back, or another lane has one of its entries.
    pub is_held: bool,
    /// Time for which the state of the store has not had the digest of its head; zero if it has it.
    pub diverged_for: Duration,
}

impl Follower {
    /// Returns the status.
    #[must_use]
    pub fn status(&self, now: Instant) -> FollowerStatus {
        let lanes = self.view.lanes.iter();
        FollowerStatus {
            is_connected: self.is_connected(),
            trouble: self.trouble.clone(),
            cluster: self.view.cluster,
            revision: self.view.revision,
            lanes: lanes.map(|(name, lane)| lane.status(name, now)).collect(),
        }
    }

    /// Returns a number that changes when [`status`](Self::status) or [`is_ready`](Self::is_ready) may have changed.
    #[must_use]
    pub fn status_version(&self) -> u64 {
        self.changes
    }

    /// Returns the statuses of all live replicas, this one included, as far as the store was read. They end with the
    /// leases of their keys; while no watch works they are as old as the last one.
    pub fn replicas(&self) -> impl Iterator<Item = (&Segment, &ReplicaStatus)> {
        self.view.replicas.iter()
    }

    /// Returns a number that changes with [`replicas`](Self::replicas).
    #[must_use]
    pub fn replicas_version(&self) -> u64 {
        self.view.replicas.version()
    }

    /// Returns whether a member answers. A watch that is renewed is no interruption.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        let is_open = matches!(
            self.phase,
            Phase::Checking { .. } | Phase::Reading { .. } | Phase::Following(_)
        );
        is_open && self.trouble.is_none()
    }

    /// Returns whether clients may be answered: a state is served, and no other replica has a later one that this one
    /// cannot verify (G-36). A replica that cannot reach the store stays ready.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.view.lanes.has_state() && !self.is_outdone()
    }

    /// Returns whether a lane has been diverged for long, and another replica serves its head.
    fn is_outdone(&self) -> bool {
        let mut lanes = self.view.lanes.iter();
        lanes.any(|(name, lane)| {
            let head = lane.head.as_ref().filter(|_| lane.is_diverged_for_long);
            let own = &self.config.replica;
            head.is_some_and(|head| self.view.replicas.agrees(own, name, head))
        })
    }

    /// Returns when a lane that is diverged has to be reported.
    pub(super) fn next_report(&self) -> Option<Instant> {
        let lanes = self.view.lanes.iter().map(|(_, lane)| lane);
        let unreported = lanes.filter(|lane| !lane.is_diverged_for_long);
        let since = unreported.filter_map(|lane| lane.diverged_since);
        since.map(|since| since + self.config.timing.report).min()
    }

    pub(super) fn track_reports(&mut self, now: Instant) {
        let report = self.config.timing.report;
        for (_, lane) in self.view.lanes.iter_mut() {
            let since = lane.diverged_since;
            lane.is_diverged_for_long = since.is_some_and(|since| since + report <= now);
        }
    }

    /// Computes the findings. They are reported if they changed.
    pub(super) fn refresh_findings(&mut self) {
        let findings = self.current_findings();
        if findings != self.findings {
            self.findings = findings;
            self.are_findings_new = true;
        }
    }

    fn current_findings(&self) -> (Vec<FollowerFinding>, usize) {
        let invalid = self.updates.invalid();
        let mut more = invalid.len().saturating_sub(MAX_FINDINGS);
        let listed = self.updates.invalid().take(MAX_FINDINGS);
        let mut findings: Vec<_> = listed
            .map(|(entry, lane, reason)| FollowerFinding {
                key: Key::Entry(lane.clone(), entry.clone()),
                kind: FindingKind::Invalid(reason.to_owned()),
            })
            .collect();
        for (name, lane) in self.view.lanes.iter() {
            findings.extend(lane.head_findings(name));
            if lane.is_unpublished_known {
                let changed = lane.changed();
                more += changed.len().saturating_sub(MAX_FINDINGS);
                let keys = changed.take(MAX_FINDINGS);
                findings.extend(keys.map(|entry| FollowerFinding {
                    key: Key::Entry(name.clone(), entry.clone()),
                    kind: FindingKind::Unpublished,
                }));
            }
        }
        findings.extend(self.rollback_findings());
        (findings, more)
    }

    fn rollback_findings(&self) -> impl Iterator<Item = FollowerFinding> {
        let decisions = self.view.reports.decisions().take(MAX_FINDINGS);
        decisions.filter_map(|(lane, place, decision, _)| {
            let kind = match decision {
                Ok(decision) if !self.view.lanes.applies(lane, decision) => return None,
                Ok(decision) => FindingKind::RolledBack {
                    nodes: decision.nodes,
                    reason: decision.reason.clone(),
                    others: decision.parts.len().saturating_sub(1),
                },
                Err(reason) => FindingKind::Invalid(reason.clone()),
            };
            let key = Key::Rollback(lane.clone(), place.clone());
            Some(FollowerFinding { key, kind })
        })
    }
}

impl Lane {
    fn status(&self, name: &Segment, now: Instant) -> LaneStatus {
        let since = |since: Option<Instant>| since.map_or(Duration::ZERO, |since| now - since);
        LaneStatus {
            lane: name.clone(),
            serving: self.serving.clone(),
            store: self.head.clone(),
            behind: self.latest.saturating_sub(self.delivered),
            behind_for: since(self.behind_since),
            is_held: self.obstacle.is_some(),
            diverged_for: since(self.diverged_since),
        }
    }

    /// Returns the findings about the lane as a whole.
    fn head_findings(&self, name: &Segment) -> Vec<FollowerFinding> {
        let store = self.head.as_ref().map(|head| head.seq);
        let invalid = self.head_error.clone().map(FindingKind::Invalid);
        let obstacle = self.obstacle.clone().map(|obstacle| match obstacle {
            Obstacle::WentBack {
                serving,
                store,
                replica,
            } => FindingKind::WentBack {
                serving,
                store,
                replica,
            },
            Obstacle::Duplicate { entry, other } => FindingKind::Duplicate { other, entry },
        });
        let diverged = store.filter(|_| self.is_diverged_for_long);
        let diverged = diverged.map(|store| FindingKind::Diverged { store });
        let kinds = invalid.into_iter().chain(obstacle).chain(diverged);
        let key = Key::Head(name.clone());
        kinds
            .map(|kind| FollowerFinding {
                key: key.clone(),
                kind,
            })
            .collect()
    }
}
