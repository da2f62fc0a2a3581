//! Search for the resources that a client rejects without naming them.
//!
//! Envoy rejects a whole response if one resource does not decode, and stops at the first invalid one for most types.
//! Without a name in the NACK, all new resources of the response are suspects. They are sent again in parts, so that
//! one bad resource does not hold back the others:
//!
//! ```text
//!               NACK without a name
//!   (none) ───────────────────────────▶ guilty: at least one of these is bad ◀───────────────┐
//!      ▲                                  │ next_round: the first half; or, if it is one or no │ NACK without a name:
//!      │ nothing is left                  ▼             resource, all of `untested` first      │ the part is guilty,
//!      │                                testing ───────────────────────────────────────────────┘ the rest untested
//!      └──────────────────────────────────┴─▶ ACK: the part is good. NACK of one alone: it is bad
//! ```
//!
//! Only the NACK of a response with one suspect shows that it is bad. That all others were accepted does not: Envoy
//! accepts the repetition of a secret that it rejected, since it compares hashes before it loads files.
//!
//! With one bad resource among n, the others are sent within log2(n) + 1 rounds, since each halves `guilty`. One more
//! round shows that the last one is bad. After [`MAX_FOUND`] bad resources the search ends: a client that rejects
//! everything would be sent each resource about log2(n) times.

use std::{collections::BTreeSet, mem, sync::Arc};

use super::Blame;
use crate::sample::SAMPLE;

/// Bad resources that one search finds. Several bad resources in one change are rare; many have one cause.
const MAX_FOUND: usize = 16;

/// Search among the suspects of one resource type. A name is a suspect until it is accepted, named by a NACK, or
/// [found](Self::suspect).
#[derive(Debug, Default)]
pub(crate) struct Isolation {
    /// A response whose news were these, and resources that were accepted since, was NACKed.
    guilty: BTreeSet<Arc<str>>,
    /// Sent together with others in a NACKed response.
    untested: BTreeSet<Arc<str>>,
    /// Those of both that the current round sends again, until the client answers.
    testing: BTreeSet<Arc<str>>,
    /// Rounds since the search began.
    rounds: u32,
    found: usize,
}

impl Isolation {
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the invariants hold; for debug assertions.
    pub(crate) fn is_consistent(&self) -> bool {
        let has_begun = self.rounds > 0 || self.found > 0 || !self.testing.is_empty();
        let mut guilty = self.guilty.iter().take(SAMPLE);
        guilty.all(|name| !self.untested.contains(name))
            && self.found < MAX_FOUND
            && !(self.is_empty() && has_begun)
    }

    /// Number of suspects.
    pub(crate) fn len(&self) -> usize {
        self.guilty.len() + self.untested.len()
    }

    pub(crate) fn rounds(&self) -> u32 {
        self.rounds
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.guilty.contains(name) || self.untested.contains(name)
    }

    /// The suspects, in two runs that are each in order.
    pub(crate) fn suspects(&self) -> impl Iterator<Item = &Arc<str>> {
        self.guilty.iter().chain(&self.untested)
    }

    /// Updates the search after a NACK. `isolates`: its suspects are sent again.
    pub(crate) fn note_blame(&mut self, blame: &Blame, isolates: bool) {
        if blame.is_named {
            self.name(&blame.names());
        } else if isolates {
            let news = blame.bad.iter().chain(&blame.suspects);
            self.suspect(news.map(|one| Arc::clone(one.name())).collect());
        } else {
            *self = Self::default();
        }
    }

    /// A response with these new resources was NACKed without a name. Returns the bad one, if it is the only one.
    fn suspect(&mut self, news: BTreeSet<Arc<str>>) -> Option<Arc<str>> {
        self.untested.retain(|name| !news.contains(name));
        let before = mem::replace(&mut self.guilty, news);
        let others = before
            .into_iter()
            .filter(|name| !self.guilty.contains(name));
        self.untested.extend(others);
        self.find()
    }

    /// A response was NACKed, and the NACK names these. Whether its other resources are bad is unknown.
    fn name(&mut self, named: &BTreeSet<Arc<str>>) {
        // The named ones may be why the guilty ones were NACKed.
        self.retain(|name| !named.contains(name));
    }

    /// Content changed, or went: drops the suspects for which `stays` is false.
    pub(crate) fn retain(&mut self, stays: impl Fn(&str) -> bool) {
        if self.remove(stays) {
            self.untested.append(&mut self.guilty);
        }
        self.end_if_empty();
    }

    /// The client accepted a response: the suspects for which `is_open` is false are good.
    pub(crate) fn accept(&mut self, is_open: impl Fn(&str) -> bool) {
        self.remove(is_open);
        self.end_if_empty();
    }

    /// Starts the next round, once the client has answered the one before. Returns the suspects to send. `is_due`: a
    /// suspect of the current round is still to be sent.
    pub(crate) fn next_round(&mut self, is_due: impl Fn(&str) -> bool) -> BTreeSet<Arc<str>> {
        self.testing.retain(|name| is_due(name));
        if self.is_empty() || !self.testing.is_empty() {
            return BTreeSet::new();
        }
        // The last one of the guilty is most likely bad, so it does not delay the others.
        let is_last = self.guilty.len() <= 1 && !self.untested.is_empty();
        self.testing = if is_last {
            self.untested.clone()
        } else {
            let half = self.guilty.len().div_ceil(2);
            self.guilty.iter().take(half).cloned().collect()
        };
        self.rounds += 1;
        self.testing.clone()
    }

    /// Drops suspects. Returns whether a guilty one was among them.
    fn remove(&mut self, stays: impl Fn(&str) -> bool) -> bool {
        let before = self.guilty.len();
        for names in [&mut self.guilty, &mut self.untested, &mut self.testing] {
            names.retain(|name| stays(name));
        }
        before != self.guilty.len()
    }

    /// Takes the guilty one, if it is the only one.
    fn find(&mut self) -> Option<Arc<str>> {
        let found = (self.guilty.len() == 1).then(|| self.guilty.pop_first());
        self.found += usize::from(found.is_some());
        if self.found >= MAX_FOUND {
            *self = Self::default();
        }
        self.end_if_empty();
        found.flatten()
    }

    fn end_if_empty(&mut self) {
        if self.is_empty() {
            *self = Self::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(count: usize) -> BTreeSet<Arc<str>> {
        (0..count).map(|n| Arc::from(format!("{n:05}"))).collect()
    }

    /// Isolates with a client that NACKs `bad`, and never names it. Returns the rounds, and what was found.
    fn search(count: usize, bad: &BTreeSet<Arc<str>>) -> (u32, BTreeSet<Arc<str>>) {
        let mut isolation = Isolation::default();
        let mut found = BTreeSet::new();
        let mut rounds = 0;
        found.extend(isolation.suspect(names(count)));
        while !isolation.is_empty() {
            let part = isolation.next_round(|_| false);
            assert!(!part.is_empty() && rounds < 100_000);
            rounds += 1;
            if part.is_disjoint(bad) {
                isolation.accept(|name| !part.contains(name));
            } else {
                found.extend(isolation.suspect(part));
            }
        }
        (rounds, found)
    }

    #[test]
    fn one_bad_resource_is_found_in_log2_rounds() {
        for count in [1, 2, 3, 10, 33, 1000] {
            let most = usize::BITS - (count - 1_usize).leading_zeros() + 2;
            for bad in names(count) {
                let bad = BTreeSet::from([bad]);
                let (rounds, found) = search(count, &bad);
                assert_eq!(found, bad);
                assert!(rounds <= most, "{rounds} rounds for {count}");
            }
        }
    }

    /// Given a client that accepts at the repetition what it rejected before, then no resource is blamed.
    #[test]
    fn accepted_repetition_blames_no_other() {
        let mut isolation = Isolation::default();
        assert_eq!(isolation.suspect(names(3)), None);
        for _ in 0..2 {
            let part = isolation.next_round(|_| false);
            assert!(!part.is_empty());
            isolation.accept(|name| !part.contains(name));
        }
        assert!(isolation.is_empty());
    }

    #[test]
    fn several_bad_resources_are_found() {
        let bad = BTreeSet::from(["00000", "00007", "00031"].map(Arc::from));
        let (rounds, found) = search(32, &bad);
        assert_eq!(found, bad);
        assert!(rounds <= 3 * 6, "{rounds}");
    }

    #[test]
    fn search_ends_if_everything_is_bad() {
        let all = names(4096);
        let (rounds, found) = search(4096, &all);
        assert_eq!(found.len(), MAX_FOUND);
        assert!(rounds <= 16 * 13, "{rounds}");
    }

    /// Given two suspects, of which the bad one gets other content: that the other one is left does not prove it bad.
    #[test]
    fn suspect_that_changes_proves_nothing_about_others() {
        let mut isolation = Isolation::default();
        isolation.suspect(names(2));
        isolation.retain(|name| name != "00001");
        assert_eq!(isolation.next_round(|_| false), names(1));
        isolation.accept(|_| false);
        assert!(isolation.is_empty());
    }

    #[test]
    fn named_resource_explains_the_nack_of_others() {
        let mut isolation = Isolation::default();
        isolation.suspect(names(4));
        isolation.next_round(|_| false);
        isolation.name(&names(1));
        assert_eq!(
            isolation.next_round(|_| false).len(),
            3,
            "all that are left"
        );
    }
}
