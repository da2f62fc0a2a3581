//! Errors in configuration files, ledgers and baselines.

/// Error in a configuration file, a ledger or a baseline.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {why}")]
pub struct ConfigError {
    /// File, with line and column if known.
    pub place: String,
    /// Description of the error, with the expected value.
    pub why: String,
}
