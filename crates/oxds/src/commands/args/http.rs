//! Options of the HTTP port: TLS, and who may read its pages.

use std::path::PathBuf;

use oxds_server::{HttpSecurity, SecurityError};

/// Options for the pages of the HTTP port.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "HTTP port")]
pub(crate) struct HttpArgs {
    /// Serve the HTTP port over TLS with this certificate (PEM; intermediate certificates follow it in the file)
    #[cfg(feature = "tls")]
    #[arg(long, value_name = "FILE", requires = "http_tls_key")]
    http_tls_cert: Option<PathBuf>,
    /// Private key of the certificate (PEM)
    #[cfg(feature = "tls")]
    #[arg(long, value_name = "FILE", requires = "http_tls_cert")]
    http_tls_key: Option<PathBuf>,
    /// Show the pages only to clients that send the token in this file: as bearer token, or as password of any user
    /// [default: to clients of this machine]
    #[arg(long, value_name = "FILE")]
    http_token_file: Option<PathBuf>,
    /// Show the pages to every client that reaches a port of the server
    #[arg(long, conflicts_with = "http_token_file")]
    http_open: bool,
}

impl HttpArgs {
    /// Reads the files. The error names the file.
    pub(crate) fn open(self) -> Result<HttpSecurity, SecurityError> {
        let mut security = HttpSecurity::default();
        #[cfg(feature = "tls")]
        if let (Some(certificate), Some(key)) = (self.http_tls_cert, self.http_tls_key) {
            security = security.tls(&certificate, &key)?;
        }
        if let Some(file) = self.http_token_file {
            security = security.token(&file)?;
        }
        Ok(if self.http_open {
            security.open()
        } else {
            security
        })
    }
}
