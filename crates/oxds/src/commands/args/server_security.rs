//! TLS and authorization options of the server.

#[cfg(feature = "tls")]
use std::path::PathBuf;

#[cfg(feature = "tls")]
use oxds_server::TlsFiles;
use oxds_server::{Security, SecurityError};

/// Options for TLS, client certificates and authorization.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Security")]
pub(crate) struct SecurityArgs {
    /// Serve over TLS with this certificate (PEM; intermediate certificates follow it in the file)
    #[cfg(feature = "tls")]
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Private key of the certificate (PEM)
    #[cfg(feature = "tls")]
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Accept only clients with a certificate from these authorities (PEM)
    #[cfg(feature = "tls")]
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_client_ca: Option<PathBuf>,
    /// Rules with the nodes that each client certificate may use (YAML)
    #[cfg(feature = "tls")]
    #[arg(long, value_name = "FILE", requires = "tls_client_ca")]
    authorize: Option<PathBuf>,
}

impl SecurityArgs {
    /// Reads the files. The error names the file and the place in it.
    #[cfg(feature = "tls")]
    pub(crate) fn open(self) -> Result<Security, SecurityError> {
        let mut security = Security::default();
        if let (Some(certificate), Some(key)) = (self.tls_cert, self.tls_key) {
            security =
                security.tls(&TlsFiles::new(certificate, key).client_ca(self.tls_client_ca))?;
        }
        match self.authorize {
            Some(rules) => security.authorize(&rules),
            None => Ok(security),
        }
    }

    #[cfg(not(feature = "tls"))]
    pub(crate) fn open(self) -> Result<Security, SecurityError> {
        Ok(Security::default())
    }
}
