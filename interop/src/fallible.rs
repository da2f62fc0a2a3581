//! Results of scenario steps.

/// Result of a scenario step. Errors are for people; no code branches on them.
pub(crate) type Fallible<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;
