//! Watches: what an application reads.

use std::marker::PhantomData;
use std::sync::Arc;

use oxds_core::ads::{Event, WatchError};
use oxds_core::resource::{Resource, View};
use oxds_types::Kind;

use super::Watches;

/// A word on a watched resource (gRFC A88).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Update<T> {
    /// This replaces what was there: the resource, or why there is none.
    Changed(Result<T, WatchError>),
    /// What was there stays in use; it may be old (an error), or is known to be current again (`None`).
    Ambient(Option<WatchError>),
}

/// Follows one resource of any kind. Dropping it ends the watch.
#[derive(Debug)]
pub struct RawWatch {
    watches: Watches,
    kind: Kind,
    name: Arc<str>,
}

impl RawWatch {
    pub(super) fn new(watches: Watches, kind: Kind, name: Arc<str>) -> Self {
        Self {
            watches,
            kind,
            name,
        }
    }

    /// The resource's kind.
    #[must_use]
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The next word; words that were not read in time are replaced by newer ones. `None` when the client's runtime
    /// is gone.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<Update<Resource>> {
        match self.watches.next().await? {
            Event::Changed { resource, .. } => Some(Update::Changed(resource)),
            Event::Ambient { error, .. } => Some(Update::Ambient(error)),
            Event::DeletionIgnored { .. } => None,
        }
    }
}

/// Follows one resource. Dropping it ends the watch.
#[derive(Debug)]
pub struct Watch<T> {
    raw: RawWatch,
    view: PhantomData<fn() -> T>,
}

impl<T: View> Watch<T> {
    pub(super) fn new(raw: RawWatch) -> Self {
        Self {
            raw,
            view: PhantomData,
        }
    }

    /// The next word, as [`RawWatch::next`] has it.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<Update<Arc<T>>> {
        loop {
            match self.raw.next().await? {
                Update::Ambient(error) => return Some(Update::Ambient(error)),
                Update::Changed(Err(error)) => return Some(Update::Changed(Err(error))),
                Update::Changed(Ok(resource)) => {
                    // The client parses by kind, so the view is of this one.
                    if let Some(view) = T::from_resource(&resource) {
                        return Some(Update::Changed(Ok(Arc::clone(view))));
                    }
                }
            }
        }
    }
}
