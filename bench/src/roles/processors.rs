//! Processors of the parts.

/// Processors that a part may use.
///
/// ```text
///   processor 0: the scenario, its load generators and proxies    processor 1: the measured process
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Processors {
    /// The scenario's: for parts that are not measured.
    Beside,
    /// The other one: for the measured process.
    Alone,
    /// Both: for work that is measured on all processors, one process at a time.
    Both,
}

impl Processors {
    /// The list that `taskset` takes.
    pub(crate) fn list(self) -> &'static str {
        match self {
            Self::Beside => "0",
            Self::Alone => "1",
            Self::Both => "0,1",
        }
    }
}
