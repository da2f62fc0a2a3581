//! Values that all listening addresses of a server share.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use oxds_client::ClientPool;
use tonic::service::Routes;

use crate::credentials::XdsServerCredentials;
use crate::metrics::ServerMetrics;
use crate::mode::ModeCallback;
use crate::status::{ListenerState, ListenerStatus};

/// Values that all listening addresses of a server share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) clients: ClientPool,
    pub(crate) routes: Routes,
    pub(crate) credentials: XdsServerCredentials,
    pub(crate) on_mode: Option<ModeCallback>,
    pub(crate) metrics: Option<Arc<ServerMetrics>>,
    pub(crate) settings: Settings,
    /// Name of the server in channelz; by default that of the listener.
    pub(crate) name: Option<String>,
    pub(crate) listeners: Mutex<Vec<Weak<ListenerState>>>,
}

/// Limits and times of connections.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) drain_grace: Duration,
    pub(crate) handshake_timeout: Duration,
    pub(crate) max_handshakes: usize,
    pub(crate) max_concurrent_streams: Option<u32>,
    pub(crate) keepalive: Option<(Duration, Duration)>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            // gRFC A36: ten minutes for long RPCs.
            drain_grace: Duration::from_secs(600),
            // As in grpc-go and C-core.
            handshake_timeout: Duration::from_secs(120),
            max_handshakes: 1024,
            max_concurrent_streams: Some(200),
            keepalive: None,
        }
    }
}

impl Shared {
    /// Adds an address until its state is dropped.
    pub(crate) fn register(&self, state: &Arc<ListenerState>) {
        let mut listeners = self
            .listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        listeners.retain(|known| known.strong_count() > 0);
        listeners.push(Arc::downgrade(state));
    }

    /// Returns the status of each address.
    pub(crate) fn listeners(&self) -> Vec<ListenerStatus> {
        let listeners = self
            .listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let live = listeners.iter().filter_map(Weak::upgrade);
        live.map(|state| state.status()).collect()
    }
}
