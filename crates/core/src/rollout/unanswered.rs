//! The oldest changes that clients have not answered.

/// Changes that the clients of a server have not answered, by number. The smallest number counts, so that of two
/// servers, or of two clients, [`and`](Self::and) makes one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Unanswered {
    /// The oldest change that concerns a client, and that it has not answered.
    pub change: Option<u64>,
    /// The oldest of the latest changes at which clients connected that have answered nothing since.
    pub connected: Option<u64>,
}

impl Unanswered {
    /// Returns what is unanswered of both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let oldest = |a: Option<u64>, b: Option<u64>| a.into_iter().chain(b).min();
        Self {
            change: oldest(self.change, other.change),
            connected: oldest(self.connected, other.connected),
        }
    }
}
