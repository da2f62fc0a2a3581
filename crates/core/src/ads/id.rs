//! Indexes of servers and authorities in a [`ClientConfig`](super::ClientConfig).

/// Index of a server in one [`ClientConfig`](super::ClientConfig). The default is the first server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ServerId(u32);

/// Index of an authority in one [`ClientConfig`](super::ClientConfig). The default is the first authority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct AuthorityId(u32);

impl ServerId {
    /// Returns the position of the server, in the order in which servers were added.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }

    pub(super) fn at(index: usize) -> Self {
        Self(index as u32)
    }
}

impl AuthorityId {
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }

    pub(super) fn at(index: usize) -> Self {
        Self(index as u32)
    }
}
