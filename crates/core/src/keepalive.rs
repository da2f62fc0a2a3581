//! Keepalive of a connection: when a ping is sent, and when an unanswered ping closes the connection (gRFC A8).
//!
//! ```text
//!              activity                     interval without a byte, a call is open
//!  ┌─────────┐ ─────────▶ ┌──────────┐ ─────────────────────────────────────────▶ ┌─────────┐ timeout
//!  │ Dormant │            │ Watching │                                            │ Pinging │ ───────▶ Close
//!  └─────────┘ ◀───────── └──────────┘ ◀───────────────────────────────────────── └─────────┘
//!     interval without a byte, no call                     a byte
//! ```
//!
//! A dormant connection has no timer, so idle connections cost nothing.

use std::time::Duration;

use crate::time::Instant;

/// State machine of one connection's keepalive.
#[derive(Debug)]
pub struct Keepalive {
    // Fixed.
    interval: Duration,
    timeout: Duration,

    state: KeepaliveState,
}

#[derive(Debug, Clone, Copy)]
enum KeepaliveState {
    /// No call was open at the end of the last interval.
    Dormant,
    /// The next check is at `check`.
    Watching {
        last_activity: Instant,
        check: Instant,
    },
    /// A ping was sent; its answer is awaited until `end`.
    Pinging { end: Instant },
}

/// Action that the driver must take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeepaliveAction {
    /// Nothing.
    None,
    /// Send a ping.
    Ping,
    /// Close the connection: nothing has arrived since the ping.
    Close,
}

impl Keepalive {
    /// Makes a dormant machine. A ping is sent after `interval` without a byte; the connection ends `timeout` after
    /// that.
    #[must_use]
    pub fn new(interval: Duration, timeout: Duration) -> Self {
        Self {
            interval,
            timeout,
            state: KeepaliveState::Dormant,
        }
    }

    /// Returns whether the next use of the connection must be reported by [`handle_activity`](Self::handle_activity),
    /// also if no byte has arrived.
    #[must_use]
    pub fn is_dormant(&self) -> bool {
        matches!(self.state, KeepaliveState::Dormant)
    }

    /// Handles bytes from the peer, or the first use of a dormant connection.
    pub fn handle_activity(&mut self, now: Instant) {
        let check = match self.state {
            // The timer stays as it is: setting it for each byte would cost more than one early check per interval.
            KeepaliveState::Watching { check, .. } => check,
            // gRFC A8 asks for the answer to the ping; any byte shows as well that the peer is alive.
            KeepaliveState::Dormant | KeepaliveState::Pinging { .. } => now + self.interval,
        };
        self.state = KeepaliveState::Watching {
            last_activity: now,
            check,
        };
    }

    /// Returns the time of the next [`handle_timeout`](Self::handle_timeout).
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        match self.state {
            KeepaliveState::Dormant => None,
            KeepaliveState::Watching { check, .. } => Some(check),
            KeepaliveState::Pinging { end } => Some(end),
        }
    }

    /// Handles a timer that is due. `has_calls` says whether the connection has open calls.
    pub fn handle_timeout(&mut self, now: Instant, has_calls: bool) -> KeepaliveAction {
        match self.state {
            KeepaliveState::Watching { last_activity, .. } => {
                let check = last_activity + self.interval;
                if now < check {
                    self.state = KeepaliveState::Watching {
                        last_activity,
                        check,
                    };
                    return KeepaliveAction::None;
                }
                // gRFC A8: without calls a client sends no pings, unless it is configured to.
                if !has_calls {
                    self.state = KeepaliveState::Dormant;
                    return KeepaliveAction::None;
                }
                self.state = KeepaliveState::Pinging {
                    end: now + self.timeout,
                };
                KeepaliveAction::Ping
            }
            KeepaliveState::Pinging { end } if now >= end => KeepaliveAction::Close,
            KeepaliveState::Pinging { .. } | KeepaliveState::Dormant => KeepaliveAction::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_secs(300);
    const TIMEOUT: Duration = Duration::from_secs(20);

    fn at(seconds: u64) -> Instant {
        Instant::from_epoch(Duration::from_secs(seconds))
    }

    fn watching() -> Keepalive {
        let mut keepalive = Keepalive::new(INTERVAL, TIMEOUT);
        assert_eq!(keepalive.poll_timeout(), None);
        keepalive.handle_activity(at(0));
        keepalive
    }

    #[test]
    fn silent_peer_is_pinged_then_closed() {
        let mut keepalive = watching();
        assert_eq!(keepalive.poll_timeout(), Some(at(300)));
        assert_eq!(
            keepalive.handle_timeout(at(300), true),
            KeepaliveAction::Ping
        );
        assert_eq!(keepalive.poll_timeout(), Some(at(320)));
        assert_eq!(
            keepalive.handle_timeout(at(319), true),
            KeepaliveAction::None
        );
        assert_eq!(
            keepalive.handle_timeout(at(320), true),
            KeepaliveAction::Close
        );
    }

    #[test]
    fn bytes_delay_the_ping_by_a_whole_interval() {
        let mut keepalive = watching();
        keepalive.handle_activity(at(100));
        keepalive.handle_activity(at(250));
        assert_eq!(
            keepalive.handle_timeout(at(300), true),
            KeepaliveAction::None
        );
        assert_eq!(keepalive.poll_timeout(), Some(at(550)));
        assert_eq!(
            keepalive.handle_timeout(at(550), true),
            KeepaliveAction::Ping
        );
    }

    #[test]
    fn byte_after_the_ping_keeps_the_connection() {
        let mut keepalive = watching();
        keepalive.handle_timeout(at(300), true);
        keepalive.handle_activity(at(310));
        assert_eq!(keepalive.poll_timeout(), Some(at(610)));
        assert_eq!(
            keepalive.handle_timeout(at(610), true),
            KeepaliveAction::Ping
        );
    }

    #[test]
    fn connection_without_calls_is_not_pinged() {
        let mut keepalive = watching();
        assert_eq!(
            keepalive.handle_timeout(at(300), false),
            KeepaliveAction::None
        );
        assert!(keepalive.is_dormant());
        assert_eq!(keepalive.poll_timeout(), None);
        // The next call starts a whole interval.
        keepalive.handle_activity(at(1000));
        assert_eq!(keepalive.poll_timeout(), Some(at(1300)));
    }
}
