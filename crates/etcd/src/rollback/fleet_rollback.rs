//! The machine of one replica: answers NACK reports, and decides when all replicas agree. The [module](super) has the
//! picture.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use oxds_types::Version;
use oxds_types::etcd::{
    Compare, CompareResult, CompareTarget, CompareValue, DeleteRangeRequest, PutRequest, Request,
    RequestOp, TxnRequest,
};

use super::change::{Opinion, Trial};
use super::decision::Decision;
use super::nodes::NackingNodes;
use super::report::{Good, NackReport};
use super::reports::Reports;
use crate::entry::Place;
use crate::keys::{BadVersion, Key};
use crate::names::{Prefix, Segment};
use oxds_core::time::Instant;

/// Least time between two writes of one key. A write that took effect is seen in the store long before.
const PAUSE: Duration = Duration::from_millis(500);
/// Time until the next look whether the server serves the version that it follows.
const LOOK: Duration = Duration::from_millis(50);
/// Time for the other replicas to answer; then the silent ones are reported (G-38).
const ANSWER: Duration = Duration::from_secs(2);
/// Largest decision, in bytes: etcd's limit of a request is 1.5 MiB.
const MAX_DECISION: usize = 1_400_000;

/// Conditions of a transaction: etcd's limit of operations.
const MAX_COMPARES: usize = 128;

/// Published state, as this replica follows it.
pub trait Published {
    /// Returns all reports and decisions.
    fn reports(&self) -> &Reports;
    /// Returns the live replicas: those that have a status key.
    fn replicas(&self) -> Vec<Segment>;
    /// Returns the lane that publishes a place.
    fn lane_of(&self, place: &Place) -> Option<Segment>;
    /// Returns the followed version of a place, as the lane counts it, whether or not it is rolled back.
    fn version(&self, lane: &Segment, place: &Place) -> Option<Version>;
    /// Returns the revision up to which reports and statuses are known.
    fn revision(&self) -> i64;
    /// Returns the revision at which the head of a lane was written; `None` unless the state of this head is followed.
    fn head_revision(&self, lane: &Segment) -> Option<i64>;

    /// Returns whether a decision applies: the lane has the published version of each part.
    fn applies(&self, lane: &Segment, decision: &Decision) -> bool {
        let mut parts = decision.parts.iter();
        parts.all(|part| self.version(lane, &part.place) == part.version)
    }
}

/// Knowledge of this replica about changes.
pub trait LocalChanges {
    /// Returns the changes that nodes NACKed, and that are not accepted by all.
    fn nacked(&self) -> Vec<Trial>;
    /// Returns what the replica says about a version.
    fn opinion(&self, place: &Place, version: Version) -> Opinion;
}

/// State machine of a replica.
///
/// Call [`handle`](Self::handle) after each change of the published state, after a NACK, and at
/// [`poll_timeout`](Self::poll_timeout); then poll [`poll_write`](Self::poll_write) until it returns `None`. Outcomes
/// of writes are seen in what is published.
#[derive(Debug)]
pub struct FleetRollback {
    prefix: Prefix,
    own: Segment,
    threshold: u64,
    /// Versions whose NACKs exceed the threshold, since when.
    counted: BTreeMap<BadVersion, Instant>,
    /// Keys that were written, until when they rest.
    rests: BTreeMap<Key, Instant>,
    /// A write waits for the end of a rest.
    is_waiting: bool,
    /// When to look at the served versions again.
    look_at: Option<Instant>,
    writes: VecDeque<Write>,
    obstacles: Vec<Obstacle>,
}

/// A write, as one transaction.
#[derive(Debug, Clone, PartialEq)]
pub struct Write {
    /// The key.
    pub key: Key,
    /// The transaction. If its conditions do not hold, nothing is to be done.
    pub request: TxnRequest,
}

/// Why there is no decision although enough nodes NACKed a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Obstacle {
    /// The version.
    pub bad: BadVersion,
    /// The reason.
    pub kind: ObstacleKind,
}

/// Reasons against a decision, with the replicas that cause them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ObstacleKind {
    /// They have not answered for 2 s.
    Silent(Vec<Segment>),
    /// Their clients had not all accepted a former version.
    Lacking(Vec<Segment>),
    /// They would return to other versions.
    Disagreeing(Vec<Segment>),
    /// The former versions do not fit into one value; the size in bytes.
    TooLarge(usize),
    /// There are more replicas than one transaction can compare; the number of conditions.
    TooMany(usize),
}

impl FleetRollback {
    /// Makes the machine of the replica `own`. More than `threshold` nodes of all replicas must NACK a change.
    #[must_use]
    pub fn new(prefix: Prefix, own: Segment, threshold: usize) -> Self {
        Self {
            prefix,
            own,
            threshold: u64::try_from(threshold).unwrap_or(u64::MAX),
            counted: BTreeMap::new(),
            rests: BTreeMap::new(),
            is_waiting: false,
            look_at: None,
            writes: VecDeque::new(),
            obstacles: Vec::new(),
        }
    }

    /// Compares what is published with what this replica knows.
    pub fn handle(
        &mut self,
        now: Instant,
        published: &impl Published,
        local: &(impl LocalChanges + ?Sized),
    ) {
        self.rests.retain(|_, until| *until > now);
        (self.is_waiting, self.look_at, self.obstacles) = (false, None, Vec::new());
        self.writes.clear();
        let open = open(published, local);
        self.counted.retain(|bad, _| open.contains_key(bad));
        for (bad, trial) in open {
            let opinion = match trial {
                Some(trial) => Opinion::Trial(trial),
                None => local.opinion(&bad.place, bad.version),
            };
            self.answer(now, &bad, &opinion, published.reports());
            self.count(now, bad, &opinion, published);
        }
        self.delete_old_reports(now, published);
        self.delete_void_decisions(now, published);
    }

    /// Returns the next write. `lease` is that of the status key: reports end with their replica.
    pub fn poll_write(&mut self, lease: i64) -> Option<Write> {
        let mut write = self.writes.pop_front()?;
        if matches!(write.key, Key::Nack(..)) {
            for operation in &mut write.request.success {
                if let Some(Request::Put(put)) = &mut operation.request {
                    put.lease = lease;
                }
            }
        }
        Some(write)
    }

    /// Returns when to call [`handle`](Self::handle) if nothing happens before.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let rests = self.rests.values().filter(|_| self.is_waiting).copied();
        let answers = self.counted.values().map(|since| *since + ANSWER);
        let reported = |bad: &BadVersion| self.obstacles.iter().any(|one| one.bad == *bad);
        let is_open = self.counted.keys().any(|bad| !reported(bad));
        let answers = answers.filter(|_| is_open);
        rests.chain(answers).chain(self.look_at).min()
    }

    /// Returns why there is no decision although enough nodes NACKed a version.
    #[must_use]
    pub fn obstacles(&self) -> &[Obstacle] {
        &self.obstacles
    }

    /// Writes the own report, unless the store has it.
    fn answer(&mut self, now: Instant, bad: &BadVersion, opinion: &Opinion, reports: &Reports) {
        let report = match opinion {
            Opinion::Trial(trial) => {
                let good = Good::Change(trial.hash());
                NackReport::new(trial.nodes.clone(), &trial.reason, good)
            }
            Opinion::NoClients => NackReport::new(NackingNodes::default(), "", Good::NoClients),
            Opinion::Lacking => NackReport::new(NackingNodes::default(), "", Good::Lacking),
            // It answers when it serves the version, which it follows already.
            Opinion::NotServed => {
                self.look_at = Some(now + LOOK);
                return;
            }
        };
        if reports.report(bad, &self.own) != Some(&report) {
            let key = bad.report_key(&self.own);
            let put = self.put(&key, report.encode().into());
            self.write(now, key, Vec::new(), put);
        }
    }

    /// Adds the reports of all live replicas, and decides if they agree.
    fn count(
        &mut self,
        now: Instant,
        bad: BadVersion,
        opinion: &Opinion,
        published: &impl Published,
    ) {
        let (replicas, reports) = (published.replicas(), published.reports());
        let answers = replicas.iter().map(|of| (of, reports.report(&bad, of)));
        let answers: Vec<_> = answers.collect();
        let given = || {
            answers
                .iter()
                .filter_map(|(of, report)| Some((*of, (*report)?)))
        };
        let nodes = NackingNodes::distinct(given().map(|(_, report)| &report.nodes));
        if nodes <= self.threshold {
            self.counted.remove(&bad);
            return;
        }
        let since = *self.counted.entry(bad.clone()).or_insert(now);
        let of = |good: Good| {
            let those = given().filter(move |(_, report)| report.good == good);
            those.map(|(of, _)| of.clone()).collect::<Vec<_>>()
        };
        let silent = answers.iter().filter(|(_, report)| report.is_none());
        let silent: Vec<_> = silent.map(|(of, _)| (*of).clone()).collect();
        if !silent.is_empty() {
            if since + ANSWER <= now {
                self.obstruct(bad, ObstacleKind::Silent(silent));
            }
            return;
        }
        let lacking = of(Good::Lacking);
        if !lacking.is_empty() {
            return self.obstruct(bad, ObstacleKind::Lacking(lacking));
        }
        let changes = given().filter(|(_, report)| matches!(report.good, Good::Change(_)));
        let changes: BTreeMap<_, _> = changes
            .map(|(of, report)| (report.good.to_string(), of.clone()))
            .collect();
        if changes.len() > 1 {
            let those = changes.into_values().collect();
            return self.obstruct(bad, ObstacleKind::Disagreeing(those));
        }
        // A replica whose clients do not see the place does not know the former version.
        if let Opinion::Trial(trial) = opinion
            && changes.contains_key(&trial.hash().to_string())
            && replicas.contains(&self.own)
        {
            let reason = given().map(|(_, report)| &*report.reason);
            let reason = reason.filter(|reason| !reason.is_empty()).min();
            let decision = Decision::new(trial, reason.unwrap_or_default(), nodes, &self.own);
            self.decide(now, bad, &decision, published);
        }
    }

    /// Creates the decision, unless by then another replica has, the lane has another head, a report is another one, or
    /// a replica has started: all that was counted holds at the moment of the decision.
    fn decide(
        &mut self,
        now: Instant,
        bad: BadVersion,
        decision: &Decision,
        published: &impl Published,
    ) {
        let Some(head) = published.head_revision(&bad.lane) else {
            return;
        };
        let value = decision.encode();
        if value.len() > MAX_DECISION {
            return self.obstruct(bad, ObstacleKind::TooLarge(value.len()));
        }
        // Not zero: a decision about an earlier publish is replaced.
        let known = published.reports().decision(&bad.lane, &bad.place);
        let known = known.map_or(0, |(_, revision)| *revision);
        let key = bad.decision_key();
        let mut compare = self.unchanged(&key, known, &bad.lane, head);
        // All reports are as they were counted, also those that could be deleted.
        for (replica, revision) in published.reports().revisions(&bad) {
            compare.push(self.is_at(&bad.report_key(replica), revision));
        }
        // No replica has started since they were counted.
        let statuses = self.prefix.statuses();
        compare.push(Compare {
            result: CompareResult::Less.into(),
            target: CompareTarget::Create.into(),
            key: statuses.start,
            value: Some(CompareValue::CreateRevision(published.revision() + 1)),
            range_end: statuses.end,
        });
        if compare.len() > MAX_COMPARES {
            return self.obstruct(bad, ObstacleKind::TooMany(compare.len()));
        }
        let put = self.put(&key, value);
        self.write(now, key, compare, put);
    }

    /// Deletes own reports about versions that the lane does not have any more.
    fn delete_old_reports(&mut self, now: Instant, published: &impl Published) {
        let reports = published.reports();
        let old = reports.reported().filter(|bad| {
            published.version(&bad.lane, &bad.place) != Some(bad.version)
                && reports.report(bad, &self.own).is_some()
        });
        let keys: Vec<_> = old.map(|bad| bad.report_key(&self.own)).collect();
        for key in keys {
            let delete = self.delete(&key);
            self.write(now, key, Vec::new(), delete);
        }
    }

    /// Deletes decisions about earlier publishes. One replica does so.
    fn delete_void_decisions(&mut self, now: Instant, published: &impl Published) {
        if published.replicas().iter().min() != Some(&self.own) {
            return;
        }
        let mut void = Vec::new();
        for (lane, place, decision, revision) in published.reports().decisions() {
            // One that cannot be read may be of a later build.
            if let (Ok(decision), Some(head)) = (decision, published.head_revision(lane))
                && !published.applies(lane, decision)
            {
                void.push((lane.clone(), place.clone(), revision, head));
            }
        }
        for (lane, place, revision, head) in void {
            let key = Key::Rollback(lane.clone(), place);
            let compare = self.unchanged(&key, revision, &lane, head);
            let delete = self.delete(&key);
            self.write(now, key, compare, delete);
        }
    }

    fn obstruct(&mut self, bad: BadVersion, kind: ObstacleKind) {
        self.obstacles.push(Obstacle { bad, kind });
    }

    /// Queues a write, unless the key rests.
    fn write(&mut self, now: Instant, key: Key, compare: Vec<Compare>, operation: RequestOp) {
        if self.rests.contains_key(&key) {
            self.is_waiting = true;
            return;
        }
        self.rests.insert(key.clone(), now + PAUSE);
        // If it fails, it is tried again.
        self.is_waiting = true;
        let request = TxnRequest {
            compare,
            success: vec![operation],
            failure: Vec::new(),
        };
        self.writes.push_back(Write { key, request });
    }

    /// Returns the conditions that a key and the head of a lane are as they were at these revisions; 0 for a key that
    /// does not exist.
    fn unchanged(&self, key: &Key, revision: i64, lane: &Segment, head: i64) -> Vec<Compare> {
        let head_key = Key::Head(lane.clone());
        vec![self.is_at(key, revision), self.is_at(&head_key, head)]
    }

    /// Returns the condition that a key was written last at this revision; 0 for a key that does not exist.
    fn is_at(&self, key: &Key, revision: i64) -> Compare {
        Compare {
            result: CompareResult::Equal.into(),
            target: CompareTarget::Mod.into(),
            key: self.prefix.key(key),
            value: Some(CompareValue::ModRevision(revision)),
            range_end: Bytes::new(),
        }
    }

    fn put(&self, key: &Key, value: Bytes) -> RequestOp {
        let put = PutRequest {
            key: self.prefix.key(key),
            value,
            ..PutRequest::default()
        };
        RequestOp {
            request: Some(Request::Put(put)),
        }
    }

    fn delete(&self, key: &Key) -> RequestOp {
        let delete = DeleteRangeRequest {
            key: self.prefix.key(key),
            ..DeleteRangeRequest::default()
        };
        RequestOp {
            request: Some(Request::DeleteRange(delete)),
        }
    }
}

/// Returns the versions that are published and NACKed, with the own change if nodes of this replica NACKed it, without
/// those that are decided.
fn open(
    published: &impl Published,
    local: &(impl LocalChanges + ?Sized),
) -> BTreeMap<BadVersion, Option<Trial>> {
    let mut open = BTreeMap::new();
    for trial in local.nacked() {
        let first = trial.first().and_then(|(place, version)| {
            Some(BadVersion {
                lane: published.lane_of(place)?,
                place: place.clone(),
                version,
            })
        });
        open.extend(first.map(|bad| (bad, Some(trial))));
    }
    for bad in published.reports().reported() {
        open.entry(bad.clone()).or_insert(None);
    }
    let mut decided = BTreeSet::new();
    for (lane, _, decision, _) in published.reports().decisions() {
        if let Ok(decision) = decision
            && published.applies(lane, decision)
        {
            let parts = decision.parts.iter();
            decided.extend(parts.map(|part| (lane.clone(), part.place.clone())));
        }
    }
    open.retain(|bad, _| {
        let is_published = published.version(&bad.lane, &bad.place) == Some(bad.version);
        is_published && !decided.contains(&(bad.lane.clone(), bad.place.clone()))
    });
    open
}

impl fmt::Display for ObstacleKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |replicas: &[Segment]| {
            let names: Vec<_> = replicas.iter().map(|replica| &**replica).collect();
            names.join(", ")
        };
        match self {
            Self::Silent(replicas) => write!(f, "no answer of {}", names(replicas)),
            Self::Lacking(replicas) => write!(
                f,
                "clients of {} had not accepted a former version",
                names(replicas)
            ),
            Self::Disagreeing(replicas) => write!(
                f,
                "the clients of {} had accepted different former versions",
                names(replicas)
            ),
            Self::TooMany(conditions) => write!(
                f,
                "too many replicas: a decision has {conditions} conditions, expected at most {MAX_COMPARES}"
            ),
            Self::TooLarge(bytes) => write!(
                f,
                "the former versions have {bytes} bytes: expected at most {MAX_DECISION}"
            ),
        }
    }
}
