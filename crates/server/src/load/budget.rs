//! The memory budget of load totals. Clients choose the names in their reports, so these must be bounded: by a limit of
//! their own, and by the budget of the server, which they share with all else that clients make it keep.

use std::sync::Arc;

use crate::calls;

/// The memory that all rows may take, in bytes: enough for 50,000 rows with one locality and one metric each, and a
/// bound for clients that invent names.
const MAX_BYTES: usize = 256 << 20;

/// The bytes that are still free, and the budget of the server, once there is one.
#[derive(Debug)]
pub(super) struct Budget {
    free: usize,
    server: Option<Arc<calls::Budget>>,
}

/// A key that is made of names which clients choose.
pub(super) trait NameBytes {
    /// Returns the length of all names, in bytes.
    fn name_bytes(&self) -> usize;
}

impl Budget {
    pub(super) fn free(&self) -> usize {
        self.free
    }

    /// Counts all bytes in the budget of a server, too, those that are taken already included. The first server stays.
    pub(super) fn count_in(&mut self, server: &Arc<calls::Budget>) {
        if self.server.is_none() {
            server.add_loads(MAX_BYTES - self.free);
            self.server = Some(Arc::clone(server));
        }
    }

    /// Takes these bytes. Returns `false`, and takes nothing, if fewer are free.
    pub(super) fn take(&mut self, bytes: usize) -> bool {
        let Some(left) = self.free.checked_sub(bytes) else {
            return false;
        };
        if let Some(server) = &self.server
            && !server.take_for_loads(bytes)
        {
            return false;
        }
        self.free = left;
        true
    }

    /// Gives back bytes that were taken.
    pub(super) fn give_back(&mut self, bytes: usize) {
        self.free += bytes;
        if let Some(server) = &self.server {
            server.give_back_loads(bytes);
        }
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            free: MAX_BYTES,
            server: None,
        }
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
