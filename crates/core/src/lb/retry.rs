//! Retries by policy (gRFC A6, A44): whether a failed attempt is followed by another one, and when.
//!
//! ```text
//!            ┌──────────────── after the back-off or the pushback ──────────────┐
//!            ▼                                                                  │
//!  attempt ─ fails without a response ─► code retryable? ─► attempts left? ─► Some(delay)
//!            │ head of a response            │ no               │ no
//!            ▼                               ▼                  ▼
//!        committed                         None               None
//! ```
//!
//! Random numbers are arguments. A drop by the load balancer, or an abort by a fault, is never retried, and does not
//! get here.

use std::time::Duration;

/// Maximum number of attempts of one RPC, whatever the policy says (gRFC A6).
pub const MAX_ATTEMPTS: u32 = 5;

/// Factor by which the back-off grows (gRFC A44).
const MULTIPLIER: f64 = 2.0;

/// Share by which a back-off varies in both directions (gRFC A6).
const JITTER: f64 = 0.2;

/// Set of gRPC status codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StatusCodes(u32);

impl StatusCodes {
    /// Adds a code. Numbers other than gRPC codes are ignored.
    pub fn insert(&mut self, code: u32) {
        self.0 |= Self::bit(code);
    }

    /// Returns whether the set has a code.
    #[must_use]
    pub fn contains(self, code: u32) -> bool {
        self.0 & Self::bit(code) != 0
    }

    /// Returns whether the set has no code.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    fn bit(code: u32) -> u32 {
        /// `UNAUTHENTICATED`, the last code.
        const LAST: u32 = 16;
        if code > LAST { 0 } else { 1 << code }
    }
}

/// Retry policy of a route (gRFC A44).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Status codes after which an attempt is repeated; at least one.
    pub codes: StatusCodes,
    /// Number of attempts, the first one included; from 2 to [`MAX_ATTEMPTS`].
    pub max_attempts: u32,
    /// Back-off before the first retry; above zero.
    pub base: Duration,
    /// Maximum back-off, before jitter; not below `base`.
    pub max: Duration,
}

/// Instruction of a server about retries: the header `grpc-retry-pushback-ms` (gRFC A6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pushback {
    /// No instruction: the policy decides.
    #[default]
    None,
    /// Retry after this time.
    After(Duration),
    /// Do not retry.
    Stop,
}

impl Pushback {
    /// Reads the values of the header. Everything but one number of milliseconds means [`Pushback::Stop`].
    pub fn parse<'a>(values: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut values = values.into_iter();
        let (Some(value), more) = (values.next(), values.next()) else {
            return Self::None;
        };
        let millis = std::str::from_utf8(value).ok().map(str::parse::<u32>);
        match (millis, more) {
            // gRFC A6: a negative or malformed value means that the RPC must not be retried.
            (Some(Ok(millis)), None) => Self::After(Duration::from_millis(millis.into())),
            _ => Self::Stop,
        }
    }
}

/// Retries of one RPC so far.
#[derive(Debug, Clone, Default)]
pub struct Retries {
    made: u32,
    /// Retries since the last pushback, which the back-off grows with.
    in_back_off: u32,
}

impl Retries {
    /// Returns the number of attempts before the current one, for `grpc-previous-rpc-attempts`. Transparent retries do
    /// not count.
    #[must_use]
    pub fn previous_attempts(&self) -> u32 {
        self.made
    }

    /// Handles the failure of an attempt with this status code. Returns the time to wait before the next attempt, or
    /// `None` if the failure is final.
    pub fn handle_failure(
        &mut self,
        policy: &RetryPolicy,
        code: u32,
        pushback: Pushback,
        random: u64,
    ) -> Option<Duration> {
        if !policy.codes.contains(code) || self.made + 1 >= policy.max_attempts {
            return None;
        }
        let delay = match pushback {
            Pushback::Stop => return None,
            // gRFC A6: a pushback restarts the exponential back-off.
            Pushback::After(delay) => {
                self.in_back_off = 0;
                delay
            }
            Pushback::None => {
                let delay = back_off(policy, self.in_back_off, random);
                self.in_back_off += 1;
                delay
            }
        };
        self.made += 1;
        Some(delay)
    }
}

/// Returns the back-off before a retry: exponential, limited, then varied by the random number.
fn back_off(policy: &RetryPolicy, retries: u32, random: u64) -> Duration {
    let exponent = i32::try_from(retries).unwrap_or(i32::MAX);
    let grown = policy.base.as_secs_f64() * MULTIPLIER.powi(exponent);
    let limited = grown.min(policy.max.as_secs_f64());
    let share = (random >> 11) as f64 / (1_u64 << 53) as f64;
    let varied = limited * (1.0 - JITTER + 2.0 * JITTER * share);
    Duration::try_from_secs_f64(varied).unwrap_or(policy.max)
}
