//! When the token file is read, and which token calls use until then (gRFC A97). This module reads no clock.
//!
//! ```text
//!              no token                 valid                  1 min or less left
//!          ┌─────────────┐  token    ┌──────────────┐ time  ┌──────────────────────────┐
//!      ───►│ read file   ├──────────►│ use token    ├──────►│ read file; use the old   │
//!          └──▲───────┬──┘           └──────▲───────┘       │ token if that fails      │
//!      backoff│       │ failed              │ new token     └───┬─────────────────┬────┘
//!          ┌──┴───────▼──┐                  └───────────────────┘                 │ expired
//!          │ fail calls  │◄───────────────────────────────────────────────────────┘
//!          └─────────────┘
//! ```

use std::time::{Duration, SystemTime};

use http::HeaderValue;
use oxds_core::backoff::Backoff;
use tokio::time::Instant;

use super::CallError;
use super::token::Token;

/// Remaining lifetime at which a token is replaced, so that no call has to wait for the file later.
const REFRESH_BEFORE_EXPIRY: Duration = Duration::from_secs(60);

/// The current token, and the last failed attempt to replace it.
#[derive(Debug, Default)]
pub(super) struct TokenCache {
    token: Option<Token>,
    failed: Option<FailedRead>,
    backoff: Backoff,
}

#[derive(Debug)]
struct FailedRead {
    error: CallError,
    /// End of the backoff: the next read may start then.
    retry_at: Instant,
}

/// Next step of a call.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NextStep {
    /// Send this header.
    Use(HeaderValue),
    /// End with this error.
    Fail(CallError),
    /// Read the file, and pass the result to [`TokenCache::handle_read`].
    Read,
}

impl TokenCache {
    /// Returns the next step of a call that starts now. `now` is wall-clock time, for token expiry; `instant` is
    /// monotonic time, for backoff, because the wall clock may jump.
    pub(super) fn next_step(&self, now: SystemTime, instant: Instant) -> NextStep {
        if let Some(header) = self.valid_at(now + REFRESH_BEFORE_EXPIRY) {
            return NextStep::Use(header);
        }
        match &self.failed {
            // gRFC A97: during backoff, calls use the cached token while it is valid, else they fail like the last
            // read.
            Some(failed) if instant < failed.retry_at => match self.valid_at(now) {
                Some(header) => NextStep::Use(header),
                None => NextStep::Fail(failed.error.clone()),
            },
            _ => NextStep::Read,
        }
    }

    /// Takes the result of a read, and returns the header of the call that waited for it.
    pub(super) fn handle_read(
        &mut self,
        read: Result<Token, CallError>,
        now: SystemTime,
        instant: Instant,
        random: u64,
    ) -> Result<HeaderValue, CallError> {
        let read = read.and_then(|token| {
            if now < token.expires {
                Ok(token)
            } else {
                Err(CallError::Unauthenticated(
                    "the token in the file has expired".to_owned(),
                ))
            }
        });
        match read {
            Ok(token) => {
                self.failed = None;
                self.backoff.reset();
                Ok(self.token.insert(token).header.clone())
            }
            Err(error) => {
                let retry_at = instant + self.backoff.next(random);
                self.failed = Some(FailedRead {
                    error: error.clone(),
                    retry_at,
                });
                self.valid_at(now).ok_or(error)
            }
        }
    }

    /// Returns the current token if it is still valid at a time.
    fn valid_at(&self, at: SystemTime) -> Option<HeaderValue> {
        let token = self.token.as_ref().filter(|token| at < token.expires)?;
        Some(token.header.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: SystemTime = SystemTime::UNIX_EPOCH;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// A token that is valid until this many seconds after the start.
    fn token(name: &'static str, expires: u64) -> Token {
        Token {
            header: HeaderValue::from_static(name),
            expires: START + seconds(expires),
        }
    }

    fn used(name: &'static str) -> NextStep {
        NextStep::Use(HeaderValue::from_static(name))
    }

    fn unavailable() -> CallError {
        CallError::Unavailable("gone".to_owned())
    }

    /// A cache with its own clock.
    struct Clocked(TokenCache, Instant);

    impl Clocked {
        fn new() -> Self {
            Self(TokenCache::default(), Instant::now())
        }

        fn next(&self, at: u64) -> NextStep {
            self.0.next_step(START + seconds(at), self.1 + seconds(at))
        }

        fn read(
            &mut self,
            at: u64,
            read: Result<Token, CallError>,
        ) -> Result<HeaderValue, CallError> {
            let middle = u64::MAX / 2;
            self.0
                .handle_read(read, START + seconds(at), self.1 + seconds(at), middle)
        }
    }

    #[test]
    fn c34_token_is_read_again_a_minute_before_expiry() {
        let mut cache = Clocked::new();
        assert_eq!(cache.next(0), NextStep::Read);
        cache.read(0, Ok(token("one", 100))).unwrap();
        assert_eq!(cache.next(39), used("one"));
        assert_eq!(cache.next(40), NextStep::Read);
        cache.read(40, Ok(token("two", 300))).unwrap();
        assert_eq!(cache.next(239), used("two"));
    }

    #[test]
    fn c34_failed_read_uses_old_token_while_valid() {
        let mut cache = Clocked::new();
        cache.read(0, Ok(token("one", 100))).unwrap();
        assert_eq!(cache.read(50, Err(unavailable())).unwrap(), "one");
        assert_eq!(cache.next(50), used("one"), "in backoff");
        assert_eq!(cache.next(52), NextStep::Read, "after it");
        cache.read(99, Err(unavailable())).unwrap();
        assert_eq!(cache.next(100), NextStep::Fail(unavailable()));
    }

    #[test]
    fn c34_calls_without_token_fail_until_backoff_ends() {
        let mut cache = Clocked::new();
        assert_eq!(cache.read(0, Err(unavailable())), Err(unavailable()));
        assert_eq!(cache.next(0), NextStep::Fail(unavailable()));
        assert_eq!(cache.next(2), NextStep::Read, "1 s");
        let fault = CallError::Unauthenticated("no token".to_owned());
        cache.read(2, Err(fault.clone())).unwrap_err();
        assert_eq!(
            cache.next(3),
            NextStep::Fail(fault),
            "1.6 s, and the last cause"
        );
        assert_eq!(cache.next(4), NextStep::Read);
        cache.read(4, Ok(token("one", 200))).unwrap();
        assert_eq!(cache.next(4), used("one"));
        cache.read(150, Err(unavailable())).unwrap();
        assert_eq!(cache.next(152), NextStep::Read, "backoff was reset");
    }

    #[test]
    fn c34_expired_token_in_file_is_unauthenticated() {
        let mut cache = Clocked::new();
        let error = cache.read(50, Ok(token("old", 50))).unwrap_err();
        assert!(matches!(error, CallError::Unauthenticated(_)), "{error}");
    }

    #[test]
    fn c34_clock_jump_costs_one_read() {
        let mut cache = Clocked::new();
        cache.read(0, Ok(token("one", 1000))).unwrap();
        let far = START + seconds(1_000_000);
        assert_eq!(cache.0.next_step(far, cache.1), NextStep::Read);
        assert_eq!(cache.next(1), used("one"), "and back");
    }
}
