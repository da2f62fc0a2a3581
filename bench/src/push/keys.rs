//! Certificates of both sides of a scenario over TLS.

use std::path::Path;

use oxds_server::{Security, TlsFiles};
use oxds_testkit::certificates::{Authority, replace};
use tempfile::TempDir;
use tokio_rustls::TlsConnector;

/// Certificates of one authority: a server's, in files, and a client's.
pub(super) struct Keys {
    pub(super) folder: TempDir,
    pub(super) connector: TlsConnector,
}

impl Keys {
    pub(super) fn new() -> Result<Self, String> {
        Self::made().map_err(|error| format!("certificates: {error}"))
    }

    fn made() -> Result<Self, Box<dyn std::error::Error>> {
        let folder = tempfile::tempdir()?;
        let authority = Authority::new("bench")?;
        authority
            .issue(&["127.0.0.1"])?
            .write(folder.path(), "server")?;
        replace(&folder.path().join("ca.pem"), &authority.pem())?;
        let client = authority.issue(&["bench"])?;
        let connector = authority.connector(Some(&client), &["h2"])?;
        Ok(Self { folder, connector })
    }
}

/// The server's side: it requires a client certificate.
pub(super) fn security(folder: &Path) -> Result<Security, String> {
    let files = TlsFiles {
        certificate: folder.join("server.pem"),
        key: folder.join("server.key"),
        client_ca: Some(folder.join("ca.pem")),
    };
    Security::default()
        .tls(&files)
        .map_err(|error| error.to_string())
}
