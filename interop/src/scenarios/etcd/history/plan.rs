//! The faults of a round: drawn from a shuffled deck, so that each kind comes as often as the others.

use std::time::Duration;

use super::random::Random;
use crate::peers::etcd::Release;

/// Replicas, and members of etcd.
pub(super) const EACH: usize = 3;
/// Number of the writers' network among the networks; those of the replicas have the replicas' numbers.
pub(super) const WRITERS: usize = EACH;
/// Time without faults at the start of a round, in which replicas save their state (within a second).
const CALM: usize = 1_000;

/// Kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// A replica is killed, and starts again with its state.
    KillReplica,
    /// The same without its state.
    WipeReplica,
    /// A replica stands still.
    StopReplica,
    KillMember,
    KillLeader,
    /// Two members are killed: no quorum.
    KillQuorum,
    StopMember,
    /// A replica reaches no member: connections end and are refused.
    CloseReplica,
    /// The same for all replicas.
    CloseReplicas,
    /// No bytes pass between a replica and one member; connections stay open.
    SilenceMember,
    /// The same at all members.
    SilenceReplica,
    /// Nothing comes from the members to a replica; its requests arrive.
    LoseAnswers,
    /// The same for the writers: outcomes are unknown.
    LoseWritersAnswers,
    SilenceWriters,
    /// All connections of replicas and writers end, and new ones are accepted.
    Cut,
    /// etcd forgets its history.
    Compact,
    /// The wall clock of a replica steps.
    StepClock,
    /// etcd is restored from a backup.
    Restore,
    /// The same with `--bump-revision --mark-compacted`.
    BumpedRestore,
}

impl Kind {
    const ALL: [Self; 19] = [
        Self::KillReplica,
        Self::WipeReplica,
        Self::StopReplica,
        Self::KillMember,
        Self::KillLeader,
        Self::KillQuorum,
        Self::StopMember,
        Self::CloseReplica,
        Self::CloseReplicas,
        Self::SilenceMember,
        Self::SilenceReplica,
        Self::LoseAnswers,
        Self::LoseWritersAnswers,
        Self::SilenceWriters,
        Self::Cut,
        Self::Compact,
        Self::StepClock,
        Self::Restore,
        Self::BumpedRestore,
    ];

    /// Parts that no other fault may have at the same time.
    fn parts(self, of: usize) -> Vec<Part> {
        match self {
            Self::KillReplica | Self::WipeReplica | Self::StopReplica => vec![Part::Replica(of)],
            Self::KillMember
            | Self::KillLeader
            | Self::KillQuorum
            | Self::StopMember
            | Self::Compact => vec![Part::Members],
            Self::CloseReplica | Self::SilenceMember | Self::SilenceReplica | Self::LoseAnswers => {
                vec![Part::Network(of)]
            }
            Self::CloseReplicas => (0..EACH).map(Part::Network).collect(),
            Self::LoseWritersAnswers | Self::SilenceWriters => vec![Part::Network(WRITERS)],
            Self::Cut | Self::StepClock => Vec::new(),
            // The writers stop for it.
            Self::Restore | Self::BumpedRestore => vec![Part::Members, Part::Network(WRITERS)],
        }
    }

    fn is_of(self, release: Release) -> bool {
        // etcd 3.4 has no such options.
        self != Self::BumpedRestore || release == Release::Current
    }
}

/// Part of the system that a fault takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Replica(usize),
    Network(usize),
    Members,
}

/// A fault of a round.
#[derive(Clone, Debug)]
pub(super) struct Fault {
    pub(super) kind: Kind,
    /// Number of the replica, or of the member.
    pub(super) of: usize,
    /// Number of the member, if `of` is a replica.
    pub(super) member: usize,
    /// Time from the begin of the round.
    pub(super) begins: Duration,
    pub(super) ends: Duration,
    /// Step of a clock, in seconds.
    pub(super) step: i64,
}

impl Fault {
    fn overlaps(&self, other: &Self) -> bool {
        let mine = self.kind.parts(self.of);
        let shares = other.kind.parts(other.of).iter().any(|p| mine.contains(p));
        shares && self.begins <= other.ends && other.begins <= self.ends
    }
}

/// Draws the faults of each round.
#[derive(Debug)]
pub(super) struct FaultDraw {
    random: Random,
    release: Release,
    /// Some faults last long enough for leases and probes to end.
    has_long: bool,
    kinds: Vec<Kind>,
}

impl FaultDraw {
    pub(super) fn new(random: Random, release: Release, has_long: bool) -> Self {
        Self {
            random,
            release,
            has_long,
            kinds: Vec::new(),
        }
    }

    /// Returns this number of faults, and fewer if they have no place beside each other.
    pub(super) fn round(&mut self, count: usize) -> Vec<Fault> {
        let mut faults: Vec<Fault> = Vec::new();
        for _ in 0..count {
            let kind = self.kind();
            let fits = (0..8).find_map(|_| {
                let fault = self.fault(kind);
                let is_free = faults.iter().all(|other| !fault.overlaps(other));
                is_free.then_some(fault)
            });
            match fits {
                Some(fault) => faults.push(fault),
                None => self.kinds.insert(0, kind),
            }
        }
        faults
    }

    fn kind(&mut self) -> Kind {
        loop {
            match self.kinds.pop() {
                Some(kind) if kind.is_of(self.release) => return kind,
                Some(_) => {}
                None => {
                    self.kinds = Kind::ALL.to_vec();
                    self.random.shuffle(&mut self.kinds);
                }
            }
        }
    }

    fn fault(&mut self, kind: Kind) -> Fault {
        let random = &mut self.random;
        let begins = random.millis(CALM, CALM + 2_000);
        let lasts = if self.has_long && random.one_in(25) {
            random.millis(6_000, 14_000)
        } else {
            random.millis(200, 2_000)
        };
        let steps = [-86_400, -3_600, -60, -5, 5, 60, 3_600, 86_400];
        Fault {
            kind,
            of: random.below(EACH),
            member: random.below(EACH),
            begins,
            ends: begins + lasts,
            step: steps[random.below(steps.len())],
        }
    }
}
