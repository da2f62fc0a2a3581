//! The phases of a deprecation.

/// Phase of a deprecated element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// The deprecation is planned for a later release: no finding.
    Announced,
    /// Use is warned of and counted (V-44).
    Warned,
    /// Use is an error, unless the runtime allows it (V-45).
    Disallowed,
}

impl Phase {
    /// Returns `announced`, `warned` or `disallowed`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Phase::Announced => "announced",
            Phase::Warned => "warned",
            Phase::Disallowed => "disallowed",
        }
    }
}
