//! Delta responses that exceed the message limit: the parts that are still to be sent (S-50).

use std::{collections::VecDeque, sync::Arc};

use super::step::Step;
use crate::{
    session::response::ResponseBuilder,
    snapshot::{Body, ResourceSet},
};

/// Remaining parts of a split response.
#[derive(Debug)]
pub(crate) struct SplitResponse {
    parts: VecDeque<Body>,
    /// Resources, and removals, of the step that were sent.
    resources: usize,
    removed: usize,
    step: Step,
}

impl SplitResponse {
    /// Writes the resources and then the removals that fit, and returns the rest.
    pub(crate) fn begin(
        response: &mut ResponseBuilder,
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
        (!parts.is_empty()).then(|| Self {
            parts,
            resources: response.resources,
            removed: response.removed,
            step: step.clone(),
        })
    }

    pub(crate) fn step(&self) -> &Step {
        &self.step
    }

    /// Resources of the step that were sent so far.
    pub(crate) fn resources_sent(&self) -> usize {
        self.resources
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.parts.is_empty()
    }

    /// Writes the next part. Leaves out removals of names that exist again: the client keeps its copy until the new
    /// content is sent.
    pub(crate) fn push_next(&mut self, response: &mut ResponseBuilder, current: &ResourceSet) {
        let Some(part) = self.parts.pop_front() else {
            return;
        };
        let removals = self.step.removals().skip(self.removed).take(part.removed);
        self.resources += part.resources;
        self.removed += part.removed;
        if removals.clone().all(|name| current.get(name).is_none()) {
            response.push_body(&part);
            return;
        }
        removals
            .filter(|name| current.get(name).is_none())
            .for_each(|name| response.push_removal(name));
    }
}
