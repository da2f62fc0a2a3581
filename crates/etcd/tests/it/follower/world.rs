//! World: one replica's follower with its driver, a cluster, and a virtual clock.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use oxds_core::group::{Definition, NodeMatcher};
use oxds_core::snapshot::{ChangeSet, Resource};
use oxds_core::time::Instant;
use oxds_etcd::follower::{
    ConnectionId, Failure, FailureKind, FindingKind, Follower, FollowerConfig, FollowerEvent,
    FollowerFinding, FollowerTransmit, FollowerUpdate, Notice, RequestId, SavedState, StreamId,
};
use oxds_etcd::{Entry, FormatError, Head, Place, Segment, Stored};
use oxds_types::etcd::{RangeRequest, RangeResponse, WatchResponse};

use super::cluster::{Fault, Member, Watch};
use super::writer::{State, Writer, prefix};
use crate::model::Etcd;

/// Inputs of one [`World::drive`] at most: a follower that asks again for what it cannot get would never end.
const MOST_INPUTS: usize = 100_000;

/// Input that waits for the follower.
enum Input {
    Connected(ConnectionId),
    Failed(ConnectionId),
    Range(RequestId, Box<Result<RangeResponse, Failure>>),
    Watch(StreamId, WatchResponse),
}

pub(super) struct World {
    pub(super) etcd: Etcd,
    pub(super) now: Instant,
    pub(super) members: Vec<Member>,
    pub(super) follower: Follower,
    pub(super) writers: BTreeMap<Segment, Writer>,
    /// Fault of the next events that are delivered.
    pub(super) fault: Option<Fault>,
    /// Greatest number of events of a response.
    pub(super) fragment: Option<usize>,
    /// The driver does not poll events.
    pub(super) is_busy: bool,
    accepts_restored: bool,
    /// After this many reads, a key changes and the history is compacted.
    pub(super) compact_after_reads: Option<usize>,

    // The driver.
    member: usize,
    connection: Option<ConnectionId>,
    stream: Option<(StreamId, Watch)>,
    inputs: VecDeque<Input>,

    // The store: what it serves, and what happened.
    pub(super) served: State,
    saved: Saved,
    pub(super) updates: Vec<FollowerUpdate>,
    pub(super) notices: Vec<Notice>,
    pub(super) findings: Vec<FollowerFinding>,
    /// Number of times that findings were reported.
    pub(super) reports: usize,
    pub(super) stopped: Vec<FormatError>,
    /// Time that each read takes.
    pub(super) read_takes: Duration,
    /// A lane was reported as diverged.
    pub(super) was_diverged: bool,
    /// Bytes that the follower has allocated for inputs and events.
    pub(super) allocated: u64,
    /// Reads of the follower.
    pub(super) reads: Vec<RangeRequest>,
    /// Times of attempts to connect, and the members.
    pub(super) attempts: Vec<(Instant, usize)>,
}

/// State that survives a restart.
#[derive(Default)]
struct Saved {
    heads: Vec<(Segment, Head)>,
    resources: BTreeMap<Place, Arc<Resource>>,
    matchers: BTreeMap<Segment, NodeMatcher>,
}

pub(super) fn config() -> FollowerConfig {
    FollowerConfig::new(prefix(), Segment::replica("r1").unwrap())
}

impl World {
    /// Makes a cluster of three members and one lane, in which nothing is published yet.
    pub(super) fn new() -> Self {
        Self::with_config(config())
    }

    pub(super) fn with_config(mut config: FollowerConfig) -> Self {
        config.members = 3;
        let mut world = Self {
            accepts_restored: config.accept_restored,
            etcd: Etcd::new(1),
            now: Instant::EPOCH,
            members: vec![Member::Up; config.members],
            follower: Follower::new(config),
            writers: BTreeMap::new(),
            fault: None,
            fragment: None,
            is_busy: false,
            compact_after_reads: None,
            member: 0,
            connection: None,
            stream: None,
            inputs: VecDeque::new(),
            served: State::new(),
            saved: Saved::default(),
            updates: Vec::new(),
            notices: Vec::new(),
            findings: Vec::new(),
            reports: 0,
            stopped: Vec::new(),
            read_takes: Duration::ZERO,
            was_diverged: false,
            allocated: 0,
            reads: Vec::new(),
            attempts: Vec::new(),
        };
        world.etcd.put("/oxds/default/format", "1");
        world
    }

    /// Makes a world in which these entries are published and served.
    pub(super) fn serving(changes: &[(&str, Option<usize>)]) -> Self {
        let mut world = Self::new();
        world.publish(changes);
        world.drive();
        assert!(world.follower.is_ready(), "{:?}", world.notices);
        world
    }

    pub(super) fn writer(&mut self, name: &str) -> &mut Writer {
        let lane = Segment::lane(name).unwrap();
        let writer = self.writers.entry(lane);
        writer.or_insert_with(|| Writer::new(name))
    }

    /// Publishes in the lane `main`, and does not drive the follower.
    pub(super) fn publish(&mut self, changes: &[(&str, Option<usize>)]) {
        self.publish_in("main", changes);
    }

    pub(super) fn publish_in(&mut self, lane: &str, changes: &[(&str, Option<usize>)]) {
        self.write(lane, |writer, etcd| writer.publish(etcd, changes));
    }

    pub(super) fn write<R>(
        &mut self,
        lane: &str,
        write: impl FnOnce(&mut Writer, &mut Etcd) -> R,
    ) -> R {
        let name = Segment::lane(lane).unwrap();
        let writer = self.writers.entry(name);
        let writer = writer.or_insert_with(|| Writer::new(lane));
        write(writer, &mut self.etcd)
    }

    /// Publishes in the lane `main` by a stage that a replica cannot have watched, because it starts when the stage is
    /// there.
    pub(super) fn stage_unseen(&mut self, changes: &[(&str, Option<usize>)]) {
        self.write("main", |writer, etcd| writer.write_stage(etcd, changes));
        self.restart(true);
        self.drive();
        self.write("main", |writer, etcd| writer.commit_stage(etcd));
    }

    /// Returns the revisions at which stages were read.
    pub(super) fn reads_of_stages(&self) -> Vec<i64> {
        let is_of_stage =
            |read: &&RangeRequest| read.range_end.windows(3).any(|part| part == b"/s/");
        let mut revisions: Vec<_> = self
            .reads
            .iter()
            .filter(is_of_stage)
            .map(|read| read.revision)
            .collect();
        revisions.dedup();
        revisions
    }

    /// Lets the follower and the cluster act until nothing is left to do at this time.
    pub(super) fn drive(&mut self) {
        for _ in 0..MOST_INPUTS {
            while let Some(transmit) = self.follower.poll_transmit(self.now) {
                self.transmit(transmit);
            }
            self.deliver();
            let Some(input) = self.inputs.pop_front() else {
                self.poll_events();
                return;
            };
            self.input(input);
            self.poll_events();
        }
        panic!("the follower asks without end: {:?}", self.reads.last());
    }

    /// Lets the follower and the cluster act until this many more watch responses were handled.
    pub(super) fn drive_inputs(&mut self, mut responses: usize) {
        while responses > 0 {
            while let Some(transmit) = self.follower.poll_transmit(self.now) {
                self.transmit(transmit);
            }
            self.deliver();
            let Some(input) = self.inputs.pop_front() else {
                return;
            };
            responses -= usize::from(matches!(input, Input::Watch(..)));
            self.input(input);
            self.poll_events();
        }
    }

    /// Lets the follower open a watch, and returns its responses, which it has not got.
    pub(super) fn open_and_take(&mut self) -> Vec<(StreamId, WatchResponse)> {
        loop {
            while let Some(transmit) = self.follower.poll_transmit(self.now) {
                self.transmit(transmit);
            }
            if self.stream.is_some() {
                self.deliver();
            }
            match self.inputs.pop_front() {
                Some(Input::Watch(stream, response)) => {
                    let rest = std::mem::take(&mut self.inputs).into_iter();
                    let rest = rest.filter_map(|input| match input {
                        Input::Watch(stream, response) => Some((stream, response)),
                        _ => None,
                    });
                    return [(stream, response)].into_iter().chain(rest).collect();
                }
                Some(input) => self.input(input),
                None => return Vec::new(),
            }
        }
    }

    pub(super) fn poll_events(&mut self) {
        while !self.is_busy {
            let mut event = None;
            let cost = allocation_counter::measure(|| event = self.follower.poll_event());
            self.allocated += cost.bytes_total;
            match event {
                Some(event) => self.event(event),
                None => return,
            }
        }
    }

    /// Lets time pass.
    pub(super) fn pass(&mut self, duration: Duration) {
        let end = self.now + duration;
        self.drive();
        while let Some(due) = self.follower.poll_timeout().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            self.follower.handle_timeout(self.now);
            self.drive();
        }
        self.now = end;
    }

    pub(super) fn pass_seconds(&mut self, seconds: u64) {
        self.pass(Duration::from_secs(seconds));
    }

    /// Starts the process again: with the state that it served, or without one.
    pub(super) fn restart(&mut self, is_saved: bool) {
        self.disconnect();
        let mut config = config();
        config.members = self.members.len();
        if is_saved && !self.saved.heads.is_empty() {
            let saved = &self.saved;
            let state = SavedState {
                heads: saved.heads.clone(),
                resources: saved.resources.clone().into_iter().collect(),
                matchers: saved.matchers.clone().into_iter().collect(),
            };
            self.follower = Follower::with_saved(config, state);
        } else {
            self.served.clear();
            self.saved = Saved::default();
            self.follower = Follower::new(config);
        }
        self.findings.clear();
        self.notices.clear();
        self.updates.clear();
    }

    /// Breaks the connection.
    pub(super) fn disconnect(&mut self) {
        self.stream = None;
        self.inputs.clear();
        if let Some(connection) = self.connection.take() {
            let failure = Failure::new(FailureKind::Unreachable, "reset");
            self.follower.handle_failed(self.now, connection, failure);
        }
    }

    /// Returns the member that is used.
    pub(super) fn member(&self) -> usize {
        self.member
    }

    pub(super) fn set_member(&mut self, number: usize, member: Member) {
        self.members[number] = member;
    }

    fn transmit(&mut self, transmit: FollowerTransmit) {
        match transmit {
            FollowerTransmit::Connect {
                connection,
                another,
            } => {
                self.stream = None;
                self.inputs.clear();
                if another {
                    self.member = (self.member + 1) % self.members.len();
                }
                self.attempts.push((self.now, self.member));
                self.connection = Some(connection);
                self.inputs.push_back(match self.members[self.member] {
                    Member::Down => Input::Failed(connection),
                    _ => Input::Connected(connection),
                });
            }
            FollowerTransmit::Disconnect => {
                self.stream = None;
                self.connection = None;
                self.inputs.clear();
            }
            FollowerTransmit::Range { id, request } => {
                let answer = self.members[self.member].range(&self.etcd, &request);
                self.reads.push(request);
                if self.compact_after_reads == Some(self.reads.len()) {
                    let revision = self.etcd.put("/oxds/default/x/r9", "{}");
                    self.etcd.compact(revision);
                }
                self.inputs
                    .extend(answer.map(|answer| Input::Range(id, Box::new(answer))));
            }
            FollowerTransmit::OpenWatch { stream, request } => {
                assert!(request.fragment && request.progress_notify);
                self.stream = Some((stream, Watch::new(request)));
            }
            FollowerTransmit::RequestProgress { stream } => {
                self.deliver();
                let member = &self.members[self.member];
                if let Some((open, watch)) = &self.stream
                    && *open == stream
                    && !matches!(member, Member::Silent | Member::Down)
                {
                    let etcd = match member {
                        Member::Stale(stale) => stale,
                        _ => &self.etcd,
                    };
                    let mut progress = watch.progress(etcd);
                    if matches!(member, Member::Alone) {
                        // It has no later events, so it does not know of the revision either.
                        progress.header.as_mut().unwrap().revision = 0;
                    }
                    self.inputs.push_back(Input::Watch(stream, progress));
                }
            }
            FollowerTransmit::CloseWatch { stream } => {
                if self
                    .stream
                    .as_ref()
                    .is_some_and(|(open, _)| *open == stream)
                {
                    self.stream = None;
                }
            }
        }
    }

    /// Delivers the events that the watch has not sent yet.
    fn deliver(&mut self) {
        let Some((stream, watch)) = &mut self.stream else {
            return;
        };
        let etcd = match &self.members[self.member] {
            Member::Up | Member::Large(_) => &self.etcd,
            Member::Stale(stale) => stale,
            Member::Down | Member::Silent | Member::Alone | Member::Denied => return,
        };
        let responses = watch.deliver(etcd, self.fault, self.fragment);
        if responses.iter().any(|response| !response.created) {
            self.fault = None;
        }
        let inputs = responses
            .into_iter()
            .map(|response| Input::Watch(*stream, response));
        self.inputs.extend(inputs);
    }

    fn input(&mut self, input: Input) {
        if matches!(input, Input::Range(..)) {
            self.now += self.read_takes;
        }
        let (now, follower) = (self.now, &mut self.follower);
        let cost = allocation_counter::measure(|| match input {
            Input::Connected(connection) => follower.handle_connected(now, connection),
            Input::Failed(connection) => {
                let failure = Failure::new(FailureKind::Unreachable, "refused");
                follower.handle_failed(now, connection, failure);
            }
            Input::Range(id, answer) => follower.handle_range(now, id, *answer),
            Input::Watch(stream, response) => follower.handle_watch(now, stream, &response),
        });
        self.allocated += cost.bytes_total;
    }

    fn event(&mut self, event: FollowerEvent) {
        match event {
            FollowerEvent::Update(update) => {
                self.apply(&update);
                self.check_seqs(&update.heads);
                self.saved.heads.clone_from(&update.heads);
                self.check_published(&update.heads);
                self.updates.push(*update);
            }
            FollowerEvent::Findings { findings, .. } => {
                self.was_diverged |= findings
                    .iter()
                    .any(|finding| matches!(finding.kind, FindingKind::Diverged { .. }));
                self.findings = findings;
                self.reports += 1;
            }
            FollowerEvent::Notice(notice) => self.notices.push(notice),
            FollowerEvent::Stopped(error) => self.stopped.push(error),
        }
    }

    fn apply(&mut self, update: &FollowerUpdate) {
        self.apply_scope(None, &update.changes);
        for group in &update.groups {
            let name = Segment::group(&group.name).unwrap();
            self.apply_scope(Some(&name), &group.changes);
            let matcher = Entry::Matcher(name.clone());
            match &group.definition {
                Definition::Unchanged => {}
                Definition::Unset => {
                    self.served.remove(&matcher);
                    self.saved.matchers.remove(&name);
                }
                Definition::Set(set) => {
                    let stored = Stored::of_matcher(set, None);
                    self.served.insert(matcher, stored.digest_version());
                    self.saved.matchers.insert(name, NodeMatcher::clone(set));
                }
            }
        }
    }

    fn apply_scope(&mut self, group: Option<&Segment>, changes: &ChangeSet) {
        let place = |resource_type, name| Place {
            group: group.cloned(),
            resource_type,
            name,
        };
        for (resource_type, name) in changes.removals.iter().cloned() {
            let place = place(resource_type, name);
            self.saved.resources.remove(&place);
            self.served.remove(&place.into());
        }
        for resource in &changes.upserts {
            let place = place(resource.resource_type().clone(), resource.name().clone());
            self.saved
                .resources
                .insert(place.clone(), Arc::clone(resource));
            self.served.insert(place.into(), resource.version());
        }
    }

    /// Checks that no lane goes back.
    fn check_seqs(&self, heads: &[(Segment, Head)]) {
        if self.accepts_restored {
            return;
        }
        for (lane, before) in &self.saved.heads {
            let head = heads.iter().find(|(name, _)| name == lane);
            let seq = head.map(|(_, head)| head.seq);
            assert!(
                seq >= Some(before.seq),
                "lane {lane} went back: {before:?}, {heads:?}"
            );
        }
    }

    /// Checks that the served state is the union of the states that the heads vouch for.
    fn check_published(&self, heads: &[(Segment, Head)]) {
        let mut expected = State::new();
        for (lane, head) in heads {
            let published = &self.writers[lane].published[&head.publish];
            expected.extend(published.iter().map(|(e, v)| (e.clone(), *v)));
        }
        assert_eq!(self.served, expected, "served, and published by {heads:?}");
    }

    /// Checks that the latest publish of each lane is served.
    pub(super) fn check_current(&self) {
        let states = self.writers.values().map(|writer| &writer.state);
        let expected = states.flatten().map(|(e, v)| (e.clone(), *v)).collect();
        assert_eq!(
            self.served, expected,
            "served, and published last: {:?}",
            self.notices
        );
    }

    /// Returns the seqs that the updates brought the lane `main` to.
    pub(super) fn history(&self) -> Vec<u64> {
        self.updates
            .iter()
            .map(|update| update.heads[0].1.seq)
            .collect()
    }

    /// Returns the number of complete reads.
    pub(super) fn complete_reads(&self) -> usize {
        let readings = self.notices.iter();
        readings
            .filter(|notice| matches!(notice, Notice::Reading(_)))
            .count()
    }

    /// Returns the texts of the findings.
    pub(super) fn finding_texts(&self) -> Vec<String> {
        self.findings.iter().map(ToString::to_string).collect()
    }

    pub(super) fn has_finding(&self, is: impl Fn(&FindingKind) -> bool) -> bool {
        self.findings.iter().any(|finding| is(&finding.kind))
    }

    /// Returns the names of the upserts and removals of the last update, for all nodes.
    pub(super) fn last_changes(&self) -> (Vec<String>, Vec<String>) {
        let changes = &self.updates.last().unwrap().changes;
        let upserts = changes.upserts.iter().map(|r| r.name().to_string());
        let removals = changes.removals.iter().map(|(_, name)| name.to_string());
        (upserts.collect(), removals.collect())
    }
}
