//! Clients by data-plane target (gRFC A71).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use super::{Inner, XdsClient};
use crate::bootstrap::{Bootstrap, BootstrapError};

/// One client per target: channels to the same target share it, channels to others do not, so that one target's
/// trouble with a control plane is not another's. A client ends with its last user.
#[derive(Debug, Clone)]
pub struct ClientPool {
    bootstrap: Arc<Bootstrap>,
    clients: Arc<Mutex<HashMap<String, Weak<Inner>>>>,
}

impl ClientPool {
    /// A pool of its own, whatever the environment says (C-4).
    #[must_use]
    pub fn new(bootstrap: Bootstrap) -> Self {
        Self {
            bootstrap: Arc::new(bootstrap),
            clients: Arc::default(),
        }
    }

    /// The process's pool, whose bootstrap is found in the environment the first time that this succeeds, and never
    /// read again (C-5).
    ///
    /// # Errors
    /// As [`Bootstrap::from_env`].
    pub fn from_env() -> Result<Self, BootstrapError> {
        static POOL: OnceLock<ClientPool> = OnceLock::new();
        match POOL.get() {
            Some(pool) => Ok(pool.clone()),
            None => {
                let pool = Self::new(Bootstrap::from_env()?);
                Ok(POOL.get_or_init(|| pool).clone())
            }
        }
    }

    /// The pool's bootstrap.
    #[must_use]
    pub fn bootstrap(&self) -> &Arc<Bootstrap> {
        &self.bootstrap
    }

    /// The client of a target. Must be called in a tokio runtime.
    #[must_use]
    pub fn client(&self, target: &str) -> XdsClient {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(inner) = clients.get(target).and_then(Weak::upgrade) {
            return XdsClient { inner };
        }
        clients.retain(|_, client| client.strong_count() > 0);
        let client = XdsClient::new(Arc::clone(&self.bootstrap));
        clients.insert(target.to_owned(), Arc::downgrade(&client.inner));
        client
    }
}
