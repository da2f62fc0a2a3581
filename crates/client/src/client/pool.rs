//! Clients by data-plane target (gRFC A71).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use super::journal::{Observers, Record};
use super::{Inner, Options, XdsClient};
use crate::bootstrap::{Bootstrap, BootstrapError};
use crate::channelz::Registry;
use crate::metrics::Recorder;

/// One client per target: channels to the same target share it, channels to others do not, so that one target's
/// trouble with a control plane is not another's. A client ends with its last user.
#[derive(Debug, Clone)]
pub struct ClientPool {
    bootstrap: Arc<Bootstrap>,
    options: Options,
    recorder: Option<Arc<dyn Recorder>>,
    channelz: Registry,
    clients: Arc<Mutex<HashMap<String, Weak<Inner>>>>,
}

impl ClientPool {
    /// A pool of its own, whatever the environment says (C-4).
    #[must_use]
    pub fn new(bootstrap: Bootstrap) -> Self {
        Self::with_options(bootstrap, Options::default())
    }

    /// The same, for clients that behave like this.
    #[must_use]
    pub fn with_options(bootstrap: Bootstrap, options: Options) -> Self {
        Self {
            bootstrap: Arc::new(bootstrap),
            options,
            recorder: None,
            channelz: Registry::default(),
            clients: Arc::default(),
        }
    }

    /// The same pool, whose clients made from now on record what they count.
    #[must_use]
    pub fn recorded_by(mut self, recorder: Arc<dyn Recorder>) -> Self {
        self.recorder = Some(recorder);
        self
    }

    /// The process's pool, whose bootstrap is found in the environment the first time that this succeeds, and never
    /// read again (C-5).
    ///
    /// # Errors
    /// As [`Bootstrap::from_env`].
    pub fn from_env() -> Result<Self, BootstrapError> {
        static POOL: ReadOnce = ReadOnce(OnceLock::new());
        POOL.get(Bootstrap::from_env)
    }

    /// The pool's bootstrap.
    #[must_use]
    pub fn bootstrap(&self) -> &Arc<Bootstrap> {
        &self.bootstrap
    }

    /// The channels that are built with this pool, and the servers that are registered there.
    #[must_use]
    pub fn channelz(&self) -> &Registry {
        &self.channelz
    }

    /// The client of a target.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    #[must_use]
    pub fn client(&self, target: &str) -> XdsClient {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let shared = clients.get(target).and_then(Weak::upgrade);
        // A client whose runtime is gone, with its task, is of no more use to anyone.
        if let Some(inner) = shared.filter(|inner| inner.is_alive()) {
            return XdsClient { inner };
        }
        clients.retain(|_, client| client.strong_count() > 0);
        let recorder = self.recorder.clone();
        let record = recorder.map(|recorder| Record::new(recorder, target));
        let (bootstrap, options) = (Arc::clone(&self.bootstrap), self.options.clone());
        let observers = Observers {
            record,
            registry: self.channelz.clone(),
        };
        let client = XdsClient::observed(bootstrap, options, observers);
        clients.insert(target.to_owned(), Arc::downgrade(&client.inner));
        client
    }

    /// All that are in use, by target, in order.
    pub(crate) fn clients(&self) -> Vec<(String, XdsClient)> {
        let clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let live = clients.iter().filter_map(|(target, client)| {
            let inner = client.upgrade()?;
            Some((target.clone(), XdsClient { inner }))
        });
        let mut live: Vec<_> = live.collect();
        live.sort_by(|(one, _), (other, _)| one.cmp(other));
        live
    }
}

/// A pool whose bootstrap is read once.
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
    fn c5_a_bootstrap_that_was_read_is_never_read_again() {
        let pool = ReadOnce(OnceLock::new());
        assert!(pool.get(|| Err(BootstrapError::Missing)).is_err());
        let first = pool.get(|| Bootstrap::builder("one:1").build()).unwrap();
        let second = pool.get(|| Bootstrap::builder("two:2").build()).unwrap();
        assert_eq!(first.bootstrap().servers()[0].uri, "one:1");
        assert!(Arc::ptr_eq(first.bootstrap(), second.bootstrap()));
    }

    #[tokio::test]
    async fn c146_one_client_per_target_for_as_long_as_it_is_used() {
        let pool = ClientPool::new(Bootstrap::builder("one:1").build().unwrap());
        let (one, same, other) = (pool.client("a"), pool.client("a"), pool.client("b"));
        assert!(Arc::ptr_eq(&one.inner, &same.inner));
        assert!(!Arc::ptr_eq(&one.inner, &other.inner));
        let gone = Arc::downgrade(&one.inner);
        drop((one, same));
        assert_eq!(gone.strong_count(), 0);
    }
}
