//! Figures of a run.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::plan::Kind;
use crate::Fallible;

/// How publishes ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Ending {
    Acknowledged,
    /// The writer was killed.
    Killed,
    /// The writer does not know whether it succeeded.
    Unknown,
    /// The writer reported that nothing was published.
    Failed,
}

/// Figures of a run.
#[derive(Debug, Default)]
pub(super) struct Figures {
    pub(super) rounds: usize,
    pub(super) endings: BTreeMap<Ending, usize>,
    /// Publishes that were refused because the store went back, and were tried again with `--accept-restored`.
    pub(super) refused: usize,
    pub(super) heads: usize,
    pub(super) states: usize,
    pub(super) faults: BTreeMap<Kind, usize>,
    /// From the end of the last fault until each member answers.
    pub(super) worst_etcd: Duration,
    /// From then until each replica follows: the delays between attempts have grown with the fault.
    pub(super) worst_return: Duration,
    /// From the last publishes of a round until digests and clients agree.
    pub(super) worst_heal: Duration,
}

impl Figures {
    pub(super) fn count(&mut self, ending: Ending) {
        *self.endings.entry(ending).or_default() += 1;
    }

    pub(super) fn note(&mut self, fault: Kind) {
        *self.faults.entry(fault).or_default() += 1;
    }

    /// Fails if most publishes came to nothing: then the run has checked little.
    pub(super) fn is_worth_its_name(&self, publishes: usize) -> Fallible {
        let acknowledged = self.endings.get(&Ending::Acknowledged);
        if acknowledged.is_some_and(|count| *count > publishes / 2) && self.states > publishes / 4 {
            Ok(())
        } else {
            Err(format!("too little was checked: {self}").into())
        }
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rounds, heads, states, refused) = (self.rounds, self.heads, self.states, self.refused);
        write!(f, "{rounds} rounds; publishes {:?}", self.endings)?;
        write!(
            f,
            ", {refused} refused at first; {heads} heads; {states} states of clients; "
        )?;
        write!(
            f,
            "worst: etcd {:?}, return {:?}, ",
            self.worst_etcd, self.worst_return
        )?;
        write!(f, "heal {:?}; faults {:?}", self.worst_heal, self.faults)
    }
}
