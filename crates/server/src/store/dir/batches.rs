//! Batches of files that changed together, and the reads that they wait for.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Instant;

use oxds_types::file::Stamp;

use super::settling::Settling;
use crate::store::documents::{Document, DocumentId};

/// The files of the folder, and their reads.
#[derive(Default)]
pub(super) struct Files {
    /// The stamp at the latest read.
    pub(super) stamps: BTreeMap<DocumentId, Stamp>,
    pub(super) settling: Settling,
    pub(super) reading: HashMap<DocumentId, Reading>,
    pub(super) batches: Vec<Batch>,
    pub(super) next_batch: u64,
}

/// A read that has not returned.
pub(super) struct Reading {
    /// The batch that waits for it. `None`: it does not respond, so no batch waits.
    pub(super) batch: Option<u64>,
    /// Whether the file changed since, so that it must be read again.
    pub(super) again: bool,
}

/// Files that changed together.
pub(super) struct Batch {
    pub(super) id: u64,
    pub(super) began: Instant,
    pub(super) waiting: BTreeSet<DocumentId>,
    pub(super) total: usize,
    pub(super) read: Vec<(Stamp, Document)>,
    pub(super) deleted: Vec<DocumentId>,
    /// Whether an update is due even if nothing changed.
    pub(super) forced: bool,
}

impl Files {
    /// Begins a batch. What earlier batches know of its files is outdated.
    pub(super) fn begin(
        &mut self,
        changed: &[DocumentId],
        deleted: Vec<DocumentId>,
        forced: bool,
    ) -> u64 {
        if !self.batches.is_empty() {
            let newer: BTreeSet<_> = changed.iter().chain(&deleted).collect();
            for batch in &mut self.batches {
                batch.waiting.retain(|id| !newer.contains(id));
                batch
                    .read
                    .retain(|(_, document)| !newer.contains(document.id()));
                batch.deleted.retain(|id| !newer.contains(id));
            }
        }
        let id = self.next_batch;
        self.next_batch += 1;
        self.batches.push(Batch {
            deleted,
            forced,
            ..Batch::new(id, changed.len())
        });
        id
    }

    /// Adds a file to a batch. Returns whether a read must begin: not if an earlier one has not returned.
    pub(super) fn reading_in(&mut self, id: &DocumentId, batch: u64) -> bool {
        let is_stuck = match self.reading.get_mut(id) {
            None => {
                let reading = Reading {
                    batch: Some(batch),
                    again: false,
                };
                self.reading.insert(DocumentId::clone(id), reading);
                self.wait(id, batch);
                return true;
            }
            Some(reading) => {
                reading.again = true;
                let is_stuck = reading.batch.is_none();
                if !is_stuck {
                    reading.batch = Some(batch);
                }
                is_stuck
            }
        };
        if !is_stuck {
            self.wait(id, batch);
        }
        false
    }

    pub(super) fn wait(&mut self, id: &DocumentId, batch: u64) {
        if let Some(batch) = self.batches.iter_mut().find(|b| b.id == batch) {
            batch.waiting.insert(DocumentId::clone(id));
        }
    }

    pub(super) fn all_complete(&self) -> bool {
        self.batches.iter().all(|batch| batch.waiting.is_empty())
    }

    /// Makes one batch of all.
    pub(super) fn merge(&mut self) {
        let mut batches = self.batches.drain(..);
        if let Some(mut first) = batches.next() {
            for batch in batches {
                first.read.extend(batch.read);
                first.deleted.extend(batch.deleted);
                first.forced |= batch.forced;
            }
            self.batches.push(first);
        }
    }

    pub(super) fn take_complete(&mut self) -> Option<Batch> {
        let at = self.batches.iter().position(|b| b.waiting.is_empty())?;
        Some(self.batches.remove(at))
    }
}

impl Batch {
    pub(super) fn new(id: u64, total: usize) -> Self {
        Self {
            id,
            began: Instant::now(),
            waiting: BTreeSet::new(),
            total,
            read: Vec::new(),
            deleted: Vec::new(),
            forced: false,
        }
    }
}
