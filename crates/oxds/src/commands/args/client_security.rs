//! TLS options of commands that connect to a server.

#[cfg(feature = "tls")]
use std::path::PathBuf;

use oxds_client::bootstrap::Builder;
#[cfg(feature = "tls")]
use oxds_client::credentials::{CertificateFiles, IdentityFiles, Trust};
use oxds_client::credentials::{ChannelCredentials, Configured};

use crate::exit::Failure;

/// Options for the connection: plaintext, unless one of the TLS options is present.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Security")]
pub(crate) struct ClientSecurity {
    /// Connect over TLS and trust the authorities of this machine
    #[cfg(feature = "tls")]
    #[arg(long)]
    tls: bool,
    /// Connect over TLS and trust only these authorities (PEM)
    #[cfg(feature = "tls")]
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Connect over TLS with this client certificate (PEM; intermediate certificates follow it)
    #[cfg(feature = "tls")]
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// Private key of the certificate (PEM)
    #[cfg(feature = "tls")]
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Connect in plaintext, which is also the default
    #[arg(long)]
    #[cfg_attr(feature = "tls", arg(conflicts_with_all = ["tls", "ca", "cert", "key"]))]
    insecure: bool,
}

impl ClientSecurity {
    /// Returns the bootstrap with these credentials for its servers.
    pub(crate) fn apply(&self, builder: Builder) -> Result<Builder, Failure> {
        Ok(match self.credentials()? {
            Some(credentials) => builder.credentials(credentials),
            None => builder,
        })
    }

    /// Returns the credentials of the options, or `None` without options. Reads the files, so that an
    /// unreadable one is reported before the first connection.
    pub(crate) fn credentials(
        &self,
    ) -> Result<Option<Configured<dyn ChannelCredentials>>, Failure> {
        if self.insecure {
            return Ok(Some(Configured::insecure()));
        }
        self.check_files()?;
        Ok(self.tls())
    }

    #[cfg(feature = "tls")]
    fn check_files(&self) -> Result<(), Failure> {
        for file in [&self.ca, &self.cert, &self.key].into_iter().flatten() {
            let read = std::fs::read(file);
            read.map_err(|error| Failure::usage(format_args!("{}: {error}", file.display())))?;
        }
        Ok(())
    }

    #[cfg(not(feature = "tls"))]
    fn check_files(&self) -> Result<(), Failure> {
        Ok(())
    }

    #[cfg(feature = "tls")]
    fn tls(&self) -> Option<Configured<dyn ChannelCredentials>> {
        let own = self.cert.clone().zip(self.key.clone());
        let identity = own.map(|(certificate, key)| IdentityFiles { certificate, key });
        if !self.tls && self.ca.is_none() && identity.is_none() {
            return None;
        }
        let trust = self.ca.clone().map(Trust::Authorities);
        Some(Configured::tls(
            CertificateFiles::default()
                .with_identity(identity)
                .with_trust(trust.unwrap_or_default()),
        ))
    }

    #[cfg(not(feature = "tls"))]
    fn tls(&self) -> Option<Configured<dyn ChannelCredentials>> {
        None
    }
}
