//! One connection per control plane, for all streams of a client.
//!
//! ```text
//!   ADS, per-type streams, LRS ──► Arc<ServerLink> ──► ServerConnection, dialled when the first stream needs it
//!                                       ▲
//!   ServerLinks: by Server, weak ───────┘
//! ```
//!
//! A stream keeps its link while it waits for a retry, so the retry uses the same connection if that still works. The
//! connection closes when the last stream drops the link.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use oxds_net::transport::{DialError, Keepalive};

use super::connection::ServerConnection;
use crate::bootstrap::Server;

/// The links of a client. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct ServerLinks {
    keepalive: Keepalive,
    links: Arc<Mutex<HashMap<Server, Weak<ServerLink>>>>,
}

/// A control plane, and the connection to it while there is one.
#[derive(Debug)]
pub(crate) struct ServerLink {
    server: Server,
    keepalive: Keepalive,
    /// Locked while a dial is in progress, so that concurrent streams wait for the same one.
    connection: tokio::sync::Mutex<Option<ServerConnection>>,
    /// Number of dials that failed so far, and the error of the last one.
    failures: AtomicU64,
    last_error: Mutex<Option<DialError>>,
}

impl ServerLinks {
    /// Creates links whose connections have this keepalive.
    pub(crate) fn new(keepalive: Keepalive) -> Self {
        Self {
            keepalive,
            links: Arc::default(),
        }
    }

    /// Returns the link of a server. All streams with equal server definitions share one (gRFC A47; C-46).
    pub(crate) fn link(&self, server: &Server) -> Arc<ServerLink> {
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(link) = links.get(server).and_then(Weak::upgrade) {
            return link;
        }
        links.retain(|_, link| link.strong_count() > 0);
        let link = Arc::new(ServerLink {
            server: server.clone(),
            keepalive: self.keepalive,
            connection: tokio::sync::Mutex::default(),
            failures: AtomicU64::new(0),
            last_error: Mutex::default(),
        });
        links.insert(server.clone(), Arc::downgrade(&link));
        link
    }
}

impl ServerLink {
    /// Returns the connection. Dials one if necessary.
    ///
    /// # Errors
    /// The error of the dial, which all streams get that waited for it.
    ///
    /// # Cancel safety
    /// Dropping the future ends a dial that it has started; the next stream that waits starts another.
    pub(crate) async fn connection(&self) -> Result<ServerConnection, DialError> {
        let before = self.failures.load(Ordering::Relaxed);
        let mut current = self.connection.lock().await;
        if let Some(open) = current.as_ref().filter(|connection| connection.is_open()) {
            return Ok(open.clone());
        }
        if self.failures.load(Ordering::Relaxed) > before
            && let Some(error) = &*self.last_error()
        {
            return Err(error.clone());
        }
        // The old connection closes when its last stream ends.
        *current = None;
        match ServerConnection::connect(&self.server, self.keepalive).await {
            Ok(connection) => Ok(current.insert(connection).clone()),
            Err(error) => {
                *self.last_error() = Some(error.clone());
                self.failures.fetch_add(1, Ordering::Relaxed);
                Err(error)
            }
        }
    }

    /// Returns the server.
    pub(crate) fn server(&self) -> &Server {
        &self.server
    }

    fn last_error(&self) -> MutexGuard<'_, Option<DialError>> {
        self.last_error
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
