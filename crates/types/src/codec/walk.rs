//! What is known while a document is read: where we are, and what was found so far.

use std::cell::{Cell, RefCell};

use serde::de;

use super::resource::Draft;
use crate::ResourceType;
use crate::error::Reason;
use crate::path::{Path, Step};

/// Messages nest at most this deep: prost, and so every Rust client, decodes no deeper.
const MAX_DEPTH: usize = 100;
/// Findings beyond this number are not reported: one mistake can be repeated a million times.
const MAX_FINDINGS: usize = 100;

/// The state of reading one document. Visitors share it by reference.
#[derive(Debug, Default)]
pub(super) struct Walk {
    path: RefCell<Path>,
    depth: Cell<usize>,
    findings: RefCell<Vec<Finding>>,
    /// Why reading stopped, when it was we who stopped it.
    stopped: RefCell<Option<Reason>>,
}

/// Something to report, the place not yet known as line and column.
#[derive(Debug, Clone)]
pub(super) struct Finding {
    pub(super) path: Path,
    pub(super) resource: Option<(ResourceType, String)>,
    pub(super) reason: Reason,
}

impl Walk {
    /// Runs `inner` one step further in. On an error the path stays where it was met.
    pub(super) fn at<T, E>(
        &self,
        step: Step,
        inner: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        self.path.borrow_mut().push(step);
        let value = inner()?;
        self.path.borrow_mut().pop();
        Ok(value)
    }

    /// Runs `inner` inside one more message.
    pub(super) fn nested<T, E: de::Error>(
        &self,
        inner: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        if self.depth.get() >= MAX_DEPTH {
            let limit = format!("messages are nested more than {MAX_DEPTH} deep");
            return Err(self.stop(Reason::TooLarge(limit)));
        }
        self.depth.set(self.depth.get() + 1);
        let value = inner()?;
        self.depth.set(self.depth.get() - 1);
        Ok(value)
    }

    /// Notes a finding here, and goes on.
    pub(super) fn note(&self, reason: Reason) {
        let path = self.path.borrow().clone();
        self.note_at(path, reason);
    }

    /// Notes a finding about a field of the message that we are in.
    pub(super) fn note_field(&self, step: Step, reason: Reason) {
        let mut path = self.path.borrow().clone();
        path.push(step);
        self.note_at(path, reason);
    }

    /// Notes a finding elsewhere.
    pub(super) fn note_at(&self, path: Path, reason: Reason) {
        let mut findings = self.findings.borrow_mut();
        if findings.len() < MAX_FINDINGS {
            findings.push(Finding {
                path,
                resource: None,
                reason,
            });
        }
    }

    /// The error that ends the reading here.
    pub(super) fn stop<E: de::Error>(&self, reason: Reason) -> E {
        let error = E::custom(&reason);
        *self.stopped.borrow_mut() = Some(reason);
        error
    }

    pub(super) fn path(&self) -> Path {
        self.path.borrow().clone()
    }

    /// How many findings there are.
    pub(super) fn mark(&self) -> usize {
        self.findings.borrow().len()
    }

    /// The findings since `mark` are about this resource.
    pub(super) fn attribute(&self, mark: usize, draft: &Draft) {
        let Some(name) = draft.name() else {
            return;
        };
        for finding in self.findings.borrow_mut().iter_mut().skip(mark) {
            let resource = || (draft.resource_type(), name.to_owned());
            finding.resource.get_or_insert_with(resource);
        }
    }

    /// All findings; with them the reason for which we stopped, if we did, and where.
    pub(super) fn finish(self) -> (Vec<Finding>, Path, Option<Reason>) {
        (
            self.findings.into_inner(),
            self.path.into_inner(),
            self.stopped.into_inner(),
        )
    }
}
