//! Fault injection (gRFC A33): the faults of one RPC.
//!
//! ```text
//!  RPC ─ delay drawn? ─ quota left? ─► waits ─┐
//!            │ no                             ▼
//!            └───────────────────────► abort drawn? ─ quota left, or delayed ─► fails
//!                                             │ no
//!                                             └──► is sent
//! ```
//!
//! Delay and abort are drawn independently. Random numbers and the number of active faults are arguments.

use std::time::Duration;

use super::chance::{PerMillion, scale};
use super::matcher::Headers;

/// Configuration of the fault filter.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FaultConfig {
    /// Delay of RPCs.
    pub delay: Option<FaultDelay>,
    /// Abort of RPCs.
    pub abort: Option<FaultAbort>,
    /// Maximum number of active faults in the process; no limit without one.
    pub max_active: Option<u32>,
}

/// Delay of a share of the RPCs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaultDelay {
    /// Length of the delay; `None` if the header `x-envoy-fault-delay-request` has it.
    pub fixed: Option<Duration>,
    /// Share of the RPCs.
    pub share: FaultShare,
}

/// Abort of a share of the RPCs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaultAbort {
    /// Status; `None` if the headers `x-envoy-fault-abort-grpc-request` or `x-envoy-fault-abort-request` have it.
    pub fixed: Option<AbortStatus>,
    /// Share of the RPCs.
    pub share: FaultShare,
}

/// Status with which a fault ends an RPC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AbortStatus {
    /// A gRPC status code.
    Grpc(u32),
    /// An HTTP status code, which stands for the gRPC status that it is mapped to.
    Http(u16),
}

/// Share of RPCs as a fraction. A header may lower the numerator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FaultShare {
    /// Numerator, at most the denominator.
    pub numerator: u32,
    /// Denominator: 100, 10,000 or 1,000,000.
    pub denominator: u32,
}

/// Faults that were drawn for one RPC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Faults {
    /// Delay before the RPC is sent.
    pub delay: Option<Duration>,
    /// Status with which the RPC ends after the delay.
    pub abort: Option<AbortStatus>,
}

const DELAY: &str = "x-envoy-fault-delay-request";
const DELAY_SHARE: &str = "x-envoy-fault-delay-request-percentage";
const ABORT_GRPC: &str = "x-envoy-fault-abort-grpc-request";
const ABORT_HTTP: &str = "x-envoy-fault-abort-request";
const ABORT_SHARE: &str = "x-envoy-fault-abort-request-percentage";

impl FaultShare {
    /// All RPCs.
    pub const ALL: Self = Self {
        numerator: 100,
        denominator: 100,
    };

    /// No RPC, in percent.
    pub const NONE: Self = Self {
        numerator: 0,
        denominator: 100,
    };

    fn hit(self, numerator: u32, random: u64) -> bool {
        scale(random, self.denominator.into()) < u64::from(numerator)
    }

    /// Returns the share as a probability.
    #[must_use]
    pub fn per_million(self) -> PerMillion {
        let factor = PerMillion::ALL.get() / self.denominator.max(1);
        PerMillion::saturating(self.numerator.saturating_mul(factor))
    }
}

impl FaultConfig {
    /// Draws the faults of an RPC. `active` is the number of active faults in the process.
    pub fn draw(
        &self,
        headers: &(impl Headers + ?Sized),
        active: impl Fn() -> u32,
        mut random: impl FnMut() -> u64,
    ) -> Faults {
        let has_quota = || self.max_active.is_none_or(|max| active() < max);
        // gRFC A33: each feature has its own random number (C-237).
        let delay = self
            .delay
            .as_ref()
            .and_then(|delay| delay.draw(headers, &mut random))
            .filter(|_| has_quota());
        let abort = self
            .abort
            .as_ref()
            .and_then(|abort| abort.draw(headers, &mut random))
            .filter(|_| delay.is_some() || has_quota());
        Faults { delay, abort }
    }
}

impl FaultDelay {
    fn draw(
        &self,
        headers: &(impl Headers + ?Sized),
        random: impl FnOnce() -> u64,
    ) -> Option<Duration> {
        // gRFC A33: headers count only if the configuration asks for them.
        let (delay, numerator) = match self.fixed {
            Some(fixed) => (fixed, self.share.numerator),
            None => (
                Duration::from_millis(number::<u32>(headers, DELAY)?.into()),
                lowered(self.share, headers, DELAY_SHARE),
            ),
        };
        (!delay.is_zero() && self.share.hit(numerator, random())).then_some(delay)
    }
}

impl FaultAbort {
    fn draw(
        &self,
        headers: &(impl Headers + ?Sized),
        random: impl FnOnce() -> u64,
    ) -> Option<AbortStatus> {
        let (status, numerator) = match self.fixed {
            Some(fixed) => (fixed, self.share.numerator),
            None => (
                status_of(headers)?,
                lowered(self.share, headers, ABORT_SHARE),
            ),
        };
        self.share.hit(numerator, random()).then_some(status)
    }
}

/// Returns the status that the headers ask for. Invalid headers are ignored.
fn status_of(headers: &(impl Headers + ?Sized)) -> Option<AbortStatus> {
    /// `UNAUTHENTICATED`, the last code.
    const LAST: u32 = 16;
    let grpc = number(headers, ABORT_GRPC).filter(|code| *code <= LAST);
    let http = || number(headers, ABORT_HTTP).filter(|code| (200..600).contains(code));
    grpc.map(AbortStatus::Grpc)
        .or_else(|| http().map(AbortStatus::Http))
}

/// Returns the numerator of a header, limited by that of the configuration; without a valid header, that of the
/// configuration.
fn lowered(share: FaultShare, headers: &(impl Headers + ?Sized), name: &str) -> u32 {
    number(headers, name).map_or(share.numerator, |asked: u32| asked.min(share.numerator))
}

fn number<N: std::str::FromStr>(headers: &(impl Headers + ?Sized), name: &str) -> Option<N> {
    headers.get(name)?.parse().ok()
}
