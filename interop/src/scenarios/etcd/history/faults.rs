//! Begin and end of each fault.

use std::sync::atomic::Ordering;

use oxds_types::etcd::CompactionRequest;
use tokio::time::{Instant, sleep, sleep_until};

use super::content::LANES;
use super::healing::heal;
use super::plan::{EACH, Fault, Kind, WRITERS};
use super::random::Random;
use super::run::Shared;
use super::sight::WIPED;
use super::world::{Network, World};
use super::writers::{Writers, fence};
use crate::Fallible;
use crate::gate::Silence;
use crate::process::Signal;

/// Nothing arrives in either direction.
const NOTHING: Silence = Silence {
    of_requests: true,
    of_answers: true,
};
const NO_ANSWERS: Silence = Silence {
    of_requests: false,
    of_answers: true,
};
/// History that is kept at most, in revisions.
const KEPT: usize = 30;

/// Time at which something is done with one of the faults.
#[derive(Clone, Copy, Debug)]
enum Moment {
    Begin(usize),
    End(usize),
}

/// The system with its writers, and the faults of a round at work.
pub(super) struct Conductor {
    pub(super) world: World,
    pub(super) writers: Writers,
    pub(super) shared: Shared,
    pub(super) random: Random,
}

impl Conductor {
    /// Does a number of publishes under these faults, and checks everything after the healing.
    pub(super) async fn round(&mut self, publishes: usize, faults: &[Fault]) -> Fallible {
        let ends = faults.iter().map(|fault| fault.ends);
        self.writers
            .begin(publishes, ends.max().unwrap_or_default());
        self.conduct(faults).await?;
        self.heal().await?;
        self.world.back_up().await
    }

    /// Waits until everything is as if there had been no faults, and checks it.
    pub(super) async fn heal(&mut self) -> Fallible {
        heal(&mut self.world, &mut self.writers, &self.shared).await
    }

    /// Begins and ends each fault at its time, or later if one before takes long.
    pub(super) async fn conduct(&mut self, faults: &[Fault]) -> Fallible {
        let start = Instant::now();
        let moments = faults.iter().enumerate().flat_map(|(index, fault)| {
            [
                (fault.begins, Moment::Begin(index)),
                (fault.ends, Moment::End(index)),
            ]
        });
        let mut moments: Vec<_> = moments.collect();
        moments.sort_by_key(|(at, _)| *at);
        let mut killed = vec![None; faults.len()];
        for (at, moment) in moments {
            sleep_until(start + at).await;
            let (Moment::Begin(index) | Moment::End(index)) = moment;
            let fault = &faults[index];
            let done = match moment {
                Moment::Begin(_) => {
                    self.shared.lock().figures.note(fault.kind);
                    self.begin(fault, &mut killed[index]).await
                }
                Moment::End(_) => self.end(fault, killed[index]).await,
            };
            done.map_err(|error| format!("{moment:?} of {fault:?}: {error}"))?;
        }
        Ok(())
    }

    /// Begins a fault. `killed`: the member that it kills.
    async fn begin(&mut self, fault: &Fault, killed: &mut Option<usize>) -> Fallible {
        let World {
            etcd,
            replicas,
            networks,
            ..
        } = &mut self.world;
        match fault.kind {
            Kind::KillReplica => replicas[fault.of].kill().await?,
            Kind::WipeReplica => {
                replicas[fault.of].kill().await?;
                replicas[fault.of].forget()?;
            }
            Kind::StopReplica => replicas[fault.of].oxds()?.signal(Signal::Stop).await?,
            Kind::KillMember => {
                *killed = Some(fault.of);
                etcd.members[fault.of].kill().await?;
            }
            Kind::KillLeader => {
                let leader = etcd.leader().await?;
                *killed = Some(leader);
                etcd.members[leader].kill().await?;
            }
            Kind::KillQuorum => {
                for of in 1..EACH {
                    etcd.members[(fault.of + of) % EACH].kill().await?;
                }
            }
            Kind::StopMember => etcd.members[fault.of].signal(Signal::Stop).await?,
            Kind::CloseReplica => networks[fault.of].close(),
            Kind::CloseReplicas => networks[..EACH].iter().for_each(Network::close),
            Kind::SilenceMember => networks[fault.of].silence(Some(fault.member), NOTHING),
            Kind::SilenceReplica => networks[fault.of].silence(None, NOTHING),
            Kind::LoseAnswers => networks[fault.of].silence(None, NO_ANSWERS),
            Kind::LoseWritersAnswers => networks[WRITERS].silence(None, NO_ANSWERS),
            Kind::SilenceWriters => networks[WRITERS].silence(None, NOTHING),
            Kind::Cut => networks.iter().for_each(Network::cut),
            Kind::Compact => self.compact().await?,
            Kind::StepClock => replicas[fault.of].clock()?.step(fault.step)?,
            Kind::Restore => self.restore(false).await?,
            Kind::BumpedRestore => self.restore(true).await?,
        }
        Ok(())
    }

    async fn end(&mut self, fault: &Fault, killed: Option<usize>) -> Fallible {
        let World {
            etcd,
            replicas,
            networks,
            processes,
            ..
        } = &mut self.world;
        match fault.kind {
            Kind::KillReplica | Kind::WipeReplica => {
                let is_wiped = fault.kind == Kind::WipeReplica;
                let next = if is_wiped { WIPED } else { 1 };
                processes[fault.of].fetch_add(next, Ordering::SeqCst);
                replicas[fault.of].restart().await?;
            }
            Kind::StopReplica => replicas[fault.of].oxds()?.signal(Signal::Continue).await?,
            Kind::KillMember | Kind::KillLeader => {
                let killed = killed.ok_or("no member was killed")?;
                etcd.members[killed].restart()?;
            }
            Kind::KillQuorum => {
                for of in 1..EACH {
                    etcd.members[(fault.of + of) % EACH].restart()?;
                }
            }
            Kind::StopMember => etcd.members[fault.of].signal(Signal::Continue).await?,
            Kind::CloseReplica => networks[fault.of].open(),
            Kind::CloseReplicas => networks[..EACH].iter().for_each(Network::open),
            Kind::SilenceMember | Kind::SilenceReplica | Kind::LoseAnswers => {
                networks[fault.of].silence(None, Silence::default());
            }
            Kind::LoseWritersAnswers | Kind::SilenceWriters => {
                networks[WRITERS].silence(None, Silence::default());
            }
            Kind::Cut | Kind::Compact | Kind::StepClock | Kind::Restore | Kind::BumpedRestore => {}
        }
        Ok(())
    }

    /// Compacts the history but for its last part. The record has all heads before.
    async fn compact(&mut self) -> Fallible {
        let revision = self.world.heads.walk(&self.shared).await?;
        let kept = i64::try_from(self.random.below(KEPT))?;
        let request = CompactionRequest {
            revision: (revision - kept).max(1),
            physical: false,
        };
        let client = self.world.etcd.connect().await?;
        match client.compact(request).await {
            // It was compacted further before.
            Err(error) if error.to_string().contains("compacted") => Ok(()),
            done => Ok(done.map(drop)?),
        }
    }

    /// Replaces all members by those of the backup. Writers die. Only their publishes after the backup are lost.
    async fn restore(&mut self, is_bumped: bool) -> Fallible {
        self.writers.kill().await;
        self.world.networks[WRITERS].cut();
        let urls = self.world.etcd.urls();
        // The record must have the last head of this history, which a replica may serve.
        for lane in 0..LANES.len() {
            fence(&self.shared, &urls, lane).await?;
        }
        self.world.heads.walk(&self.shared).await?;
        let backup = self.world.backup.clone();
        self.world.etcd.restore(&backup, is_bumped).await?;
        for lane in 0..LANES.len() {
            let head = self.world.heads.latest(lane).await?;
            self.shared.lock().record.restore(lane, &head)?;
        }
        sleep(self.random.millis(0, 1_500)).await;
        // The operator accepts it: by a command for one lane and with the next publishes for the other.
        let lane = self.random.below(LANES.len());
        fence(&self.shared, &urls, lane).await?;
        self.writers.go_on();
        Ok(())
    }
}
