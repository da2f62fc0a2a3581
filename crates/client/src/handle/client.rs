//! Handle of a client: starts watches.

use std::sync::Arc;

use oxds_core::resource::{ResourceParser, Typed};
use oxds_types::ResourceType;

use super::watch::{RawWatch, RawWatchAll, Watch, WatchAll};
use super::watch_set::WatchSet;
use crate::bootstrap::Bootstrap;
use crate::driver::{ClientShared, Command};
use crate::load::LoadReporter;
use crate::options::Options;
use crate::source::{Source, SourceError};
use crate::telemetry::Observers;

/// Handle of a client that watches resources of control planes. Clones share one client.
///
/// A name whose authority has servers of its own is requested there, any other name from the top-level servers (gRFC
/// A47). Of a list of servers, the first is used; if it is unreachable and a watched resource is not cached, the next
/// is used until a more preferred one answers again (gRFC A71). There is one connection per server, for ADS, load
/// reports and retries: it opens when the first watch needs it, and closes when the last such watch ends (C-63).
///
/// # Cancel safety
/// Dropping the last clone and the last watch stops the client's task and closes its sockets.
#[derive(Debug, Clone)]
pub struct XdsClient {
    shared: Arc<ClientShared>,
}

impl XdsClient {
    /// Creates a client of the bootstrap's servers with default [`Options`].
    ///
    /// # Panics
    /// If called outside a tokio runtime.
    #[must_use]
    pub fn new(bootstrap: Arc<Bootstrap>) -> Self {
        Self::with_options(bootstrap, Options::default())
    }

    /// Creates a client of the bootstrap's servers.
    ///
    /// # Panics
    /// If called outside a tokio runtime.
    #[must_use]
    pub fn with_options(bootstrap: Arc<Bootstrap>, options: Options) -> Self {
        ClientShared::new(bootstrap, options, Observers::default()).into()
    }

    pub(crate) fn shared(&self) -> &Arc<ClientShared> {
        &self.shared
    }

    /// Returns the bootstrap of the client.
    #[must_use]
    pub fn bootstrap(&self) -> &Arc<Bootstrap> {
        &self.shared.bootstrap
    }

    /// Returns the load reporter to the client's servers.
    #[must_use]
    pub fn load_reporter(&self) -> &LoadReporter {
        &self.shared.loads
    }

    /// Adds a parser for a resource type: a resource is valid if every registered parser of its type accepts it, and
    /// the error of the first one that does not becomes the detail of the NACK.
    ///
    /// [`watch`](Self::watch) registers the plain type. Call this before it, to add rules to the type.
    pub fn register(&self, parser: ResourceParser) {
        self.shared.send(Command::Register(parser));
    }

    /// Watches one resource as a type: a view of [`oxds_core::resource`], which enforces gRPC's rules, or a generated
    /// message, which enforces none. The resource is decoded once for all its watchers.
    #[must_use]
    pub fn watch<T: Typed>(&self, name: impl Into<Arc<str>>) -> Watch<T> {
        self.register(ResourceParser::of::<T>());
        Watch::new(self.watch_raw(T::resource_type(), name))
    }

    /// Watches one resource of any type, as bytes. The resource is not decoded, unless a parser of its type is
    /// registered.
    #[must_use]
    pub fn watch_raw(&self, resource_type: ResourceType, name: impl Into<Arc<str>>) -> RawWatch {
        let name = name.into();
        let watches = self.watch_set(&resource_type, &name);
        RawWatch::new(watches, resource_type, name)
    }

    /// Watches all resources of a type (`*`), or those of an `xdstp` collection (`xdstp://authority/type/path/*`), as a
    /// type.
    #[must_use]
    pub fn watch_all<T: Typed>(&self, name: impl Into<Arc<str>>) -> WatchAll<T> {
        self.register(ResourceParser::of::<T>());
        WatchAll::new(self.watch_set(&T::resource_type(), &name.into()))
    }

    /// Watches all resources of any type (`*`), or those of an `xdstp` collection (`xdstp://authority/type/path/*`), as
    /// bytes with version and TTL: what a relay needs. The resources are not decoded, unless a parser of their type is
    /// registered.
    ///
    /// ```no_run
    /// use oxds_client::{Update, XdsClient};
    /// use oxds_types::ResourceType;
    ///
    /// # async fn example(client: XdsClient) {
    /// let mut clusters = client.watch_all_raw(ResourceType::CLUSTER, "*");
    /// while let Some((name, update)) = clusters.next().await {
    ///     if let Update::Changed(Ok(resource)) = update {
    ///         println!("{name} {}: {} bytes", resource.version(), resource.value().len());
    ///     }
    /// }
    /// # }
    /// ```
    #[must_use]
    pub fn watch_all_raw(
        &self,
        resource_type: ResourceType,
        name: impl Into<Arc<str>>,
    ) -> RawWatchAll {
        RawWatchAll::new(self.watch_set(&resource_type, &name.into()), resource_type)
    }

    /// Watches one resource as a type, at a [`Source`].
    ///
    /// # Errors
    /// [`SourceError::NoService`] if the source cannot deliver the resource type; [`SourceError::FeatureOff`] if its
    /// feature is off.
    ///
    /// # Panics
    /// If called outside a tokio runtime.
    pub fn watch_from<T: Typed>(
        &self,
        source: &Source,
        name: impl Into<Arc<str>>,
    ) -> Result<Watch<T>, SourceError> {
        Ok(self.of_source(source, &T::resource_type())?.watch(name))
    }

    /// Watches one resource of any type as bytes, at a [`Source`].
    ///
    /// # Errors
    /// [`SourceError::NoService`] if the source cannot deliver the resource type; [`SourceError::FeatureOff`] if its
    /// feature is off.
    ///
    /// # Panics
    /// If called outside a tokio runtime.
    pub fn watch_raw_from(
        &self,
        source: &Source,
        resource_type: ResourceType,
        name: impl Into<Arc<str>>,
    ) -> Result<RawWatch, SourceError> {
        let client = self.of_source(source, &resource_type)?;
        Ok(client.watch_raw(resource_type, name))
    }

    /// Watches all resources of a type, as a type, at a [`Source`].
    ///
    /// # Errors
    /// [`SourceError::NoService`] if the source cannot deliver the resource type; [`SourceError::FeatureOff`] if its
    /// feature is off.
    ///
    /// # Panics
    /// If called outside a tokio runtime.
    pub fn watch_all_from<T: Typed>(&self, source: &Source) -> Result<WatchAll<T>, SourceError> {
        let client = self.of_source(source, &T::resource_type())?;
        Ok(client.watch_all("*"))
    }

    /// Watches all resources of any type as bytes with version and TTL, at a [`Source`].
    ///
    /// # Errors
    /// [`SourceError::NoService`] if the source cannot deliver the resource type; [`SourceError::FeatureOff`] if its
    /// feature is off.
    ///
    /// # Panics
    /// If called outside a tokio runtime.
    pub fn watch_all_raw_from(
        &self,
        source: &Source,
        resource_type: ResourceType,
    ) -> Result<RawWatchAll, SourceError> {
        let client = self.of_source(source, &resource_type)?;
        Ok(client.watch_all_raw(resource_type, "*"))
    }

    pub(crate) fn of_source(
        &self,
        source: &Source,
        resource_type: &ResourceType,
    ) -> Result<Self, SourceError> {
        Ok(self.shared.of_source(source, resource_type)?.into())
    }

    /// Returns an empty set of watches.
    pub(crate) fn watches(&self) -> WatchSet {
        WatchSet::new(Arc::clone(&self.shared))
    }

    fn watch_set(&self, resource_type: &ResourceType, name: &Arc<str>) -> WatchSet {
        let mut watches = self.watches();
        watches.add(resource_type, name);
        watches
    }
}

impl From<Arc<ClientShared>> for XdsClient {
    fn from(shared: Arc<ClientShared>) -> Self {
        Self { shared }
    }
}
