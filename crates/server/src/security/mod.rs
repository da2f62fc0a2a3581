//! Who may connect, as whom, and what they are told (S-78).
//!
//! ```text
//!   certificate, key, CA ──▶ Reloadable ──▶ handshake ──▶ Identity ──┐
//!                             ▲                                ▼
//!              changed files, │                   rules ──▶ admit(identity, node) ──▶ Grant: groups, secrets
//!              SIGHUP         └── Reloadable ◀── rules                     │
//!                                                                    └──▶ Denied ──▶ PERMISSION_DENIED
//! ```
//!
//! Files are read again when they change: by looking, as this also sees what is swapped by a symbolic link far above.
//! What cannot be read then is logged, and what was read last holds on. Connections that are open keep the certificate
//! they began with; streams whose grant changed are ended, and their clients come back under the new one.

mod authorize;
mod identity;
#[cfg(feature = "tls")]
mod tls;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use oxds_types::discovery::Node;
use oxds_types::file::FileError;
use oxds_types::reload::Reloadable;
use tokio::sync::Notify;
use tracing::{error, info};

use authorize::Authorization;
pub(crate) use authorize::{Denied, Grant};
pub(crate) use identity::Identity;
#[cfg(feature = "tls")]
pub use tls::TlsFiles;
#[cfg(feature = "tls")]
pub(crate) use tls::speaks_http_1;

/// How often files are looked at. Rotations overlap by minutes at the least.
const LOOK: Duration = Duration::from_secs(10);

/// A file that security depends on is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SecurityError {
    /// It cannot be read, or is not what it should be: no certificate, no key, or not the key of the certificate.
    #[error(transparent)]
    File(#[from] FileError),
    /// The rules are not as they are written.
    #[error("{}:{line}:{column}: {reason}", path.display())]
    Rules {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: u32,
        /// Column, from 1.
        column: u32,
        /// What is wrong.
        reason: String,
    },
}

/// How a server tells its clients apart. Without anything it does not: then bind it where only they can reach it.
///
/// Clones share one state.
#[derive(Debug, Clone, Default)]
pub struct Security(Arc<Parts>);

#[derive(Debug, Default)]
struct Parts {
    #[cfg(feature = "tls")]
    tls: Option<Reloadable<tls::ServerConfig, SecurityError>>,
    rules: Option<Reloadable<Authorization, SecurityError>>,
    /// Every client has to show a certificate.
    asks_for_certificates: bool,
    /// Says: look at the files now.
    nudge: Notify,
}

impl Security {
    /// Serves over TLS 1.2 or 1.3.
    ///
    /// # Errors
    /// When a file cannot be read, or is no certificate or key.
    #[cfg(feature = "tls")]
    pub fn tls(self, files: &TlsFiles) -> Result<Self, SecurityError> {
        let tls = Some(tls::open(files)?);
        Ok(Self(Arc::new(Parts {
            tls,
            asks_for_certificates: files.client_ca.is_some(),
            ..self.into_parts()
        })))
    }

    /// Binds clients to nodes by the rules in this file. Then whoever has no certificate is told nothing.
    ///
    /// # Errors
    /// When the file cannot be read, or says something that is no rule.
    pub fn authorize(self, rules: &Path) -> Result<Self, SecurityError> {
        let rules = Reloadable::open(vec![rules.to_owned()], Authorization::read)?;
        Ok(Self(Arc::new(Parts {
            rules: Some(rules),
            ..self.into_parts()
        })))
    }

    fn into_parts(self) -> Parts {
        // Still being built, hence not shared yet.
        Arc::into_inner(self.0).unwrap_or_default()
    }

    /// Looks at the files now, not only within ten seconds.
    pub fn reload(&self) {
        self.0.nudge.notify_one();
    }

    /// Whether clients are bound to nodes.
    pub(crate) fn is_authorizing(&self) -> bool {
        self.0.rules.is_some()
    }

    /// Whether clients are told apart by certificates, so that who shows none is told nothing.
    pub(crate) fn tells_clients_apart(&self) -> bool {
        self.0.asks_for_certificates || self.is_authorizing()
    }

    /// What a client may be told if it says it is this node, which is in these groups.
    pub(crate) fn admit(
        &self,
        identity: Option<&Identity>,
        node: Option<&Node>,
        groups: &[Arc<str>],
    ) -> Result<Grant, Denied> {
        match &self.0.rules {
            Some(rules) => rules.load().admit(identity, node, groups),
            None => Ok(Grant::Everything),
        }
    }

    /// Whether a client may be told what others have.
    pub(crate) fn may_inspect(&self, identity: Option<&Identity>) -> Result<(), Denied> {
        match &self.0.rules {
            Some(rules) => rules.load().may_inspect(identity),
            None => Ok(()),
        }
    }

    /// The settings of the next handshake; `None` where there is none to make.
    #[cfg(feature = "tls")]
    pub(crate) fn acceptor(&self) -> Option<tokio_rustls::TlsAcceptor> {
        Some(self.0.tls.as_ref()?.load().into())
    }

    /// Waits until it is time to look at the files.
    pub(crate) async fn due(&self) {
        // Not to be late is all that matters: the clock may be the one thing that wakes it.
        let _ = tokio::time::timeout(LOOK, self.0.nudge.notified()).await;
    }

    /// Looks at the files; whether grants may have changed.
    pub(crate) fn refresh(&self) -> bool {
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.0.tls {
            log(tls.refresh(), "certificates");
        }
        let rules = self.0.rules.as_ref();
        rules.is_some_and(|rules| log(rules.refresh(), "rules of authorization"))
    }
}

fn log(refreshed: Result<bool, SecurityError>, what: &str) -> bool {
    match &refreshed {
        Ok(true) => info!("new {what}"),
        Ok(false) => {}
        Err(error) => error!("{error}: {what} stay as they were"),
    }
    refreshed.unwrap_or(false)
}
