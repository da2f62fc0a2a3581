//! TLS settings, reloaded when certificate files change.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use oxds_types::file::FileError;
use oxds_types::pem;
use oxds_types::reload::{Contents, Reloadable};

pub(super) use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, UnixTime};
use tokio_rustls::rustls::server::{
    NoClientAuth, WebPkiClientVerifier, danger::ClientCertVerifier,
};
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{Error, RootCertStore, ServerConnection};

use tracing::warn;
use webpki::{EndEntityCert, KeyUsage};

use super::error::SecurityError;
use super::identity::Identity;

/// The ALPN protocol of poll clients without HTTP/2 (RFC 7301).
const HTTP_1: &[u8] = b"http/1.1";

/// The TLS files of a server, all in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TlsFiles {
    /// The server's certificate, followed by the intermediate certificates.
    pub certificate: PathBuf,
    /// The private key of the certificate: PKCS #8, PKCS #1 or SEC 1.
    pub key: PathBuf,
    /// The certificate authorities of clients. If set, every client must have a certificate; if not, none is requested.
    pub client_ca: Option<PathBuf>,
}

impl TlsFiles {
    /// Returns the files of a server that requests no certificates of its clients.
    pub fn new(certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        Self {
            certificate: certificate.into(),
            key: key.into(),
            client_ca: None,
        }
    }

    /// Requires certificates of clients, issued by these authorities. `None`: requests none.
    #[must_use]
    pub fn client_ca(mut self, file: impl Into<Option<PathBuf>>) -> Self {
        self.client_ca = file.into();
        self
    }
}

/// Protocols that a port offers by ALPN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Alpn {
    /// HTTP/2, and HTTP/1.1 for poll clients.
    Grpc,
    /// HTTP/1.1.
    Http1,
}

pub(super) fn open(
    files: &TlsFiles,
    alpn: Alpn,
) -> Result<Reloadable<ServerConfig, SecurityError>, SecurityError> {
    let paths = [&files.certificate, &files.key].into_iter();
    let paths = paths.chain(&files.client_ca).cloned().collect();
    Reloadable::open(paths, move |paths, contents| config(paths, contents, alpn))
}

fn config(
    paths: &[PathBuf],
    contents: &Contents,
    alpn: Alpn,
) -> Result<ServerConfig, SecurityError> {
    // In the order of `open`.
    let ([chain_path, key_path, ca_path @ ..], [chain, key, ca @ ..]) = (paths, contents) else {
        let no_path = Path::new("");
        return Err(FileError::new(no_path, "certificate and key are both required").into());
    };
    let provider = Arc::new(ring::default_provider());
    let verifier: Arc<dyn ClientCertVerifier> = match (ca_path, ca) {
        ([path], [ca]) => {
            let mut roots = RootCertStore::empty();
            for certificate in pem::certificates(path, ca)? {
                let added = roots.add(certificate);
                added.map_err(|error| FileError::new(path, error))?;
            }
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
                .build()
                .map_err(|error| FileError::new(path, error))?
        }
        _ => Arc::new(NoClientAuth),
    };
    let chain = pem::certificates(chain_path, chain)?;
    if let Some(reason) = chain.first().and_then(not_valid_today) {
        warn!(certificate = %chain_path.display(), %reason, "certificate is not valid today, clients will reject it");
    }
    let invalid = |error| FileError::new(chain_path, error);
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13, &TLS12])
        .map_err(invalid)?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, pem::key(key_path, key)?)
        .map_err(|error| match error {
            Error::InconsistentKeys(_) => {
                let reason = format!("not the key of the certificate in {}", chain_path.display());
                FileError::new(key_path, reason)
            }
            error => invalid(error),
        })?;
    config.alpn_protocols = match alpn {
        Alpn::Grpc => vec![b"h2".to_vec(), HTTP_1.to_vec()],
        Alpn::Http1 => vec![HTTP_1.to_vec()],
    };
    Ok(config)
}

/// Returns why a certificate is not valid today. The server uses it anyway: its own clock may be wrong, and it loads
/// the next certificate when the file changes.
fn not_valid_today(certificate: &CertificateDer<'_>) -> Option<String> {
    let certificate = EndEntityCert::try_from(certificate).ok()?;
    let (now, usage) = (UnixTime::now(), KeyUsage::server_auth());
    // Without trust anchors: the checks of the certificate alone come before the search for its issuer, which fails.
    let verified = certificate.verify_for_usage(&[], &[], &[], now, usage, None, None);
    let days = |from: UnixTime, to: UnixTime| to.as_secs().saturating_sub(from.as_secs()) / 86_400;
    match verified.err()? {
        webpki::Error::CertExpired { not_after, .. } => {
            Some(format!("expired {} days ago", days(not_after, now)))
        }
        webpki::Error::CertNotValidYet { not_before, .. } => Some(format!(
            "not valid for another {} days",
            days(now, not_before)
        )),
        _ => None,
    }
}

/// Whether ALPN selected HTTP/1.1. A client without ALPN is taken for an old gRPC client.
pub(crate) fn speaks_http_1(connection: &ServerConnection) -> bool {
    connection.alpn_protocol() == Some(HTTP_1)
}

impl Identity {
    /// Returns the identity of the peer, or `None` if no certificate was requested.
    pub(crate) fn of_peer(connection: &ServerConnection) -> Option<Self> {
        connection.peer_certificates()?.first().map(Self::of)
    }
}
