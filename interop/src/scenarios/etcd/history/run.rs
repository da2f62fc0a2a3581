//! Record and figures of a run, which its tasks share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::figures::Figures;
use super::record::Record;
use crate::Fallible;

/// Record and figures of a run, and the first error of its writers.
#[derive(Debug, Default)]
pub(super) struct Run {
    pub(super) record: Record,
    pub(super) figures: Figures,
    error: Option<String>,
}

impl Run {
    pub(super) fn fail(&mut self, error: String) {
        self.error.get_or_insert(error);
    }

    pub(super) fn check(&self) -> Fallible {
        match &self.error {
            None => Ok(()),
            Some(error) => Err(error.clone().into()),
        }
    }
}

/// Handle of all tasks.
#[derive(Clone, Debug, Default)]
pub(super) struct Shared(Arc<Mutex<Run>>);

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, Run> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
