//! The loop around the follower: inputs, timers, transmits, and the updates that the server takes.

use std::collections::{BTreeMap, HashSet};

use oxds_core::group::GroupUpdate;
use oxds_core::rollout::RolloutPublish;
use oxds_core::snapshot::ChangeSet;
use oxds_etcd::follower::{Follower, FollowerEvent};
use oxds_etcd::rollback::{Decision, Published as _};
use oxds_etcd::shedding::{OwnStreams, Shedding};
use oxds_etcd::{PublishId, Segment};
use prost::Message as _;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant as TokioInstant, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::clock::Clock;
use super::failure;
use super::io::{Input, Io};
use super::options::EtcdStoreOptions;
use super::report::Report;
use super::rollback_keys::RollbackKeys;
use super::space_check::SpaceCheck;
use super::status_key::{Applied, StatusKey};
use super::unknown_fields::UnknownFields;
use super::update::{self, Findings};
use crate::store::link::ServerLink;
use crate::store::update::Update;

/// Bytes of input from which on the next update is made on a thread for blocking work. 1 MiB takes a few milliseconds.
const LARGE: usize = 1 << 20;
/// Limit on decisions that are shown: other programs may write below the prefix.
const MAX_ROLLBACKS: usize = 200;
/// Inputs that are handled before timers are looked at.
const BATCH: usize = 64;

/// An update for the server.
#[derive(Debug)]
pub(super) struct Delivery {
    pub(super) update: Update,
    /// Heads of the state after the update, if that changes.
    pub(super) heads: Option<Applied>,
}

/// The follower with everything around it.
pub(super) struct Driver {
    /// `None` only while a thread for blocking work has it.
    follower: Option<Box<Follower>>,
    io: Io,
    inputs: mpsc::Receiver<Input>,
    clock: Clock,
    updates: mpsc::Sender<Delivery>,
    link: Option<ServerLink>,
    unusable: Option<oneshot::Sender<String>>,
    report: Report,
    /// [`Follower::status_version`] that was reported last.
    reported: Option<u64>,
    findings: Findings,
    /// Publish of each lane that the server got last.
    delivered: BTreeMap<Segment, PublishId>,
    /// The server got a state of the store.
    has_delivered: bool,
    /// An earlier process kept a state, which can be served.
    has_state: bool,
    /// The first update has only what changed since that state.
    continues_last_good: bool,
    /// Members at whose addresses another program answers.
    wrong: HashSet<String>,
    members: usize,
    /// Bytes of input since the last update.
    unpolled: usize,
    /// Writer of the status key. It ends with the driver, or by itself when the server shuts down.
    status: JoinSet<()>,
    /// `None` if NACKs lead to no rollback.
    rollbacks: Option<RollbackKeys>,
    /// Decisions of all replicas that were reported last, and [`Follower::fleet_changes`] at that time.
    decisions: (u64, Vec<(Segment, Decision)>),
    shedding: Shedding,
    unknown_fields: Option<UnknownFields>,
    /// Updates that the server may not have applied yet. Then they are searched for unknown fields.
    unsearched: Vec<(ChangeSet, Vec<GroupUpdate>)>,
    /// Heads that the server has applied.
    applied: watch::Receiver<Applied>,
    /// Cancelled when the server shuts down.
    closing: CancellationToken,
    /// Check of the space of etcd. It ends with the driver.
    _space: JoinSet<()>,
}

impl Driver {
    pub(super) fn new(
        options: EtcdStoreOptions,
        updates: mpsc::Sender<Delivery>,
        link: Option<ServerLink>,
        unusable: Option<oneshot::Sender<String>>,
        applied: watch::Receiver<Applied>,
        closing: &CancellationToken,
    ) -> Self {
        let config = options.follower();
        let members = config.members;
        let (has_state, saved) = match &options.last_good {
            Some(last_good) => (true, update::saved(last_good)),
            None => (false, None),
        };
        let lacks_secrets = options.last_good.iter().any(|known| known.lacks_secrets());
        let continues_last_good = saved.is_some() && !lacks_secrets;
        let follower = match saved {
            Some(saved) => Follower::with_saved(config, saved),
            None => Follower::new(config),
        };
        let (io, inputs) = Io::new(options.endpoints, options.client, options.timing.page);
        let clock = Clock::start();
        let space = watch::Sender::new(None);
        let replica = options.replica.clone();
        let report = Report::new(clock, replica, space.subscribe(), has_state);
        let (mut status, mut rollbacks) = (JoinSet::new(), None);
        let mut spaces = JoinSet::new();
        let applied_here = applied.clone();
        if let Some(link) = &link {
            let (prefix, replica) = (&options.prefix, &options.replica);
            let host = options.advertise.as_deref();
            let key = StatusKey::new(prefix, replica, host, applied, link.clone(), io.client());
            rollbacks = RollbackKeys::new(prefix, replica, link, key.lease_id());
            status.spawn(key.run(closing.clone()));
            let check = SpaceCheck {
                client: io.client(),
                interval: options.space_interval,
                space,
                link: link.clone(),
            };
            spaces.spawn(check.run());
        }
        let unknown_fields = link.clone().map(UnknownFields::start);
        Self {
            follower: Some(Box::new(follower)),
            io,
            inputs,
            clock,
            updates,
            link,
            unusable,
            report,
            reported: None,
            findings: Findings::default(),
            delivered: BTreeMap::new(),
            has_delivered: false,
            has_state,
            continues_last_good,
            wrong: HashSet::new(),
            members,
            unpolled: 0,
            status,
            rollbacks,
            decisions: (0, Vec::new()),
            shedding: Shedding::default(),
            unknown_fields,
            unsearched: Vec::new(),
            applied: applied_here,
            closing: closing.clone(),
            _space: spaces,
        }
    }

    /// Follows the store until the server drops it or shuts down.
    pub(super) async fn run(mut self) {
        let closing = self.closing.clone();
        tokio::select! {
            () = self.follow() => {}
            () = closing.cancelled() => {}
        }
        // The connection stays open until the status key is deleted.
        while closing.is_cancelled() && self.status.join_next().await.is_some() {}
    }

    async fn follow(&mut self) {
        let mut permit = None;
        loop {
            let Some(timeout) = self.turn() else { return };
            permit = permit.or_else(|| self.updates.clone().try_reserve_owned().ok());
            if permit.is_some()
                && let Some(delivery) = self.next_update().await
                && let Some(permit) = permit.take()
            {
                permit.send(delivery);
                continue;
            }
            self.report_connection();
            let updates = self.updates.clone();
            let link = self.link.clone().filter(|_| self.rollbacks.is_some());
            let nacked = async {
                match &link {
                    Some(link) => RollbackKeys::nacked(link).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = nacked => {
                    if let Some(rollbacks) = &mut self.rollbacks {
                        rollbacks.note_nack();
                    }
                }
                input = self.inputs.recv() => {
                    if let Some(input) = input {
                        self.handle(input);
                    }
                }
                reserved = updates.reserve_owned(), if permit.is_none() => match reserved {
                    Ok(reserved) => permit = Some(reserved),
                    // The server has dropped the store.
                    Err(_) => return,
                },
                Ok(()) = self.applied.changed(), if !self.unsearched.is_empty() => {
                    self.search_fields();
                }
                () = sleep_until(timeout) => {}
            }
        }
    }

    /// Reports the connection and the lanes, if that may be news. After the updates: what they catch up with is not
    /// behind.
    fn report_connection(&mut self) {
        let (Some(follower), Some(link)) = (&self.follower, &self.link) else {
            return;
        };
        let version = follower.status_version();
        if self.reported.replace(version) != Some(version) {
            let (now, member) = (self.clock.now(), self.io.member());
            link.report(self.report.connection(follower, now, &member));
        }
    }

    /// Handles all inputs that are there, then what is due, and does what the machine wants. Returns when to go on.
    fn turn(&mut self) -> Option<TokioInstant> {
        for _ in 0..BATCH {
            let Ok(input) = self.inputs.try_recv() else {
                break;
            };
            self.handle(input);
        }
        let now = self.clock.now();
        let follower = self.follower.as_mut()?;
        // After the inputs: a member that has answered is not silent.
        if follower.poll_timeout().is_some_and(|at| at <= now) {
            follower.handle_timeout(now);
        }
        // Before the transmits: the next connection may go to another member than the one that failed.
        while let Some(notice) = follower.poll_notice() {
            self.report.notice(notice, &self.io.member());
            self.reported = None;
        }
        while let Some(transmit) = follower.poll_transmit(now) {
            self.io.perform(transmit);
        }
        if let Some(link) = &self.link {
            if let Some(replicas) = self.report.replicas(follower) {
                link.report_replicas(replicas);
            }
            let changes = follower.fleet_changes();
            if std::mem::replace(&mut self.decisions.0, changes) != changes {
                let applying = follower.rollbacks().take(MAX_ROLLBACKS);
                let applying = applying.map(|(lane, decision)| (lane.clone(), decision.clone()));
                let applying: Vec<_> = applying.collect();
                if self.decisions.1 != applying {
                    link.report_rollbacks(&applying);
                    self.decisions.1 = applying;
                }
            }
        }
        let mut timeout = follower.poll_timeout();
        if let Some(rollbacks) = &mut self.rollbacks {
            rollbacks.handle(now, follower);
            while let Some(write) = rollbacks.next_write() {
                self.io.write(write.request);
            }
            timeout = timeout.into_iter().chain(rollbacks.timeout()).min();
        }
        if let Some(link) = &self.link {
            let own = OwnStreams {
                now: link.member().streams(),
                reported: follower.reported_streams(),
            };
            let others = follower.streams_of_others();
            let is_following = follower.is_connected();
            if let Some(shed) = self.shedding.handle(now, own, others, is_following) {
                debug!(
                    own = own.now,
                    streams = shed.streams,
                    "clients asked to reconnect to other replicas"
                );
                link.member().shed(shed);
            }
            timeout = timeout
                .into_iter()
                .chain(self.shedding.poll_timeout())
                .min();
        }
        Some(self.clock.deadline(timeout))
    }

    fn handle(&mut self, input: Input) {
        let now = self.clock.now();
        let Some(follower) = &mut self.follower else {
            return;
        };
        match input {
            Input::Connected(connection, client) => {
                if self.io.connected(connection, client) {
                    self.wrong.remove(&self.io.member());
                    follower.handle_connected(now, connection);
                }
            }
            Input::Failed(connection, error) => {
                follower.handle_failed(now, connection, failure::of(&error));
                if failure::is_wrong_program(&error) {
                    self.wrong.insert(error.member().to_owned());
                    if self.wrong.len() == self.members {
                        self.give_up(error.to_string());
                    }
                }
            }
            Input::Range(id, answer) => {
                self.unpolled += answer.as_ref().map_or(0, prost::Message::encoded_len);
                let answer = answer.map_err(|error| failure::of(&error));
                follower.handle_range(now, id, answer);
            }
            Input::Watch(stream, response) => {
                self.unpolled += response.encoded_len();
                follower.handle_watch(now, stream, &response);
            }
            Input::Closed(stream, error) => {
                follower.handle_watch_closed(now, stream, failure::of(&error));
            }
        }
    }

    /// Ends the program if nothing can be served: not now, and not from an earlier process.
    fn give_up(&mut self, reason: String) {
        if !self.has_delivered
            && !self.has_state
            && let Some(unusable) = self.unusable.take()
        {
            // The program does not wait for it if it fails.
            let _ = unusable.send(reason);
        }
    }

    /// Returns the next update; `None` until more inputs have come.
    async fn next_update(&mut self) -> Option<Delivery> {
        loop {
            let started = TokioInstant::now();
            let event = self.next_event().await?;
            let took = started.elapsed();
            let mut update = match event {
                FollowerEvent::Notice(notice) => {
                    self.report.notice(notice, &self.io.member());
                    continue;
                }
                FollowerEvent::Update(change) => {
                    Report::updated(&change, took);
                    if self.unknown_fields.is_some() {
                        let unsearched = (change.changes.clone(), change.groups.clone());
                        self.unsearched.push(unsearched);
                    }
                    let heads = Some(change.heads.clone());
                    let news = self.news(&change.heads);
                    let keeps_state = self.link.as_ref().is_none_or(ServerLink::keeps_state);
                    let mut update = update::of(*change, &self.findings, news, keeps_state);
                    update.took = took;
                    let is_first = !std::mem::replace(&mut self.has_delivered, true);
                    self.report.served();
                    update.continues_last_good = is_first && self.continues_last_good;
                    return Some(Delivery { update, heads });
                }
                FollowerEvent::Findings { findings, more } => {
                    self.findings.replace(&findings, more);
                    self.findings.update()
                }
                FollowerEvent::Stopped(error) => {
                    self.findings.stop(&error);
                    self.give_up(error.to_string());
                    self.findings.update()
                }
            };
            update.is_unavailable = !self.has_delivered;
            let heads = None;
            return Some(Delivery { update, heads });
        }
    }

    /// Returns the heads that the server has not had yet.
    fn news(&mut self, heads: &Applied) -> Vec<RolloutPublish> {
        let mut news = Vec::new();
        for (lane, head) in heads {
            let before = self.delivered.insert(lane.clone(), head.publish);
            if before != Some(head.publish) {
                news.push(update::publish(lane, head));
            }
        }
        news
    }

    /// Lets the changed resources be searched for unknown fields. No client waits for that.
    fn search_fields(&mut self) {
        let (Some(follower), Some(unknown_fields)) = (&self.follower, &self.unknown_fields) else {
            return;
        };
        for (changes, groups) in self.unsearched.drain(..) {
            let resources = update::resources(&changes, &groups);
            unknown_fields.add(resources.map(|(place, resource)| {
                let lane = follower.lane_of(&place);
                (place, lane.zip(resource))
            }));
        }
    }

    /// Polls the machine, for an update of many resources on a thread for blocking work.
    async fn next_event(&mut self) -> Option<FollowerEvent> {
        if self.unpolled < LARGE {
            let event = self.follower.as_mut()?.poll_event();
            if event.is_none() {
                self.unpolled = 0;
            }
            return event;
        }
        let mut follower = self.follower.take()?;
        let polled = tokio::task::spawn_blocking(move || {
            let event = follower.poll_event();
            (follower, event)
        });
        // It fails if the runtime shuts down, or by a bug, which the panic hook reports. The driver ends in both cases.
        let (follower, event) = polled.await.ok()?;
        self.follower = Some(follower);
        if event.is_none() {
            self.unpolled = 0;
        }
        event
    }
}
