//! Resources that the client NACKed, and what it uses in their place.
//!
//! A SotW full state can neither leave a NACKed resource out, since that removes what the client may use instead, nor
//! carry it, since content is not sent again after a NACK. So it carries what the client uses: [`InUse`].

use std::sync::Arc;

use crate::{session::NackedResource, snapshot::Resource};

/// One NACKed resource. Dropped once the client accepts other content of its name.
#[derive(Debug)]
pub(crate) struct NackedState {
    pub(crate) what: NackedResource,
    /// The NACK names this resource. Otherwise it is one of several suspects.
    pub(crate) certain: bool,
    pub(crate) in_use: InUse,
    /// Other content was sent since, or the same on request, and is not answered: the client may use that by now.
    pub(crate) superseded: bool,
}

/// Content that a client uses in place of the NACKed content.
#[derive(Debug, Clone)]
pub(crate) enum InUse {
    /// Content that it accepted before.
    Resource(Arc<Resource>),
    /// Nothing: it accepted a state without this name.
    Nothing,
    /// Perhaps something from an earlier stream.
    Unknown,
}

impl InUse {
    pub(crate) fn resource(&self) -> Option<&Arc<Resource>> {
        match self {
            Self::Resource(resource) => Some(resource),
            Self::Nothing | Self::Unknown => None,
        }
    }
}

impl From<Option<Arc<Resource>>> for InUse {
    fn from(accepted: Option<Arc<Resource>>) -> Self {
        accepted.map_or(Self::Nothing, Self::Resource)
    }
}

impl NackedState {
    /// Content of a full state in place of `current`, so that NACKed content is not sent twice (S-80): `Some` is what
    /// the client uses, or nothing. `None`: `current` itself, since the client may use something that leaving it out
    /// would remove.
    pub(crate) fn substitute(
        &self,
        current: Option<&Arc<Resource>>,
    ) -> Option<Option<&Arc<Resource>>> {
        let known = !matches!(self.in_use, InUse::Unknown);
        (self.is_of(current) && self.certain && known && !self.superseded)
            .then_some(self.in_use.resource())
    }

    /// Whether `current` is the content that was NACKed.
    pub(crate) fn is_of(&self, current: Option<&Arc<Resource>>) -> bool {
        current.is_some_and(|current| current.version() == self.what.version)
    }

    /// The client subscribed again, so the content is sent again.
    pub(crate) fn ask_again(&mut self) {
        self.superseded = true;
    }

    /// A full state with `current` is sent.
    pub(crate) fn supersede(&mut self, current: Option<&Arc<Resource>>) {
        self.superseded |= !self.is_of(current);
    }
}
