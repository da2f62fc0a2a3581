//! How much memory the ledger may take: what clients name is theirs to choose.

/// What all rows may take in memory: a bound for clients that lie, and room for a hundred thousand rows of one locality
/// and a metric each.
const MAX_BYTES: usize = 512 << 20;

/// Bytes that may still be taken.
#[derive(Debug)]
pub(super) struct Room(usize);

/// What clients name.
pub(super) trait Names {
    /// Bytes of the names.
    fn bytes(&self) -> usize;
}

impl Room {
    pub(super) fn free(&self) -> usize {
        self.0
    }

    /// Takes so many bytes, if there are as many.
    pub(super) fn take(&mut self, bytes: usize) -> bool {
        let left = self.0.checked_sub(bytes);
        self.0 = left.unwrap_or(self.0);
        left.is_some()
    }

    /// Gives back what was taken.
    pub(super) fn give_back(&mut self, bytes: usize) {
        self.0 += bytes;
    }
}

impl Default for Room {
    fn default() -> Self {
        Self(MAX_BYTES)
    }
}

/// What an entry takes whose values are kept for each of so many seconds.
pub(super) fn cost<K: Names, V>(key: &K, seconds: u64) -> usize {
    let counts = usize::try_from(seconds).unwrap_or(usize::MAX);
    let counts = counts.saturating_mul(size_of::<(u64, u64)>());
    (key.bytes() + size_of::<(K, V)>()).saturating_add(counts)
}

impl Names for String {
    fn bytes(&self) -> usize {
        self.len()
    }
}

impl Names for [String; 3] {
    fn bytes(&self) -> usize {
        self.iter().map(String::len).sum()
    }
}
