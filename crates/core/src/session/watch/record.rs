//! What is known of the client's answers, and of what it refused.
//!
//! A rejection matters beyond the status page: a SotW full state cannot leave a refused resource out without removing
//! what the client may have instead, nor keep it in without sending refused content twice. So it is remembered what
//! the client goes on with, [`Fallback`], and that is what a full state carries in its place.

use std::{collections::BTreeMap, sync::Arc};

use oxds_types::Version;

use crate::{
    session::{Nack, NackedResource},
    snapshot::Resource,
    time::Instant,
};

/// What the client answered.
#[derive(Debug, Default)]
pub(in crate::session) struct Record {
    pub(in crate::session) sent: Option<Version>,
    pub(in crate::session) acked: Option<Version>,
    pub(in crate::session) acked_at: Option<Instant>,
    pub(in crate::session) nack: Option<Nack>,
    pub(in crate::session) acks: u64,
    pub(in crate::session) nacks: u64,
    /// What was rejected and not replaced since: small, as rejections are rare.
    pub(in crate::session) rejections: BTreeMap<Arc<str>, Rejected>,
}

/// A rejection, and what the client goes on with.
#[derive(Debug)]
pub(in crate::session) struct Rejected {
    pub(in crate::session) what: NackedResource,
    /// The client's message names it, so it alone is meant; else it is one of several suspects.
    pub(super) certain: bool,
    pub(in crate::session) fallback: Fallback,
    /// Other content was sent since, or the same because it was asked for, and not answered: the client may have that by now.
    pub(super) superseded: bool,
}

/// What a client has in place of what it rejected.
#[derive(Debug, Clone)]
pub(in crate::session) enum Fallback {
    /// What it accepted before.
    Resource(Arc<Resource>),
    /// Nothing: it accepted a state in which there was none.
    Nothing,
    /// Perhaps something from an earlier stream.
    Unknown,
}

impl Fallback {
    pub(in crate::session) fn resource(&self) -> Option<&Arc<Resource>> {
        match self {
            Self::Resource(resource) => Some(resource),
            Self::Nothing | Self::Unknown => None,
        }
    }
}

impl From<Option<Arc<Resource>>> for Fallback {
    fn from(accepted: Option<Arc<Resource>>) -> Self {
        accepted.map_or(Self::Nothing, Self::Resource)
    }
}

impl Rejected {
    /// What a full state says of this resource so that the rejected content is not sent twice (S-80): what the client
    /// goes on with. `None`: what there is. Nothing may be left out that the client may have: that would remove it.
    pub(super) fn instead_of(
        &self,
        there_is: Option<&Arc<Resource>>,
    ) -> Option<Option<&Arc<Resource>>> {
        let known = !matches!(self.fallback, Fallback::Unknown);
        (self.is_of(there_is) && self.certain && known && !self.superseded)
            .then_some(self.fallback.resource())
    }

    /// Whether this is what was rejected.
    pub(super) fn is_of(&self, there_is: Option<&Arc<Resource>>) -> bool {
        there_is.is_some_and(|there_is| there_is.version() == self.what.version)
    }

    /// The client asks for it again, whatever it thought of it.
    pub(super) fn ask_again(&mut self) {
        self.superseded = true;
    }

    /// A full state tells the client `there_is`.
    pub(super) fn supersede(&mut self, there_is: Option<&Arc<Resource>>) {
        self.superseded |= !self.is_of(there_is);
    }
}
