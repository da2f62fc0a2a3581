//! When a token is read, and what calls get meanwhile (gRFC A97). No clock is read here.
//!
//! ```text
//!            nothing held                 held                  a minute or less left
//!          ┌─────────────┐  a token  ┌──────────────┐ time  ┌──────────────────────────┐
//!      ───►│ read        ├──────────►│ use          ├──────►│ read; use the old one    │
//!          └──▲───────┬──┘           └──────▲───────┘       │ if that fails            │
//!      backoff│       │ failed              │ a token       └───┬─────────────────┬────┘
//!          ┌──┴───────▼──┐                  └───────────────────┘                 │ time
//!          │ fail alike  │◄───────────────────────────────────────────────────────┘
//!          └─────────────┘
//! ```

use std::time::{Duration, SystemTime};

use http::HeaderValue;
use oxds_core::ads::Backoff;
use tokio::time::Instant;

use super::CallError;
use super::token::Token;

/// A token with less time left than this is replaced, so that no call has to wait for it later.
const EARLY: Duration = Duration::from_secs(60);

/// The token that is held, and how the last attempt to have another failed.
#[derive(Debug, Default)]
pub(super) struct Cache {
    token: Option<Token>,
    failed: Option<Failed>,
    backoff: Backoff,
}

#[derive(Debug)]
struct Failed {
    why: CallError,
    again: Instant,
}

/// What a call is to do.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    Use(HeaderValue),
    Fail(CallError),
    /// Read the file, and [take in](Cache::take_in) what comes of it.
    Read,
}

impl Cache {
    /// What the call that begins now is to do. `now` is what tokens speak of, `instant` what backoff does: the one may
    /// jump.
    pub(super) fn next(&self, now: SystemTime, instant: Instant) -> Next {
        if let Some(header) = self.held(now + EARLY) {
            return Next::Use(header);
        }
        match &self.failed {
            Some(failed) if instant < failed.again => match self.held(now) {
                Some(header) => Next::Use(header),
                None => Next::Fail(failed.why.clone()),
            },
            _ => Next::Read,
        }
    }

    /// What the call gets whose file was read.
    pub(super) fn take_in(
        &mut self,
        read: Result<Token, CallError>,
        now: SystemTime,
        instant: Instant,
        random: u64,
    ) -> Result<HeaderValue, CallError> {
        let read = read.and_then(|token| match now < token.expires {
            true => Ok(token),
            false => Err(CallError::Unauthenticated(
                "the token in the file has expired".to_owned(),
            )),
        });
        match read {
            Ok(token) => {
                self.failed = None;
                self.backoff.reset();
                Ok(self.token.insert(token).header.clone())
            }
            Err(why) => {
                let again = instant + self.backoff.next(random);
                self.failed = Some(Failed {
                    why: why.clone(),
                    again,
                });
                self.held(now).ok_or(why)
            }
        }
    }

    /// The token that is held, if it will be of use at a time.
    fn held(&self, at: SystemTime) -> Option<HeaderValue> {
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

    /// Of use until this many seconds after the start.
    fn token(name: &'static str, expires: u64) -> Token {
        Token {
            header: HeaderValue::from_static(name),
            expires: START + seconds(expires),
        }
    }

    fn used(name: &'static str) -> Next {
        Next::Use(HeaderValue::from_static(name))
    }

    fn unavailable() -> CallError {
        CallError::Unavailable("gone".to_owned())
    }

    /// A cache, on a clock of its own.
    struct Clocked(Cache, Instant);

    impl Clocked {
        fn new() -> Self {
            Self(Cache::default(), Instant::now())
        }

        fn next(&self, at: u64) -> Next {
            self.0.next(START + seconds(at), self.1 + seconds(at))
        }

        fn read(
            &mut self,
            at: u64,
            read: Result<Token, CallError>,
        ) -> Result<HeaderValue, CallError> {
            let middle = u64::MAX / 2;
            self.0
                .take_in(read, START + seconds(at), self.1 + seconds(at), middle)
        }
    }

    #[test]
    fn c34_a_token_is_read_again_a_minute_before_it_is_of_no_use() {
        let mut cache = Clocked::new();
        assert_eq!(cache.next(0), Next::Read);
        cache.read(0, Ok(token("one", 100))).unwrap();
        assert_eq!(cache.next(39), used("one"));
        assert_eq!(cache.next(40), Next::Read);
        cache.read(40, Ok(token("two", 300))).unwrap();
        assert_eq!(cache.next(239), used("two"));
    }

    #[test]
    fn c34_a_file_that_fails_disturbs_nobody_while_a_token_is_good() {
        let mut cache = Clocked::new();
        cache.read(0, Ok(token("one", 100))).unwrap();
        assert_eq!(cache.read(50, Err(unavailable())).unwrap(), "one");
        assert_eq!(cache.next(50), used("one"), "in backoff");
        assert_eq!(cache.next(52), Next::Read, "after it");
        cache.read(99, Err(unavailable())).unwrap();
        assert_eq!(cache.next(100), Next::Fail(unavailable()));
    }

    #[test]
    fn c34_without_a_token_calls_fail_alike_until_backoff_is_over() {
        let mut cache = Clocked::new();
        assert_eq!(cache.read(0, Err(unavailable())), Err(unavailable()));
        assert_eq!(cache.next(0), Next::Fail(unavailable()));
        assert_eq!(cache.next(2), Next::Read, "1 s");
        let fault = CallError::Unauthenticated("no token".to_owned());
        cache.read(2, Err(fault.clone())).unwrap_err();
        assert_eq!(
            cache.next(3),
            Next::Fail(fault),
            "1.6 s, and the last cause"
        );
        assert_eq!(cache.next(4), Next::Read);
        cache.read(4, Ok(token("one", 200))).unwrap();
        assert_eq!(cache.next(4), used("one"));
        cache.read(150, Err(unavailable())).unwrap();
        assert_eq!(cache.next(152), Next::Read, "backoff began anew");
    }

    #[test]
    fn c34_a_token_that_has_expired_is_none() {
        let mut cache = Clocked::new();
        let error = cache.read(50, Ok(token("old", 50))).unwrap_err();
        assert!(matches!(error, CallError::Unauthenticated(_)), "{error}");
    }

    #[test]
    fn c34_a_clock_that_jumps_costs_one_reading() {
        let mut cache = Clocked::new();
        cache.read(0, Ok(token("one", 1000))).unwrap();
        let far = START + seconds(1_000_000);
        assert_eq!(cache.0.next(far, cache.1), Next::Read);
        assert_eq!(cache.next(1), used("one"), "and back");
    }
}
