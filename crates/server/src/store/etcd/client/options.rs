//! Options of the etcd client.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "tls")]
use oxds_net::credentials::{CertificateFiles, IdentityFiles, TlsCredentials, Trust};
use oxds_net::credentials::{ChannelCredentials, Insecure};
use oxds_net::transport::Keepalive;

use super::endpoint::Endpoints;

/// Time without traffic after which a ping is sent, and the time for its answer.
///
/// etcd closes a connection that sends more than one ping in 5 s (`--grpc-keepalive-min-time`).
const KEEPALIVE: Keepalive = Keepalive::new(Duration::from_secs(10), Duration::from_secs(5));

/// A page of 1,000 values of 100 KB. etcd has no limit of its own; tonic's default of 4 MiB is less than one response
/// of a watch.
const MAX_RESPONSE: usize = 128 << 20;

/// Name and password of a user of etcd.
#[derive(Clone, PartialEq, Eq)]
pub struct User {
    /// The name.
    pub name: String,
    /// The password.
    pub password: String,
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("User")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Files for TLS to etcd, all in PEM. They are read again for each new connection (G-32).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EtcdTlsFiles {
    /// Certificate authorities of the members; without, those of the operating system.
    pub ca: Option<std::path::PathBuf>,
    /// Certificate and key of this client, if etcd requires them; etcd may read the user from the certificate's common
    /// name.
    pub identity: Option<(std::path::PathBuf, std::path::PathBuf)>,
}

/// Options of an [`EtcdClient`](super::EtcdClient).
#[derive(Debug, Clone)]
pub struct ClientOptions {
    pub(super) credentials: Arc<dyn ChannelCredentials>,
    pub(super) user: Option<User>,
    pub(super) timeout: Duration,
    pub(super) keepalive: Keepalive,
    pub(super) max_response: usize,
}

/// Reason why options do not fit together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OptionsError {
    /// There are certificate files, but the URLs are not secure.
    #[error("certificate files are set, but the etcd URLs begin with http://: expected https://")]
    FilesWithoutTls,
    /// The program was built without the feature `tls`.
    #[error("https:// needs a build with the feature \"tls\"")]
    FeatureOff,
}

impl ClientOptions {
    /// Returns the options for members at these addresses.
    ///
    /// # Errors
    /// Files are set and the addresses are not secure, or TLS is needed and was not built in. There is no way to fall
    /// back to plaintext (G-32).
    pub fn new(endpoints: &Endpoints, tls: Option<EtcdTlsFiles>) -> Result<Self, OptionsError> {
        let credentials: Arc<dyn ChannelCredentials> = match (endpoints.is_secure(), tls) {
            (false, None) => Arc::new(Insecure),
            (false, Some(_)) => return Err(OptionsError::FilesWithoutTls),
            (true, files) => secure(files.unwrap_or_default())?,
        };
        Ok(Self {
            credentials,
            user: None,
            timeout: Duration::from_secs(5),
            keepalive: KEEPALIVE,
            max_response: MAX_RESPONSE,
        })
    }

    /// Authenticates as this user, by tokens.
    #[must_use]
    pub fn user(mut self, user: User) -> Self {
        self.user = Some(user);
        self
    }

    /// Sets the time limit for a connection and for each call: 5 s by default.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets the size of the largest response that is accepted: 128 MiB by default.
    #[must_use]
    pub fn max_response(mut self, bytes: usize) -> Self {
        self.max_response = bytes;
        self
    }
}

#[cfg(feature = "tls")]
fn secure(files: EtcdTlsFiles) -> Result<Arc<dyn ChannelCredentials>, OptionsError> {
    let identity = files
        .identity
        .map(|(certificate, key)| IdentityFiles { certificate, key });
    let files = CertificateFiles::default()
        .with_identity(identity)
        .with_trust(files.ca.map_or(Trust::System, Trust::Authorities))
        .with_refresh_interval(Duration::ZERO);
    Ok(Arc::new(TlsCredentials::new(files)))
}

#[cfg(not(feature = "tls"))]
fn secure(_: EtcdTlsFiles) -> Result<Arc<dyn ChannelCredentials>, OptionsError> {
    Err(OptionsError::FeatureOff)
}
