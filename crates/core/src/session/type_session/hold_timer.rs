//! Hold timers: how long make-before-break may delay a change (S-53).

use std::time::Duration;

use crate::{session::Config, time::Instant};

/// Start of a delay, and whether its time is over.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HoldTimer {
    pub(crate) since: Instant,
    pub(crate) expired: bool,
    /// Upper bound, for resources whose TTL is shorter than the configured hold time.
    at_most: Duration,
}

impl HoldTimer {
    pub(crate) fn start(since: Instant) -> Self {
        Self {
            since,
            expired: false,
            at_most: Duration::MAX,
        }
    }

    pub(crate) fn at_most(self, at_most: Duration) -> Self {
        Self { at_most, ..self }
    }

    /// Updates the timer; returns whether it expired now.
    pub(crate) fn expire(&mut self, now: Instant, hold: Duration) -> bool {
        let expires = !self.expired && now >= self.since + hold.min(self.at_most);
        self.expired |= expires;
        expires
    }

    pub(crate) fn deadline(self, hold: Duration) -> Option<Instant> {
        (!self.expired).then(|| self.since + hold.min(self.at_most))
    }
}

/// Timers of a client that reconnected: it has to subscribe to the types that may use its resources, and those types
/// have to be answered, before something is removed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReconnectTimers {
    /// Until the client subscribes to listeners or routes: at most [`Config::follow_up`].
    pub(crate) to_subscribe: HoldTimer,
    /// Until those subscriptions are answered: at most [`Config::hold`].
    pub(crate) to_answer: HoldTimer,
}

impl ReconnectTimers {
    pub(crate) fn start(now: Instant) -> Self {
        Self {
            to_subscribe: HoldTimer::start(now),
            to_answer: HoldTimer::start(now),
        }
    }

    /// Updates both timers; returns whether the longer one expired now.
    pub(crate) fn expire(&mut self, now: Instant, config: &Config) -> bool {
        self.to_subscribe.expire(now, config.follow_up);
        self.to_answer.expire(now, config.hold)
    }

    pub(crate) fn deadlines(self, config: &Config) -> impl Iterator<Item = Instant> {
        let to_subscribe = self.to_subscribe.deadline(config.follow_up);
        [to_subscribe, self.to_answer.deadline(config.hold)]
            .into_iter()
            .flatten()
    }

    /// The timer that status pages show, unless it expired.
    pub(crate) fn running(self) -> Option<HoldTimer> {
        (!self.to_answer.expired).then_some(self.to_answer)
    }
}
