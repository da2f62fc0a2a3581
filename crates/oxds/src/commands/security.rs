//! The options of a server that tells its clients apart.

#[cfg(feature = "tls")]
use std::path::PathBuf;

#[cfg(feature = "tls")]
use oxds_server::TlsFiles;
use oxds_server::{Security, SecurityError};

/// Who may connect, and as whom.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Security")]
pub(crate) struct SecurityArgs {
    /// Serve over TLS, with this certificate (PEM; those between it and its authority follow it)
    #[cfg(feature = "tls")]
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The private key of the certificate (PEM)
    #[cfg(feature = "tls")]
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Serve only clients with a certificate of these authorities (PEM)
    #[cfg(feature = "tls")]
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_client_ca: Option<PathBuf>,
    /// Rules that say which nodes a client may be, by its certificate (YAML)
    #[cfg(feature = "tls")]
    #[arg(long, value_name = "FILE", requires = "tls_client_ca")]
    authorize: Option<PathBuf>,
}

impl SecurityArgs {
    #[cfg(feature = "tls")]
    pub(super) fn open(self) -> Result<Security, SecurityError> {
        let mut security = Security::default();
        if let (Some(certificate), Some(key)) = (self.tls_cert, self.tls_key) {
            security = security.tls(&TlsFiles {
                certificate,
                key,
                client_ca: self.tls_client_ca,
            })?;
        }
        match self.authorize {
            Some(rules) => security.authorize(&rules),
            None => Ok(security),
        }
    }

    #[cfg(not(feature = "tls"))]
    pub(super) fn open(self) -> Result<Security, SecurityError> {
        Ok(Security::default())
    }
}
