//! What a client has had to do, counted.

/// Counted since the client was made. What it costs is to follow what changes, not what is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClientCounters {
    /// Resources that were decoded and checked, once for each type that their kind is watched as.
    pub decoded: u64,
    /// Resources that were found to be those held already, byte by byte, and not decoded (C-86).
    pub unchanged: u64,
    /// Events for watchers.
    pub events: u64,
}

impl std::ops::Sub for ClientCounters {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            decoded: self.decoded - before.decoded,
            unchanged: self.unchanged - before.unchanged,
            events: self.events - before.events,
        }
    }
}
