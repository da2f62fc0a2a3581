//! Index of an authority in a [`ClientConfig`](super::ClientConfig).

/// Index of an authority in one [`ClientConfig`](super::ClientConfig). The default is the first authority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct AuthorityId(u32);

impl AuthorityId {
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }

    pub(super) fn at(index: usize) -> Self {
        Self(index as u32)
    }
}
