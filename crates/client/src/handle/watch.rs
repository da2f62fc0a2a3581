//! Watches, as an application reads them.
//!
//! ```text
//!  driver ── WatchEvent ─► WatcherQueue ─► WatchSet ─► Watch<T>, WatchAll<T>, RawWatch, RawWatchAll, ConfigWatch
//!                          newest update per resource
//! ```

use std::any::type_name;
use std::marker::PhantomData;
use std::sync::Arc;

use oxds_core::ads::{WatchError, WatchErrorReason};
use oxds_core::resource::Typed;
use oxds_types::ResourceType;

use super::watch_set::WatchSet;
use crate::update::{RawResource, Update};

/// Watch of one resource of any type, as bytes. Dropping it ends the watch.
#[derive(Debug)]
pub struct RawWatch {
    watches: WatchSet,
    resource_type: ResourceType,
    name: Arc<str>,
}

impl RawWatch {
    pub(crate) fn new(watches: WatchSet, resource_type: ResourceType, name: Arc<str>) -> Self {
        Self {
            watches,
            resource_type,
            name,
        }
    }

    /// Returns the type of the resource.
    #[must_use]
    pub fn resource_type(&self) -> &ResourceType {
        &self.resource_type
    }

    /// Returns the name of the resource.
    #[must_use]
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Waits for the next update. A newer update replaces one that was not read in time. Returns `None` when the
    /// runtime of the client has stopped.
    ///
    /// # Cancel safety
    /// Dropping the future loses no update.
    pub async fn next(&mut self) -> Option<Update<RawResource>> {
        let (_, update) = self.watches.next().await?.into_update();
        Some(update)
    }
}

/// Watch of one resource as a type. Dropping it ends the watch.
#[derive(Debug)]
pub struct Watch<T> {
    raw: RawWatch,
    read_as: PhantomData<fn() -> T>,
}

impl<T: Typed> Watch<T> {
    pub(crate) fn new(raw: RawWatch) -> Self {
        Self {
            raw,
            read_as: PhantomData,
        }
    }

    /// Waits for the next update, as [`RawWatch::next`] does. All watches of a resource share one decoded value.
    ///
    /// # Cancel safety
    /// Dropping the future loses no update.
    pub async fn next(&mut self) -> Option<Update<Arc<T>>> {
        let update = self.raw.next().await?;
        Some(typed(&self.raw.watches, &self.raw.name, update))
    }
}

/// Watch of all resources of a type, or of those in an `xdstp` collection. Dropping it ends the watch.
#[derive(Debug)]
pub struct WatchAll<T> {
    watches: WatchSet,
    read_as: PhantomData<fn() -> T>,
}

impl<T: Typed> WatchAll<T> {
    pub(crate) fn new(watches: WatchSet) -> Self {
        Self {
            watches,
            read_as: PhantomData,
        }
    }

    /// Waits for the next update. Returns it with the name of its resource; an update about the whole collection has
    /// the name that was watched. A newer update of a resource replaces one that was not read in time. Returns `None`
    /// when the runtime of the client has stopped.
    ///
    /// # Cancel safety
    /// Dropping the future loses no update.
    pub async fn next(&mut self) -> Option<(Arc<str>, Update<Arc<T>>)> {
        let (name, update) = self.watches.next().await?.into_update();
        let update = typed(&self.watches, &name, update);
        Some((name, update))
    }
}

/// Watch of all resources of a type, or of those in an `xdstp` collection, as bytes: what a relay needs. Dropping it
/// ends the watch.
#[derive(Debug)]
pub struct RawWatchAll {
    watches: WatchSet,
    resource_type: ResourceType,
}

impl RawWatchAll {
    pub(crate) fn new(watches: WatchSet, resource_type: ResourceType) -> Self {
        Self {
            watches,
            resource_type,
        }
    }

    /// Returns the type of the resources.
    #[must_use]
    pub fn resource_type(&self) -> &ResourceType {
        &self.resource_type
    }

    /// Waits for the next update. Returns it with the name of its resource; an update about the whole collection has
    /// the name that was watched. A newer update of a resource replaces one that was not read in time. Returns `None`
    /// when the runtime of the client has stopped.
    ///
    /// An update comes when the bytes of a resource change; a response that changes only its version or its TTL causes
    /// none. A deleted resource comes as [`Update::Changed`] with an error of reason
    /// [`DoesNotExist`](crate::WatchErrorReason::DoesNotExist).
    ///
    /// # Cancel safety
    /// Dropping the future loses no update.
    pub async fn next(&mut self) -> Option<(Arc<str>, Update<RawResource>)> {
        Some(self.watches.next().await?.into_update())
    }
}

fn typed<T: Typed>(watches: &WatchSet, name: &str, update: Update<RawResource>) -> Update<Arc<T>> {
    match update {
        Update::Ambient(error) => Update::Ambient(error),
        Update::Changed(Err(error)) => Update::Changed(Err(error)),
        Update::Changed(Ok(resource)) => Update::Changed(resource.get().ok_or_else(|| {
            // The resource was accepted before this type was registered, and is invalid as this type.
            let message = T::resource_type();
            let (message, read_as) = (message.message(), type_name::<T>());
            let node_id = watches.node_id();
            let text = format!(
                "{message} {name:?} is cached, but is no valid {read_as} [node {node_id:?}]"
            );
            WatchError::new(WatchErrorReason::Invalid, text)
        })),
    }
}
