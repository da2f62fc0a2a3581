//! State of reading one document: the current field path, the depth, and the findings so far.

use std::cell::{Cell, RefCell};

use prost_reflect::DynamicMessage;
use serde::de;

use super::notice::{About, Notice};
use super::resource::{Draft, Options};
use crate::ResourceType;
use crate::advice::{ClientFacts, advise};
use crate::depth::{MAX_DEPTH, TooDeep};
use crate::error::Reason;
use crate::name::canonical;
use crate::path::{FieldPath, Step};
use crate::schema::Message;

/// Errors beyond this number are not reported: a document can repeat one error a million times.
const MAX_FINDINGS: usize = 100;
/// Accepted unknown fields and advice of a resource beyond this number are not reported.
const MAX_UNKNOWN: usize = 100;

/// The walk through a document, and how strictly it is read. All deserialization seeds carry it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) walk: &'a Walk,
    pub(super) options: &'a Options,
}

impl Context<'_> {
    /// Records advice about the resource at `path`, with its encoding.
    pub(super) fn advise(
        self,
        schema: &'static Message,
        message: &DynamicMessage,
        value: &[u8],
        path: &mut FieldPath,
    ) {
        if !self.walk.is_noticing {
            return;
        }
        let known = ClientFacts {
            providers: self.options.certificate_providers.as_ref(),
            grpc: self.options.grpc_rules.as_ref(),
        };
        advise(schema, message, value, path, known, &mut |path, advice| {
            self.walk
                .notice_with(About::Advice(advice), || path.clone());
        });
    }
}

/// State of reading one document. Visitors share it by reference.
#[derive(Debug, Default)]
pub(super) struct Walk {
    path: RefCell<FieldPath>,
    depth: Cell<usize>,
    findings: RefCell<Vec<Finding>>,
    /// Whether deprecated and unfinished elements are noticed, and advice.
    pub(super) is_noticing: bool,
    /// Notices since the last resource.
    notices: RefCell<Vec<Notice>>,
    /// Reason for which this crate stopped the parser; `None` while it did not.
    stopped: RefCell<Option<Reason>>,
}

/// The result of a walk.
#[derive(Debug)]
pub(super) struct Walked {
    pub(super) findings: Vec<Finding>,
    /// Notices that are about no resource.
    pub(super) notices: Vec<Notice>,
    /// Path at which reading stopped.
    pub(super) path: FieldPath,
    /// Reason if this crate stopped the parser.
    pub(super) stopped: Option<Reason>,
}

/// An error at a field path. Its line and column are not known yet.
#[derive(Debug, Clone)]
pub(super) struct Finding {
    pub(super) path: FieldPath,
    pub(super) resource: Option<(ResourceType, String)>,
    pub(super) reason: Reason,
}

impl Walk {
    pub(super) fn new(options: &Options) -> Self {
        Self {
            is_noticing: options.check_life_cycle,
            ..Self::default()
        }
    }

    /// Runs `inner` one step further in. On an error the path stays where the error occurred.
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
            return Err(self.stop(Reason::too_deep()));
        }
        self.depth.set(self.depth.get() + 1);
        let value = inner()?;
        self.depth.set(self.depth.get() - 1);
        Ok(value)
    }

    /// Records a finding at the current path.
    pub(super) fn note(&self, reason: Reason) {
        let path = self.path.borrow().clone();
        self.note_at(path, reason);
    }

    /// Records a finding about a field of the current message.
    pub(super) fn note_field(&self, step: Step, reason: Reason) {
        let mut path = self.path.borrow().clone();
        path.push(step);
        self.note_at(path, reason);
    }

    /// Records a finding at another path.
    pub(super) fn note_at(&self, path: FieldPath, reason: Reason) {
        let mut findings = self.findings.borrow_mut();
        if findings.len() < MAX_FINDINGS {
            findings.push(Finding {
                path,
                resource: None,
                reason,
            });
        }
    }

    /// Records a notice at the current path.
    pub(super) fn notice(&self, about: impl Into<About>) {
        self.notice_with(about.into(), || self.path());
    }

    /// Records a notice about a field of the current message, or about the message itself.
    pub(super) fn notice_field(&self, step: Option<Step>, about: impl Into<About>) {
        self.notice_with(about.into(), || {
            let mut path = self.path();
            step.into_iter().for_each(|step| path.push(step));
            path
        });
    }

    /// Records a notice at another path, which is copied only for the first use.
    pub(super) fn notice_with(&self, about: About, path: impl FnOnce() -> FieldPath) {
        let mut notices = self.notices.borrow_mut();
        // Advice is about one place, also where the text is the same.
        let is_of_place = matches!(about, About::Advice(_));
        let mut known = notices.iter_mut().filter(|_| !is_of_place);
        if let Some(known) = known.find(|notice| notice.about == about) {
            known.count += 1;
            return;
        }
        // The API has some hundred marked elements, but a document can invent any number of fields and of equal rules.
        let is_unlimited = matches!(about, About::UnknownField { .. } | About::Advice(_));
        if is_unlimited && notices.len() >= MAX_UNKNOWN {
            return;
        }
        notices.push(Notice {
            about,
            path: path(),
            count: 1,
        });
    }

    /// Takes the notices since the last resource, which has been read.
    pub(super) fn take_notices(&self) -> Vec<Notice> {
        std::mem::take(&mut *self.notices.borrow_mut())
    }

    /// Returns the error that ends the reading here.
    pub(super) fn stop<E: de::Error>(&self, reason: Reason) -> E {
        let error = E::custom(&reason);
        *self.stopped.borrow_mut() = Some(reason);
        error
    }

    /// Returns the reason for which reading ends at the message at `path`, which nests too deep.
    pub(super) fn stop_too_deep(&self, mut path: FieldPath, deep: TooDeep) -> Reason {
        deep.extend(&mut path);
        *self.path.borrow_mut() = path;
        *self.stopped.borrow_mut() = Some(Reason::too_deep());
        Reason::too_deep()
    }

    pub(super) fn path(&self) -> FieldPath {
        self.path.borrow().clone()
    }

    /// Returns the number of findings so far.
    pub(super) fn mark(&self) -> usize {
        self.findings.borrow().len()
    }

    /// Adds type and name of this resource to the findings since `mark`.
    pub(super) fn attribute(&self, mark: usize, draft: &Draft) {
        let Some(name) = draft.name().map(canonical) else {
            return;
        };
        for finding in self.findings.borrow_mut().iter_mut().skip(mark) {
            let resource = || (draft.resource_type(), name.clone().into_owned());
            finding.resource.get_or_insert_with(resource);
        }
    }

    pub(super) fn finish(self) -> Walked {
        Walked {
            findings: self.findings.into_inner(),
            notices: self.notices.into_inner(),
            path: self.path.into_inner(),
            stopped: self.stopped.into_inner(),
        }
    }
}
