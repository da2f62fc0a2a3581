//! Authentication and authorization of clients (S-78).
//!
//! ```text
//!   certificate, key, CA ──▶ Reloadable ──▶ handshake ──▶ Identity ──▶ admit(identity, node) ──▶ Grant: groups, …
//!                            ▲                                         ▲          └──▶ Denied ──▶ PERMISSION_DENIED
//!                            │ files changed, or SIGHUP                │
//!                            ▼                                         │
//!   rules ─────────────────▶ Reloadable ───────────────────────────────┘
//! ```
//!
//! Files are read again when they change. They are polled, because this also sees a symbolic link that is replaced in a
//! folder far above. If a file cannot be read, the error is logged and the last valid content stays in use. Open
//! connections keep their certificate. Streams whose grant changed are ended, so that clients reconnect under the new
//! one.

mod authorize;
mod error;
mod http;
mod identity;
#[cfg(feature = "tls")]
mod tls;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use oxds_types::discovery::Node;
use oxds_types::reload::Reloadable;
use tokio::sync::Notify;
use tracing::{error, info};

use authorize::Authorization;
pub(crate) use authorize::{Denied, Grant};
pub use error::SecurityError;
pub(crate) use http::HttpDenied;
pub use http::HttpSecurity;
pub(crate) use identity::Identity;
#[cfg(feature = "tls")]
pub use tls::TlsFiles;
#[cfg(feature = "tls")]
pub(crate) use tls::speaks_http_1;

/// The time between two checks of the files. Old and new certificates overlap by minutes at least.
const POLL_INTERVAL: Duration = Duration::from_secs(10);

/// The TLS settings and authorization rules of a server. The default has neither: then bind the server to an address
/// that only its clients can reach.
///
/// Clones share the contents of the files.
#[derive(Debug, Clone, Default)]
pub struct Security {
    #[cfg(feature = "tls")]
    tls: Option<Arc<Reloadable<tls::ServerConfig, SecurityError>>>,
    rules: Option<Arc<Reloadable<Authorization, SecurityError>>>,
    /// Whether every client must have a certificate.
    requires_certificates: bool,
    /// Notified when the files should be checked now.
    reload: Arc<Notify>,
}

impl Security {
    /// Serves over TLS 1.2 or 1.3 with these files. They are read again when they change.
    ///
    /// # Errors
    /// When a file cannot be read, or has no valid certificate or key.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, files: &TlsFiles) -> Result<Self, SecurityError> {
        self.tls = Some(Arc::new(tls::open(files, tls::Alpn::Grpc)?));
        self.requires_certificates = files.client_ca.is_some();
        Ok(self)
    }

    /// Authorizes clients by the rules in this file. Clients without a certificate are then denied.
    ///
    /// # Errors
    /// When the file cannot be read, or a rule is malformed.
    pub fn authorize(mut self, rules: &Path) -> Result<Self, SecurityError> {
        let rules = Reloadable::open(vec![rules.to_owned()], Authorization::read)?;
        self.rules = Some(Arc::new(rules));
        Ok(self)
    }

    /// Checks the files now, instead of within ten seconds. Does not wait for it.
    pub fn reload(&self) {
        self.reload.notify_one();
    }

    /// Whether there are authorization rules.
    pub(crate) fn is_authorizing(&self) -> bool {
        self.rules.is_some()
    }

    /// Whether certificates identify clients, so that a client without one is denied.
    pub(crate) fn tells_clients_apart(&self) -> bool {
        self.requires_certificates || self.is_authorizing()
    }

    /// Returns what a client may receive as this node, which is in these groups.
    pub(crate) fn admit(
        &self,
        identity: Option<&Identity>,
        node: Option<&Node>,
        groups: &[Arc<str>],
    ) -> Result<Grant, Denied> {
        match &self.rules {
            Some(rules) => rules.load().admit(identity, node, groups),
            None => Ok(Grant::Everything),
        }
    }

    /// Checks that a client may see the state of other clients.
    pub(crate) fn may_inspect(&self, identity: Option<&Identity>) -> Result<(), Denied> {
        match &self.rules {
            Some(rules) => rules.load().may_inspect(identity),
            None => Ok(()),
        }
    }

    /// Returns the acceptor for the next handshake, or `None` without TLS.
    #[cfg(feature = "tls")]
    pub(crate) fn acceptor(&self) -> Option<tokio_rustls::TlsAcceptor> {
        Some(self.tls.as_ref()?.load().into())
    }

    /// Waits until the files should be checked again.
    pub(crate) async fn due(&self) {
        // Either outcome means that a check is due.
        let _ = tokio::time::timeout(POLL_INTERVAL, self.reload.notified()).await;
    }

    /// Checks the files. Returns whether grants may have changed.
    pub(crate) fn refresh(&self) -> bool {
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            log(tls.refresh(), "certificates");
        }
        let rules = self.rules.as_ref();
        rules.is_some_and(|rules| log(rules.refresh(), "authorization rules"))
    }
}

fn log(refreshed: Result<bool, SecurityError>, what: &str) -> bool {
    match &refreshed {
        Ok(true) => info!("{what} reloaded"),
        Ok(false) => {}
        Err(error) => error!(%error, "reload of {what} failed, keeping the previous ones"),
    }
    refreshed.unwrap_or(false)
}
