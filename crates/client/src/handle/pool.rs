//! Clients, shared by data-plane target (gRFC A71).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use oxds_core::resource::{Extensions, ResourceCheck};

use super::client::XdsClient;
use crate::bootstrap::{Bootstrap, BootstrapError};
use crate::channelz::Registry;
use crate::driver::ClientShared;
use crate::metrics::Recorder;
use crate::options::Options;
use crate::telemetry::{MetricsTarget, Observers};

/// Pool with one client per target. Clones share one pool.
///
/// Channels to the same target share a client; channels to other targets do not, so fallback of one target does not
/// affect another (gRFC A71). A client ends when its last handle and watch are dropped.
#[derive(Debug, Clone)]
pub struct ClientPool {
    bootstrap: Arc<Bootstrap>,
    options: Options,
    recorder: Option<Arc<dyn Recorder>>,
    channelz: Registry,
    clients: Arc<Mutex<HashMap<String, Weak<ClientShared>>>>,
}

impl ClientPool {
    /// Creates a pool with this bootstrap. The environment is not read (C-4).
    #[must_use]
    pub fn new(bootstrap: Bootstrap) -> Self {
        Self::with_options(bootstrap, Options::default())
    }

    /// Creates a pool whose clients have these options.
    #[must_use]
    pub fn with_options(bootstrap: Bootstrap, mut options: Options) -> Self {
        // gRFC A29: which certificate provider instances a resource may name depends on the bootstrap (C-204).
        options.extensions = options.extensions.with_tls_rules(bootstrap.tls_rules());
        Self {
            bootstrap: Arc::new(bootstrap),
            options,
            recorder: None,
            channelz: Registry::default(),
            clients: Arc::default(),
        }
    }

    /// Records the metrics of all clients and channels that are created after this call.
    #[must_use]
    pub fn with_recorder(mut self, recorder: Arc<dyn Recorder>) -> Self {
        self.recorder = Some(recorder);
        self
    }

    /// Returns the recorder of its clients and channels, if it has one.
    #[must_use]
    pub fn recorder(&self) -> Option<&Arc<dyn Recorder>> {
        self.recorder.as_ref()
    }

    /// Checks every resource that the clients receive that are created after this call, before it is parsed
    /// ([`Options::resource_check`]).
    #[must_use]
    pub fn with_check(mut self, check: ResourceCheck) -> Self {
        self.options.resource_check = Some(check);
        self
    }

    /// Returns the pool of the process. Its bootstrap comes from the environment; after the first success, the
    /// environment is not read again (C-5).
    ///
    /// # Errors
    /// As [`Bootstrap::from_env`].
    pub fn from_env() -> Result<Self, BootstrapError> {
        static POOL: ReadOnce = ReadOnce(OnceLock::new());
        POOL.get(Bootstrap::from_env)
    }

    /// Returns the bootstrap of the pool.
    #[must_use]
    pub fn bootstrap(&self) -> &Arc<Bootstrap> {
        &self.bootstrap
    }

    /// Returns the extensions of its channels and servers, with the rules of the bootstrap.
    #[must_use]
    pub fn extensions(&self) -> &Extensions {
        &self.options.extensions
    }

    /// Returns the channelz registry: the channels that were built with this pool, and the servers registered there.
    #[must_use]
    pub fn channelz(&self) -> &Registry {
        &self.channelz
    }

    /// Returns the client of a target; creates it if the target has none.
    ///
    /// # Panics
    /// If called outside a tokio runtime.
    #[must_use]
    pub fn client(&self, target: &str) -> XdsClient {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        // gRFC A71: one client per target; weak references, so that the last user ends it (C-146).
        let shared = clients.get(target).and_then(Weak::upgrade);
        // A client stops with the runtime that it was created in; then the target needs a new one.
        if let Some(shared) = shared.filter(|shared| shared.is_alive()) {
            return shared.into();
        }
        clients.retain(|_, client| client.strong_count() > 0);
        let recorder = self.recorder.clone();
        let metrics = recorder.map(|recorder| MetricsTarget::new(recorder, target));
        let (bootstrap, options) = (Arc::clone(&self.bootstrap), self.options.clone());
        let observers = Observers {
            metrics,
            registry: self.channelz.clone(),
        };
        let shared = ClientShared::new(bootstrap, options, observers);
        clients.insert(target.to_owned(), Arc::downgrade(&shared));
        shared.into()
    }

    /// Returns all clients in use, with their targets, in order of the targets.
    pub(crate) fn clients(&self) -> Vec<(String, XdsClient)> {
        let clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let live = clients.iter().filter_map(|(target, client)| {
            let shared = client.upgrade()?;
            Some((target.clone(), XdsClient::from(shared)))
        });
        let mut live: Vec<_> = live.collect();
        live.sort_by(|(one, _), (other, _)| one.cmp(other));
        live
    }
}

/// A pool whose bootstrap is read at most once.
struct ReadOnce(OnceLock<ClientPool>);

impl ReadOnce {
    fn get(
        &self,
        read: impl FnOnce() -> Result<Bootstrap, BootstrapError>,
    ) -> Result<ClientPool, BootstrapError> {
        match self.0.get() {
            Some(pool) => Ok(pool.clone()),
            None => {
                let pool = ClientPool::new(read()?);
                Ok(self.0.get_or_init(|| pool).clone())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c5_bootstrap_is_read_once() {
        let pool = ReadOnce(OnceLock::new());
        assert!(pool.get(|| Err(BootstrapError::Missing)).is_err());
        let first = pool.get(|| Bootstrap::builder("one:1").build()).unwrap();
        let second = pool.get(|| Bootstrap::builder("two:2").build()).unwrap();
        assert_eq!(first.bootstrap().servers()[0].uri, "one:1");
        assert!(Arc::ptr_eq(first.bootstrap(), second.bootstrap()));
    }

    #[tokio::test]
    async fn c146_targets_have_one_client_while_in_use() {
        let pool = ClientPool::new(Bootstrap::builder("one:1").build().unwrap());
        let (one, same, other) = (pool.client("a"), pool.client("a"), pool.client("b"));
        assert!(Arc::ptr_eq(one.shared(), same.shared()));
        assert!(!Arc::ptr_eq(one.shared(), other.shared()));
        let gone = Arc::downgrade(one.shared());
        drop((one, same));
        assert_eq!(gone.strong_count(), 0);
    }
}
