//! Index of a server in a [`ClientConfig`](crate::ads::ClientConfig).

/// Index of a server in one [`ClientConfig`](crate::ads::ClientConfig). The default is the first server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ServerId(u32);

impl ServerId {
    /// Returns the position of the server, in the order in which servers were added.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }

    pub(crate) fn at(index: usize) -> Self {
        Self(index as u32)
    }
}
