//! The options of a client that asks over TLS.

#[cfg(feature = "tls")]
use std::path::PathBuf;

use oxds_client::bootstrap::Builder;
#[cfg(feature = "tls")]
use oxds_client::credentials::{CertificateFiles, IdentityFiles, Trust};
use oxds_client::credentials::{ChannelCredentials, Configured};

/// How to connect: in plaintext, unless one of the others is there.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Security")]
pub(crate) struct ClientSecurity {
    /// Connect over TLS, and believe the authorities that this machine believes
    #[cfg(feature = "tls")]
    #[arg(long)]
    tls: bool,
    /// Connect over TLS, and believe these authorities alone (PEM)
    #[cfg(feature = "tls")]
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Connect over TLS, and show this certificate (PEM; those between it and its authority follow it)
    #[cfg(feature = "tls")]
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// The private key of the certificate (PEM)
    #[cfg(feature = "tls")]
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Connect in plaintext, as is done without these options too
    #[arg(long)]
    #[cfg_attr(feature = "tls", arg(conflicts_with_all = ["tls", "ca", "cert", "key"]))]
    insecure: bool,
}

impl ClientSecurity {
    /// The same bootstrap, with servers that are connected to like this.
    pub(crate) fn apply(&self, builder: Builder) -> Builder {
        match self.credentials() {
            Some(credentials) => builder.credentials(credentials),
            None => builder,
        }
    }

    /// What was asked for; `None` if nothing was.
    pub(crate) fn credentials(&self) -> Option<Configured<dyn ChannelCredentials>> {
        match self.insecure {
            true => Some(Configured::insecure()),
            false => self.tls(),
        }
    }

    #[cfg(feature = "tls")]
    fn tls(&self) -> Option<Configured<dyn ChannelCredentials>> {
        let own = self.cert.clone().zip(self.key.clone());
        let identity = own.map(|(certificate, key)| IdentityFiles { certificate, key });
        if !self.tls && self.ca.is_none() && identity.is_none() {
            return None;
        }
        let trust = self.ca.clone().map(Trust::Authorities);
        Some(Configured::tls(CertificateFiles {
            identity,
            trust: trust.unwrap_or_default(),
            ..CertificateFiles::default()
        }))
    }

    #[cfg(not(feature = "tls"))]
    fn tls(&self) -> Option<Configured<dyn ChannelCredentials>> {
        None
    }
}
