//! A response: before it has a nonce, and until it is answered.

use std::{ops::Range, sync::Arc};

use oxds_types::Version;
use smallvec::SmallVec;

use super::wildcard::Step;
use crate::{
    session::{Nonce, frame::Response},
    snapshot::{Resource, ResourceSet},
    time::Instant,
};

/// A response without an answer.
#[derive(Debug)]
pub(super) struct Outstanding {
    pub(super) nonce: Nonce,
    pub(super) sent_at: Instant,
    pub(super) version: Version,
    pub(super) content: Content,
    pub(super) kept: Kept,
}

impl Outstanding {
    /// What the client has when it has taken it.
    pub(super) fn resources(&self) -> impl Iterator<Item = &Arc<Resource>> {
        let (whole, told) = match &self.content {
            Content::All { to, extra, .. } => (Some(to), &extra[..]),
            Content::Named(told) => (None, &told[..]),
        };
        let whole = whole.into_iter().flat_map(|to| to.iter());
        whole.chain(told.iter().filter_map(Told::resource))
    }
}

/// What was in a response.
#[derive(Debug)]
pub(in crate::session) enum Content {
    /// What brings a client that asked for everything to `to`.
    All {
        to: Arc<ResourceSet>,
        /// Whether it is there now: not while parts of it are still to come.
        completes: bool,
        step: Step,
        /// Which of the step's updates are in it: all, unless it was split.
        part: Range<usize>,
        /// Resources and removals besides.
        extra: Vec<Told>,
    },
    /// Resources and removals by name.
    Named(SmallVec<[Told; 1]>),
}

/// What the client was told about a name.
#[derive(Debug)]
pub(in crate::session) enum Told {
    /// The resource of this name.
    Resource(Arc<Resource>),
    /// That it does not exist.
    Absent(Arc<str>),
}

impl Told {
    pub(in crate::session) fn name(&self) -> &Arc<str> {
        match self {
            Self::Resource(resource) => resource.name(),
            Self::Absent(name) => name,
        }
    }

    pub(in crate::session) fn resource(&self) -> Option<&Arc<Resource>> {
        match self {
            Self::Resource(resource) => Some(resource),
            Self::Absent(_) => None,
        }
    }
}

/// Copies that the client has of what is, or was, held.
#[derive(Debug, Default)]
pub(in crate::session) struct Kept {
    /// SotW: those that are in the response only because their removal is held.
    pub(super) held: Vec<Arc<Resource>>,
    /// Those that the response replaces: they came back in another version while they were held.
    pub(super) replaced: Vec<Arc<Resource>>,
}

/// A response, before it has a nonce.
#[derive(Debug)]
pub(in crate::session) struct Draft {
    pub(in crate::session) response: Response,
    pub(in crate::session) version: Version,
    pub(in crate::session) content: Content,
    pub(in crate::session) kept: Kept,
    /// Assignments whose clusters change with this response (S-54).
    pub(in crate::session) rewarm: Vec<Arc<str>>,
}
