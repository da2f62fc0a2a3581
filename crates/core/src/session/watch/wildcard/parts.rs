//! A response that is too large for one message: what goes now, and what is left (S-50).

use std::{collections::VecDeque, sync::Arc};

use super::Step;
use crate::{
    session::frame::Response,
    snapshot::{Body, ResourceSet},
};

/// The parts of a split response that are still to be sent.
#[derive(Debug)]
pub(in crate::session::watch) struct Rest {
    pub(super) parts: VecDeque<Body>,
    /// How many of the step's resources, and of its removals, went.
    pub(super) resources: usize,
    pub(super) removed: usize,
    pub(super) step: Step,
}

impl Rest {
    /// Puts into a response what fits, of resources and then of removals; what is left comes later.
    pub(super) fn begin(
        response: &mut Response,
        upserts: &Arc<[Body]>,
        removals: Option<&Arc<[Body]>>,
        step: &Step,
        limit: usize,
    ) -> Option<Self> {
        let removals = removals.into_iter().flat_map(|removals| removals.iter());
        let parts = upserts.iter().chain(removals);
        let mut parts = parts.filter(|part| !part.bytes.is_empty()).peekable();
        let first = parts.next()?;
        response.push_body(first);
        if let Some(second) = parts.next_if(|second| first.fits_with(second, limit)) {
            response.push_body(second);
        }
        let parts: VecDeque<Body> = parts.cloned().collect();
        let step = step.clone();
        let (resources, removed) = (response.resources, response.removed);
        (!parts.is_empty()).then_some(Self {
            parts,
            resources,
            removed,
            step,
        })
    }

    /// Puts the next part into a response. What is there (again) is not removed any more: the client keeps its copy
    /// until it is told of the new one.
    pub(super) fn push_next(&mut self, response: &mut Response, there_is: &ResourceSet) {
        let Some(part) = self.parts.pop_front() else {
            return;
        };
        let gone = self.step.difference().into_iter().flat_map(|d| d.changes());
        let gone = gone.filter(|change| change.new.is_none());
        let gone = gone.skip(self.removed).take(part.removed);
        self.resources += part.resources;
        self.removed += part.removed;
        if gone
            .clone()
            .all(|change| there_is.get(&change.name).is_none())
        {
            response.push_body(&part);
            return;
        }
        gone.filter(|change| there_is.get(&change.name).is_none())
            .for_each(|change| response.push_removal(&change.name));
    }
}

/// Removals of names, as far as there is room; the rest is for later.
pub(super) fn push_removals<'a>(
    response: &mut Response,
    names: impl Iterator<Item = &'a Arc<str>>,
    later: &mut Vec<Arc<str>>,
    limit: usize,
) {
    for name in names {
        if response.has_room_to_remove(name, limit) {
            response.push_removal(name);
        } else {
            later.push(Arc::clone(name));
        }
    }
}
