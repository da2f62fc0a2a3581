//! Errors of certificates, with the place to fix them.

use std::io;
use std::sync::Arc;

use oxds_types::file::FileError;

/// Reason why a provider has no certificate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CertificateError {
    /// A file is missing, unreadable or invalid.
    #[error(transparent)]
    File(#[from] FileError),
    /// The configuration of the provider does not provide it.
    #[error("has no {wanted}: its config has no {field}")]
    NotConfigured {
        /// Wanted certificate, as in `identity certificate`.
        wanted: &'static str,
        /// Field of the configuration that would provide it.
        field: &'static str,
    },
    /// Error of a plugin of the program.
    #[error("{0}")]
    Plugin(String),
}

/// Reason why a handshake cannot begin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// The bootstrap does not have the provider instance.
    #[error("certificate provider instance {0:?} is not in certificate_providers of the bootstrap")]
    UnknownInstance(Arc<str>),
    /// A provider instance has no certificate.
    #[error("certificate provider instance {instance:?}: {error}")]
    Certificate {
        /// Name of the instance.
        instance: Arc<str>,
        /// Error of the instance.
        error: CertificateError,
    },
    /// The authorities of the operating system cannot be read.
    #[error(transparent)]
    SystemRoots(FileError),
    /// The certificates do not make a TLS configuration.
    #[error("TLS configuration: {0}")]
    Config(String),
    /// The server name of a cluster or an endpoint cannot be sent.
    #[error("{0:?} is not a server name: expected a DNS name or an IP address")]
    ServerName(String),
}

impl From<TlsError> for io::Error {
    fn from(error: TlsError) -> Self {
        Self::new(io::ErrorKind::InvalidData, error)
    }
}
