//! Watches: what an application reads.

use std::any::type_name;
use std::marker::PhantomData;
use std::sync::Arc;

use oxds_core::ads::{ClientEvent, WatchError, WatchErrorReason};
use oxds_core::resource::{ParsedResource, Typed};
use oxds_types::ResourceType;

use super::Watches;

/// A word on a watched resource (gRFC A88).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Update<T> {
    /// This replaces what was there: the resource, or why there is none.
    Changed(Result<T, WatchError>),
    /// What was there stays in use; it may be old (an error), or is known to be current again (`None`).
    Ambient(Option<WatchError>),
}

/// Follows one resource of any kind, whose bytes it has. Dropping it ends the watch.
#[derive(Debug)]
pub struct RawWatch {
    watches: Watches,
    resource_type: ResourceType,
    name: Arc<str>,
}

impl RawWatch {
    pub(super) fn new(watches: Watches, resource_type: ResourceType, name: Arc<str>) -> Self {
        Self {
            watches,
            resource_type,
            name,
        }
    }

    /// The resource's kind.
    #[must_use]
    pub fn resource_type(&self) -> &ResourceType {
        &self.resource_type
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
    pub async fn next(&mut self) -> Option<Update<ParsedResource>> {
        word(self.watches.next().await?).map(|(_, update)| update)
    }
}

/// Follows one resource as a type. Dropping it ends the watch.
#[derive(Debug)]
pub struct Watch<T> {
    raw: RawWatch,
    read_as: PhantomData<fn() -> T>,
}

impl<T: Typed> Watch<T> {
    pub(super) fn new(raw: RawWatch) -> Self {
        Self {
            raw,
            read_as: PhantomData,
        }
    }

    /// The next word, as [`RawWatch::next`] has it. All watches of a resource share what was read of it.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<Update<Arc<T>>> {
        let update = self.raw.next().await?;
        Some(typed(&self.raw.watches, &self.raw.name, update))
    }
}

/// Follows all resources of a kind, or those of an `xdstp` collection. Dropping it ends the watch.
#[derive(Debug)]
pub struct WatchAll<T> {
    watches: Watches,
    read_as: PhantomData<fn() -> T>,
}

impl<T: Typed> WatchAll<T> {
    pub(super) fn new(watches: Watches) -> Self {
        Self {
            watches,
            read_as: PhantomData,
        }
    }

    /// The next word, and the resource that it is on; what concerns the whole has the name that was watched. As with
    /// [`RawWatch::next`], newer words replace those that were not read.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<(Arc<str>, Update<Arc<T>>)> {
        let (name, update) = word(self.watches.next().await?)?;
        let update = typed(&self.watches, &name, update);
        Some((name, update))
    }
}

/// `None` for what is not for watchers: the client's task keeps it from them.
fn word(event: ClientEvent) -> Option<(Arc<str>, Update<ParsedResource>)> {
    match event {
        ClientEvent::Changed { name, resource, .. } => Some((name, Update::Changed(resource))),
        ClientEvent::Ambient { name, error, .. } => Some((name, Update::Ambient(error))),
        ClientEvent::DeletionIgnored { .. } => None,
    }
}

fn typed<T: Typed>(
    watches: &Watches,
    name: &str,
    update: Update<ParsedResource>,
) -> Update<Arc<T>> {
    match update {
        Update::Ambient(error) => Update::Ambient(error),
        Update::Changed(Err(error)) => Update::Changed(Err(error)),
        Update::Changed(Ok(resource)) => Update::Changed(resource.get().ok_or_else(|| {
            // It was accepted before anybody watched it as this type.
            let (resource_type, node_id) =
                (T::resource_type(), &watches.client.bootstrap().node().id);
            let (message, read_as) = (resource_type.message(), type_name::<T>());
            let text =
                format!("{message} {name:?} is held, but is no valid {read_as} [node {node_id:?}]");
            WatchError::new(WatchErrorReason::Invalid, text)
        })),
    }
}
