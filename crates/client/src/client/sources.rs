//! The sources of a client beside its own servers: each is a client of its own, shared for as long as it is used.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use oxds_core::resource::Typed;
use oxds_types::ResourceType;

use super::{Inner, RawWatch, Watch, WatchAll, XdsClient, route};
use crate::source::{Origin, Peer, Source, SourceError};

/// As long as anybody waits.
const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// Those in use, by source, and by kind where each kind takes a stream, a poll or a file of its own (C-272).
#[derive(Debug, Default)]
pub(super) struct Sources(Mutex<InUse>);

type InUse = HashMap<(Source, Option<ResourceType>), Weak<Inner>>;

impl Sources {
    /// Those that are still used.
    pub(super) fn live(&self) -> Vec<XdsClient> {
        let live = |inner: &Weak<Inner>| {
            Some(XdsClient {
                inner: inner.upgrade()?,
            })
        };
        self.lock().values().filter_map(live).collect()
    }

    fn lock(&self) -> MutexGuard<'_, InUse> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl XdsClient {
    /// Watches one resource as a type, from a source of its own.
    ///
    /// # Errors
    /// The kind cannot be had from such a source.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn watch_from<T: Typed>(
        &self,
        source: &Source,
        name: impl Into<Arc<str>>,
    ) -> Result<Watch<T>, SourceError> {
        Ok(self.of_source(source, &T::resource_type())?.watch(name))
    }

    /// Watches all resources of a kind, as a type, from a source of its own.
    ///
    /// # Errors
    /// The kind cannot be had from such a source.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn watch_all_from<T: Typed>(&self, source: &Source) -> Result<WatchAll<T>, SourceError> {
        Ok(self.of_source(source, &T::resource_type())?.watch_all("*"))
    }

    /// Watches one resource of any kind, from a source of its own.
    ///
    /// # Errors
    /// The kind cannot be had from such a source.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn watch_raw_from(
        &self,
        source: &Source,
        resource_type: ResourceType,
        name: impl Into<Arc<str>>,
    ) -> Result<RawWatch, SourceError> {
        Ok(self
            .of_source(source, &resource_type)?
            .watch_raw(resource_type, name))
    }

    fn of_source(
        &self,
        source: &Source,
        resource_type: &ResourceType,
    ) -> Result<Self, SourceError> {
        if source.origin == Origin::Ads {
            return Ok(self.clone());
        }
        let of = (!source.is_aggregated()).then(|| resource_type.clone());
        let key = (source.clone(), of);
        let mut sources = self.inner.sources.lock();
        let shared = sources.get(&key).and_then(Weak::upgrade);
        if let Some(inner) = shared.filter(|inner| inner.is_alive()) {
            return Ok(Self { inner });
        }
        sources.retain(|_, inner| inner.strong_count() > 0);
        let client = self.start_source(source, resource_type)?;
        sources.insert(key, Arc::downgrade(&client.inner));
        Ok(client)
    }

    fn start_source(
        &self,
        source: &Source,
        resource_type: &ResourceType,
    ) -> Result<Self, SourceError> {
        let (bootstrap, mut options) = (&self.inner.bootstrap, self.inner.options.clone());
        if let Some(timeout) = source.initial_fetch_timeout {
            options.resource_timeout = match timeout {
                Duration::ZERO => FOR_EVER,
                timeout => timeout,
            };
        }
        let peers = source.peers(resource_type, bootstrap, options.protocol)?;
        let uri = peers.first().map(Peer::uri).unwrap_or_default();
        let observers = self.inner.observers.of_source(&uri);
        let plan = route::plan_source(bootstrap, &options, peers);
        Ok(Self::start(Arc::clone(bootstrap), options, observers, plan))
    }
}
