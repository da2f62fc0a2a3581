//! SotW: all there is.

use std::sync::Arc;

use oxds_types::Version;

use super::{All, Step};
use crate::{
    session::{
        frame::Response,
        watch::{
            Watch,
            response::{Content, Draft, Kept},
        },
    },
    snapshot::{Form, Protocol, Resource, ResourceSet, TypeSnapshot},
};

/// A full state as one client is told it.
struct Whole<'a> {
    /// What it refused, and is not told again.
    refused: Vec<(&'a Arc<str>, &'a Version)>,
    /// What stays in the place of that, and what is held.
    besides: Vec<&'a Arc<Resource>>,
}

impl Whole<'_> {
    fn version(&self, to: &ResourceSet) -> Version {
        let mut fingerprint = to.fingerprint();
        for (name, version) in &self.refused {
            fingerprint.remove(name, version);
        }
        for copy in &self.besides {
            fingerprint.add(copy.name(), &copy.version());
        }
        fingerprint.version()
    }

    fn response(&self, head: &TypeSnapshot, form: Form) -> Response {
        let mut response = Response::new(Protocol::Sotw);
        if self.refused.is_empty() {
            let bodies = head.full(form);
            bodies.iter().for_each(|body| response.push_body(body));
        } else {
            let names = self.refused.iter().map(|(name, _)| *name);
            let pieces = head.full_without(form, names);
            pieces.iter().for_each(|body| response.push_body(body));
        }
        for copy in &self.besides {
            response.push_element(copy.element(form));
        }
        response
    }
}

impl Watch {
    fn whole(&self, to: &ResourceSet) -> Whole<'_> {
        let held = self.held.values().map(|held| &held.resource);
        let mut whole = Whole {
            refused: Vec::new(),
            besides: held.collect(),
        };
        for (name, rejected) in &self.record.rejections {
            if let Some(instead) = rejected.instead_of(to.get(name)) {
                whole.refused.push((name, &rejected.what.version));
                whole.besides.extend(instead);
            }
        }
        whole
    }

    /// SotW: all there is, and what is held besides (S-1, S-3 … S-5). Absence is removal.
    pub(super) fn tell_whole(
        &mut self,
        all: &mut All,
        head: &TypeSnapshot,
        step: Step,
        released: &[Arc<str>],
        replaced: Vec<Arc<Resource>>,
    ) -> Option<Draft> {
        let to = head.collection();
        let asked = self.answer_owed || !self.due.is_empty() || matches!(step, Step::Everything);
        if !asked && released.is_empty() && step.is_empty() {
            all.advance(to);
            return None;
        }
        let whole = self.whole(to);
        let version = whole.version(to);
        if !asked && all.version == Some(version) && !(self.form.ttl && step.changes_a_ttl()) {
            all.advance(to);
            return None;
        }
        let response = whole.response(head, self.form);
        let rejections = self.record.rejections.iter_mut();
        rejections.for_each(|(name, rejected)| rejected.supersede(to.get(name)));
        self.due.clear();
        all.cursor = Some(Arc::clone(to));
        all.version = Some(version);
        let held = self.held.values().map(|held| Arc::clone(&held.resource));
        let kept = Kept {
            held: held.collect(),
            replaced,
        };
        let rewarm = match &step {
            Step::Since(_) => self.rewarmed(step.updates(to)),
            // On a new stream, the client asks for the assignments again anyway.
            Step::None | Step::Everything => Vec::new(),
        };
        let content = Content::All {
            to: Arc::clone(to),
            completes: true,
            step,
            part: 0..usize::MAX,
            extra: Vec::new(),
        };
        Some(Draft {
            response,
            version,
            content,
            kept,
            rewarm,
        })
    }
}
