//! The memory budget of load totals. Clients choose the names in their reports, so these must be bounded.

/// The memory that all rows may take, in bytes: enough for 50,000 rows with one locality and one metric each, and a bound
/// for clients that invent names.
const MAX_BYTES: usize = 256 << 20;

/// The bytes that are still free.
#[derive(Debug)]
pub(super) struct Budget(usize);

/// A key that is made of names which clients choose.
pub(super) trait NameBytes {
    /// Returns the length of all names, in bytes.
    fn name_bytes(&self) -> usize;
}

impl Budget {
    pub(super) fn free(&self) -> usize {
        self.0
    }

    /// Takes these bytes. Returns `false`, and takes nothing, if fewer are free.
    pub(super) fn take(&mut self, bytes: usize) -> bool {
        let left = self.0.checked_sub(bytes);
        self.0 = left.unwrap_or(self.0);
        left.is_some()
    }

    /// Gives back bytes that were taken.
    pub(super) fn give_back(&mut self, bytes: usize) {
        self.0 += bytes;
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self(MAX_BYTES)
    }
}

/// Returns the bytes of an entry whose value may allocate as many as `owned`.
pub(super) fn cost<K: NameBytes, V>(key: &K, owned: usize) -> usize {
    (key.name_bytes() + size_of::<(K, V)>()).saturating_add(owned)
}

impl NameBytes for String {
    fn name_bytes(&self) -> usize {
        self.len()
    }
}

impl NameBytes for [String; 3] {
    fn name_bytes(&self) -> usize {
        self.iter().map(String::len).sum()
    }
}
