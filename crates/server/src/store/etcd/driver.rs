//! The loop around the follower: inputs, timers, transmits, and the updates that the server takes.

use std::collections::{BTreeMap, HashSet};

use oxds_core::etcd::follower::{Follower, FollowerEvent};
use oxds_core::etcd::{PublishId, Segment};
use oxds_core::rollout::RolloutPublish;
use prost::Message as _;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant as TokioInstant, sleep_until};

use super::clock::Clock;
use super::failure;
use super::io::{Input, Io};
use super::options::EtcdStoreOptions;
use super::report::Report;
use super::status_key::{Applied, StatusKey};
use super::update::{self, Findings};
use crate::store::link::ServerLink;
use crate::store::update::Update;

/// Bytes of input from which on the next update is made on a thread for blocking work. 1 MiB takes a few milliseconds.
const LARGE: usize = 1 << 20;
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
    /// Writer of the status key. It ends with the driver.
    _status: JoinSet<()>,
}

impl Driver {
    pub(super) fn new(
        options: EtcdStoreOptions,
        updates: mpsc::Sender<Delivery>,
        link: Option<ServerLink>,
        unusable: Option<oneshot::Sender<String>>,
        applied: watch::Receiver<Applied>,
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
        let mut status = JoinSet::new();
        if let Some(link) = &link {
            let (prefix, replica) = (&options.prefix, &options.replica);
            let key = StatusKey::new(prefix, replica, applied, link.clone(), io.client());
            status.spawn(key.run());
        }
        let clock = Clock::start();
        Self {
            follower: Some(Box::new(follower)),
            io,
            inputs,
            clock,
            updates,
            link,
            unusable,
            report: Report::new(clock, options.replica),
            findings: Findings::default(),
            delivered: BTreeMap::new(),
            has_delivered: false,
            has_state,
            continues_last_good,
            wrong: HashSet::new(),
            members,
            unpolled: 0,
            _status: status,
        }
    }

    /// Follows the store until the server drops it.
    pub(super) async fn run(mut self) {
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
            let updates = self.updates.clone();
            tokio::select! {
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
                () = sleep_until(timeout) => {}
            }
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
        while let Some(transmit) = follower.poll_transmit(now) {
            self.io.perform(transmit);
        }
        if let Some(link) = &self.link {
            link.report(self.report.connection(follower, now, &self.io.member()));
            if let Some(replicas) = self.report.replicas(follower) {
                link.report_replicas(replicas);
            }
        }
        Some(self.clock.deadline(follower.poll_timeout()))
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
                    let heads = Some(change.heads.clone());
                    let news = self.news(&change.heads);
                    let mut update = update::of(*change, &self.findings, news);
                    update.took = took;
                    let is_first = !std::mem::replace(&mut self.has_delivered, true);
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
