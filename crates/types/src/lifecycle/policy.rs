//! Policy: whether the use of a deprecated element is warned of, allowed by an override, or disallowed.

use std::sync::Arc;

use super::clock::{Clock, Entry};
use super::element::Element;
use super::phase::Phase;
use crate::runtime::Snapshot;

/// Runtime key that allows all deprecated elements whose own key is not set.
const ENABLE_ALL: &str = "envoy.features.enable_all_deprecated_features";
/// Runtime key that disallows all deprecated elements that no other key allows.
const FAIL_ON_ANY: &str = "envoy.features.fail_on_any_deprecated_feature";

/// Runtime and clock, which decide together about deprecated elements. Cheap to clone. The default has neither:
/// annotations alone decide.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    runtime: Snapshot,
    clock: Clock,
    disallows_nothing: bool,
}

/// Decision about the use of a deprecated element.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Decision {
    /// Phase by annotations and clock, without the runtime.
    pub phase: Phase,
    /// Whether the element may be used.
    pub verdict: Verdict,
    /// Entry of the clock, if it has one.
    pub entry: Option<Arc<Entry>>,
}

/// Whether a deprecated element may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The use is a warning.
    Warned,
    /// The use is a warning, because the runtime allows an element that is disallowed by default.
    Overridden,
    /// The use is an error.
    Disallowed(Cause),
}

/// Reason why an element is disallowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cause {
    /// The API or the clock disallows it by default.
    Phase,
    /// A runtime key has disallowed it: its own, or one about all deprecated elements.
    Runtime,
}

impl Policy {
    /// Creates a policy.
    #[must_use]
    pub fn new(runtime: Snapshot, clock: Clock) -> Self {
        Self {
            runtime,
            clock,
            disallows_nothing: false,
        }
    }

    /// Returns a policy that disallows nothing, for readers whose resources are checked later: every use is a warning.
    #[must_use]
    pub fn undecided() -> Self {
        Self {
            disallows_nothing: true,
            ..Self::default()
        }
    }

    /// Returns the policy with another runtime.
    #[must_use]
    pub fn with_runtime(&self, runtime: Snapshot) -> Self {
        Self {
            runtime,
            ..self.clone()
        }
    }

    /// Returns the policy with another clock.
    #[must_use]
    pub fn with_clock(&self, clock: Clock) -> Self {
        Self {
            clock,
            ..self.clone()
        }
    }

    /// Returns the clock.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Whether the clock of another policy has the same entries.
    #[must_use]
    pub fn has_same_clock(&self, other: &Policy) -> bool {
        self.clock == other.clock
    }

    /// Decides about the use of an element.
    ///
    /// The order is that of Envoy (`Snapshot::deprecatedFeatureEnabled`): the key of the element itself; then
    /// `envoy.features.enable_all_deprecated_features`; then the phase and
    /// `envoy.features.fail_on_any_deprecated_feature`. So the key of an element can also disallow one that is only
    /// deprecated.
    #[must_use]
    pub fn decide(&self, element: &Element) -> Decision {
        let entry = self.clock.entry(element.name());
        let phase = match entry {
            // The annotation holds whatever the releases are.
            _ if element.is_disallowed() => Phase::Disallowed,
            Some(entry) => entry.phase,
            None => Phase::Warned,
        };
        let fails = self.runtime.flag(FAIL_ON_ANY) == Some(true) && phase >= Phase::Warned;
        let by_default = !fails && phase < Phase::Disallowed;
        let allowed = self
            .runtime
            .flag(element.runtime_key())
            .or_else(|| self.runtime.flag(ENABLE_ALL))
            .unwrap_or(by_default);
        let verdict = match (by_default, allowed) {
            _ if self.disallows_nothing => Verdict::Warned,
            (true, true) => Verdict::Warned,
            (false, true) => Verdict::Overridden,
            (false, false) if phase == Phase::Disallowed => Verdict::Disallowed(Cause::Phase),
            (_, false) => Verdict::Disallowed(Cause::Runtime),
        };
        Decision {
            phase,
            verdict,
            entry: entry.cloned(),
        }
    }
}

impl Decision {
    /// Returns whether the use is worth a finding: not if the deprecation is only announced.
    #[must_use]
    pub fn is_finding(&self) -> bool {
        self.phase != Phase::Announced || self.verdict != Verdict::Warned
    }

    /// Returns whether the use is an error.
    #[must_use]
    pub fn is_error(&self) -> bool {
        matches!(self.verdict, Verdict::Disallowed(_))
    }
}

impl Verdict {
    /// Returns `warned`, `overridden` or `disallowed`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Warned => "warned",
            Verdict::Overridden => "overridden",
            Verdict::Disallowed(_) => "disallowed",
        }
    }
}
