//! Certificates of both sides of a scenario over TLS, in files.

use std::path::{Path, PathBuf};

use oxds_server::{Security, TlsFiles};
use oxds_testkit::certificates::{Authority, replace};
use tempfile::TempDir;
use tokio_rustls::TlsConnector;
use tonic::transport::{Certificate, ClientTlsConfig, Identity, ServerTlsConfig};

/// Certificates of one authority: a server's for 127.0.0.1, and a client's.
pub(crate) struct Keys {
    pub(crate) folder: TempDir,
    pub(crate) connector: TlsConnector,
}

impl Keys {
    pub(crate) fn new() -> Result<Self, String> {
        Self::made().map_err(|error| format!("certificates: {error}"))
    }

    fn made() -> Result<Self, Box<dyn std::error::Error>> {
        let folder = tempfile::tempdir()?;
        let authority = Authority::new("bench")?;
        replace(&ca(folder.path()), &authority.pem())?;
        let server = authority.issue(&["127.0.0.1"])?;
        server.write(folder.path(), "server")?;
        let client = authority.issue(&["bench"])?;
        client.write(folder.path(), "client")?;
        let connector = authority.connector(Some(&client), &["h2"])?;
        Ok(Self { folder, connector })
    }
}

fn ca(folder: &Path) -> PathBuf {
    folder.join("ca.pem")
}

/// The control plane's side: it requires a client certificate.
pub(crate) fn security(folder: &Path) -> Result<Security, String> {
    let files =
        TlsFiles::new(folder.join("server.pem"), folder.join("server.key")).client_ca(ca(folder));
    Security::default()
        .tls(&files)
        .map_err(|error| error.to_string())
}

/// The side of a client on tonic's own TLS.
pub(crate) fn tonic_client(folder: &Path) -> Result<ClientTlsConfig, String> {
    let config = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(read(&ca(folder))?));
    Ok(config
        .identity(identity(folder, "client")?)
        .domain_name("127.0.0.1"))
}

/// The side of a server on tonic's own TLS, which requires a client certificate.
pub(crate) fn tonic_server(folder: &Path) -> Result<ServerTlsConfig, String> {
    let config = ServerTlsConfig::new().identity(identity(folder, "server")?);
    Ok(config.client_ca_root(Certificate::from_pem(read(&ca(folder))?)))
}

/// The `certificate_providers` of a bootstrap, with the instance `keys` for this side: `client` or `server`.
pub(crate) fn providers(folder: &Path, side: &str) -> serde_json::Value {
    let file = |name: &str| folder.join(name).display().to_string();
    serde_json::json!({ "keys": { "plugin_name": "file_watcher", "config": {
        "certificate_file": file(&format!("{side}.pem")),
        "private_key_file": file(&format!("{side}.key")),
        "ca_certificate_file": file("ca.pem"),
        "refresh_interval": "600s",
    } } })
}

fn identity(folder: &Path, side: &str) -> Result<Identity, String> {
    let certificate = read(&folder.join(format!("{side}.pem")))?;
    Ok(Identity::from_pem(
        certificate,
        read(&folder.join(format!("{side}.key")))?,
    ))
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}
