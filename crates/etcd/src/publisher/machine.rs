//! The machine: one request at a time, and delays after failures.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use oxds_types::ResourceType;

use super::error::PublishError;
use super::event::PublishEvent;
use super::failing::Reaction;
use super::options::{PublishOptions, Wanted};
use super::request::{PublishAnswer, PublishRequest, RequestFailure};
use super::transactions::{LaneKeys, size_alone};
use super::work::Work;
use crate::entry::Entry;
use crate::stored::Stored;
use oxds_core::time::Instant;

/// Delay before a failed request is made again; it doubles after each round of the members.
const FIRST_DELAY: Duration = Duration::from_millis(100);
/// Longest delay.
const LONGEST_DELAY: Duration = Duration::from_secs(2);
/// How long a first write may take; it doubles with each failed one, so that a slow etcd can end it.
///
/// etcd elects a leader within 1 to 1.5 s. A follower that has sent a write to the leader which died never answers it:
/// after this time the outcome is looked for at another member.
const FIRST_LIMIT: Duration = Duration::from_secs(1);
/// Bytes that the lengths of an entry's keys, of its value and of the messages around them need at most.
const LENGTHS: usize = 128;

/// Machine that publishes one change of one lane, atomically.
///
/// Drive it like all machines: after [`new`](Self::new) and each `handle_*` call, poll
/// [`poll_transmit`](Self::poll_transmit) and [`poll_event`](Self::poll_event) until they return `None`, then arm one
/// timer for [`poll_timeout`](Self::poll_timeout) and, when it fires, poll again. [`PublishEvent::Done`] is the last
/// event.
///
/// The driver may stop at any time: the published state is then the old or the new one, and the next publisher removes
/// what is left of the stage (G-8).
pub struct Publisher {
    work: Work,
    /// A request was made and not answered.
    asking: Option<Asking>,
    failing: Option<Failing>,
    /// How long the next write may take.
    write_limit: Duration,
}

/// Kind of a request that is not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asking {
    Read,
    Write,
}

/// Without the state, which may have secrets (G-15).
impl fmt::Debug for Publisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Publisher")
            .field("id", &self.work.id)
            .finish_non_exhaustive()
    }
}

/// Requests that fail again and again.
#[derive(Debug)]
struct Failing {
    since: Instant,
    failures: usize,
    /// Time of the next request.
    until: Instant,
}

impl Publisher {
    /// Makes a publisher. It fails at once, before it asks etcd, if an entry is too large (G-9), or a secret and not
    /// allowed (G-15).
    #[must_use]
    pub fn new(options: PublishOptions, wanted: Wanted) -> Self {
        let mut publisher = Self::reading(options);
        publisher.handle_wanted(wanted);
        publisher
    }

    /// Makes a publisher that reads what is published while the caller makes the wanted state. It writes nothing before
    /// [`handle_wanted`](Self::handle_wanted), and has no request when it has read.
    #[must_use]
    pub fn reading(options: PublishOptions) -> Self {
        Self {
            work: Work::new(options),
            asking: None,
            failing: None,
            write_limit: FIRST_LIMIT,
        }
    }

    /// Handles the wanted state, once. The publisher fails at once if an entry is too large (G-9), or a secret and not
    /// allowed (G-15). It is ignored after [`PublishEvent::Done`].
    pub fn handle_wanted(&mut self, wanted: Wanted) {
        if self.work.is_done() {
            return;
        }
        match check(&self.work.options, &wanted) {
            Ok(()) => self.work.take_wanted(wanted),
            Err(error) => self.work.fail(error),
        }
    }

    /// Handles the answer to the request.
    pub fn handle_answer(&mut self, now: Instant, answer: PublishAnswer) {
        self.asking = None;
        // An answer about the outcome of a commit that fails is no progress.
        if !self.work.is_checking() {
            self.failing = None;
        }
        self.work.take(now, answer);
    }

    /// Handles the failure of the request.
    pub fn handle_failure(&mut self, now: Instant, failure: RequestFailure) {
        if self.asking.take() == Some(Asking::Write) {
            self.write_limit = self.write_limit.saturating_mul(2);
        }
        let reason = failure.reason.clone();
        if self.work.take_failure(failure) == Reaction::Continue {
            return;
        }
        let (since, failures) = match &self.failing {
            Some(failing) => (failing.since, failing.failures + 1),
            None => (now, 1),
        };
        // Try the next member without delay: a dead member fails immediately.
        let rounds = (failures - 1) / self.work.options.members.max(1);
        let until = now + delay_after(rounds);
        self.failing = Some(Failing {
            since,
            failures,
            until,
        });
        if now - since >= self.work.options.give_up_after {
            self.failing = None;
            self.work.give_up(reason);
        }
    }

    /// Handles the verdict about the state of [`PublishEvent::Validate`].
    pub fn handle_verdict(&mut self, now: Instant, is_valid: bool) {
        self.work.take_verdict(now, is_valid);
    }

    /// Returns the next request; `None` while a request is not answered, and before
    /// [`poll_timeout`](Self::poll_timeout).
    pub fn poll_transmit(&mut self, now: Instant) -> Option<PublishRequest> {
        let is_waiting = self
            .failing
            .as_ref()
            .is_some_and(|failing| now < failing.until);
        if self.asking.is_some() || is_waiting {
            return None;
        }
        let request = self.work.request(now)?;
        self.asking = Some(match request {
            PublishRequest::Range(_) => Asking::Read,
            PublishRequest::Txn(_)
            | PublishRequest::Grant(_)
            | PublishRequest::KeepAlive(_)
            | PublishRequest::Revoke(_) => Asking::Write,
        });
        Some(request)
    }

    /// Returns how long to wait at most for the answer to the request; `None` if the limit of the driver alone holds,
    /// which may always be shorter. A request without an answer failed with an unknown outcome.
    #[must_use]
    pub fn answer_limit(&self) -> Option<Duration> {
        (self.asking == Some(Asking::Write)).then_some(self.write_limit)
    }

    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<PublishEvent> {
        self.work.events.pop_front()
    }

    /// Returns when to poll again although nothing has happened; `None` if nothing is repeated.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.asking.is_some() {
            return None;
        }
        let failing = self.failing.as_ref().map(|failing| failing.until);
        failing.max(self.work.pause_until())
    }
}

/// Returns the delay after a failure, when all members were asked this many times.
fn delay_after(rounds: usize) -> Duration {
    let doubled = u32::try_from(rounds)
        .ok()
        .and_then(|rounds| 2_u32.checked_pow(rounds));
    FIRST_DELAY
        .saturating_mul(doubled.unwrap_or(u32::MAX))
        .min(LONGEST_DELAY)
}

/// Checks what needs no answer of etcd.
fn check(options: &PublishOptions, wanted: &Wanted) -> Result<(), PublishError> {
    let entries: Vec<(&Entry, &Stored)> = match wanted {
        Wanted::State(state) => state.iter().map(|(entry, new)| (entry, &**new)).collect(),
        Wanted::Changes(changes) => {
            let puts = changes.iter();
            puts.filter_map(|(entry, new)| Some((entry, &**new.as_ref()?)))
                .collect()
        }
    };
    let is_secret = |entry: &Entry| entry.resource_type() == Some(&ResourceType::SECRET);
    let mut secrets = entries.iter().filter(|(entry, _)| is_secret(entry));
    if !options.with_secrets
        && let Some((first, _)) = secrets.next()
    {
        let (first, count) = ((*first).clone(), secrets.count() + 1);
        return Err(PublishError::Secrets { first, count });
    }
    let keys = LaneKeys {
        prefix: options.prefix.clone(),
        lane: options.lane.clone(),
    };
    let limit = options.request_limit;
    let least = size_alone(&keys, options.id, b"", &Bytes::new());
    for (entry, stored) in entries {
        // The text is in two keys. An entry that is far from the limit is not encoded.
        let (text, value) = (entry.text(), stored.encoded());
        if least + 2 * text.len() + value.len() + LENGTHS <= limit {
            continue;
        }
        let size = size_alone(&keys, options.id, text.as_bytes(), value);
        if size > limit {
            let entry = entry.clone();
            return Err(PublishError::TooLarge { entry, size, limit });
        }
    }
    Ok(())
}
