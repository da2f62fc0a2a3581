//! State of one NACKed resource.
//!
//! ```text
//!            NACK                    other content, or the same on request, is sent
//!   (none) ────────▶ not sent again ──────────────────────────────────────────────▶ superseded
//!      ▲                                                                               │
//!      └───────────────────────────────── ACK ─────────────────────────────────────────┘
//! ```

use std::sync::Arc;

use oxds_types::Version;

use crate::{snapshot::Resource, time::Instant};

/// NACK of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nack {
    /// Version of the response.
    pub version: Version,
    /// Message of the client, at most 4 KiB.
    pub reason: Arc<str>,
    /// Time at which it arrived.
    pub at: Instant,
}

/// Resource that the client NACKed, as far as the message of the NACK or isolation shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NackedResource {
    /// Version of the content; if the removal was NACKed, of the copy that the client keeps.
    pub version: Version,
    /// Whether the client NACKed the removal. Delta only: in SotW a removal is the absence of the resource.
    pub removal: bool,
    /// Message of the client, at most 4 KiB.
    pub reason: Arc<str>,
    /// Time at which the NACK arrived.
    pub at: Instant,
}

/// One NACKed resource. Dropped once the client accepts other content of its name.
#[derive(Debug)]
pub(crate) struct NackedState {
    pub(crate) what: NackedResource,
    /// A full state does not carry the content. False for suspects that are not isolated: one of them was NACKed.
    pub(crate) is_withheld: bool,
    pub(crate) in_use: InUse,
    /// Other content was sent since, or the same on request, and is not answered: the client may use that by now.
    pub(crate) superseded: bool,
}

/// Content that a client uses in place of the NACKed content. A SotW full state can neither leave a NACKed resource
/// out, since that removes what the client may use instead, nor carry it, since content is not sent again after a NACK.
/// So it carries what the client uses.
#[derive(Debug, Clone, PartialEq)]
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

    pub(crate) fn is_known(&self) -> bool {
        !matches!(self, Self::Unknown)
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
        let is_left_out = self.is_of(current) && self.is_withheld && !self.superseded;
        (is_left_out && self.in_use.is_known()).then_some(self.in_use.resource())
    }

    /// Whether `current` is what was NACKed: the content, or the absence.
    pub(crate) fn is_of(&self, current: Option<&Arc<Resource>>) -> bool {
        match current {
            Some(current) => !self.what.removal && current.version() == self.what.version,
            None => self.what.removal,
        }
    }

    /// The client subscribed again, or the content is tested again: it is sent again.
    pub(crate) fn send_again(&mut self) {
        self.superseded = true;
    }

    /// A full state with `current` is sent.
    pub(crate) fn supersede(&mut self, current: Option<&Arc<Resource>>) {
        self.superseded |= !self.is_of(current);
    }
}

#[cfg(test)]
mod tests {
    use oxds_types::ResourceType;

    use super::*;

    fn resource(content: &[u8]) -> Arc<Resource> {
        Arc::new(Resource::new(ResourceType::CLUSTER, "a", content))
    }

    fn nacked(version: Version, in_use: InUse) -> NackedState {
        NackedState {
            what: NackedResource {
                version,
                removal: false,
                reason: "no".into(),
                at: Instant::EPOCH,
            },
            is_withheld: true,
            in_use,
            superseded: false,
        }
    }

    #[test]
    fn s80_nacked_content_is_replaced_until_it_is_superseded() {
        let (old, bad, new) = (resource(b"old"), resource(b"bad"), resource(b"new"));
        let mut state = nacked(bad.version(), Some(Arc::clone(&old)).into());
        assert_eq!(state.substitute(Some(&bad)), Some(Some(&old)));
        assert_eq!(state.substitute(Some(&new)), None, "other content is sent");
        state.supersede(Some(&bad));
        assert_eq!(state.substitute(Some(&bad)), Some(Some(&old)));
        state.supersede(Some(&new));
        assert_eq!(state.substitute(Some(&bad)), None);
    }

    #[test]
    fn s80_unknown_copy_is_not_removed() {
        let bad = resource(b"bad");
        let state = nacked(bad.version(), InUse::Unknown);
        assert_eq!(state.substitute(Some(&bad)), None);
        let state = nacked(bad.version(), InUse::Nothing);
        assert_eq!(state.substitute(Some(&bad)), Some(None));
    }

    #[test]
    fn nacked_removal_is_that_of_an_absent_resource() {
        let copy = resource(b"copy");
        let mut state = nacked(copy.version(), Some(Arc::clone(&copy)).into());
        state.what.removal = true;
        assert!(state.is_of(None) && !state.is_of(Some(&copy)));
    }
}
