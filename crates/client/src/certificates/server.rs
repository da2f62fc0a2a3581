//! TLS of the connections that a server accepts.

use std::io;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use oxds_core::resource::DownstreamTls;
use oxds_net::transport::Http;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::server::Acceptor;
use tokio_rustls::rustls::sign::SingleCertAndKey;
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{self, ServerConfig};
use tokio_rustls::server::TlsStream;

use super::client_verifier::client_verifier;
use super::error::TlsError;
use super::explain::{Side, explain};
use super::instance::CertificateProviders;
use super::material::{Identity, TrustedRoots};
use super::peer::Peer;
use super::shared::SharedValues;
use super::source::{RootSource, Source};
use crate::credentials::handshake::{invalid, readable};

/// TLS of the connections that filter chains with the same security accept.
///
/// Equal [`DownstreamTls`] with equal provider instances share one value in the process, and so one rustls
/// configuration.
#[derive(Debug)]
pub struct ServerTls {
    settings: Arc<Settings>,
    config: Mutex<Option<BuiltConfig>>,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Settings {
    view: DownstreamTls,
    identity: Source,
    roots: Option<RootSource>,
}

/// A configuration, and the certificates that it was made of.
#[derive(Debug)]
struct BuiltConfig {
    identity: Arc<Identity>,
    roots: Option<Arc<TrustedRoots>>,
    config: Arc<ServerConfig>,
}

/// An accepted connection.
#[derive(Debug)]
pub struct Accepted<S> {
    /// Stream inside TLS.
    pub stream: TlsStream<S>,
    /// Client of the connection.
    pub peer: Peer,
}

impl ServerTls {
    /// Returns the TLS of filter chains with this view, with the provider instances of a bootstrap. An instance that it
    /// does not have is an error of each handshake.
    #[must_use]
    pub fn shared(view: &DownstreamTls, providers: &CertificateProviders) -> Arc<Self> {
        static IN_USE: OnceLock<SharedValues<Arc<Settings>, ServerTls>> = OnceLock::new();
        let roots = view.roots.as_ref();
        let settings = Arc::new(Settings {
            identity: Source::new(&view.identity, providers),
            roots: roots.map(|roots| RootSource::new(roots, providers)),
            view: view.clone(),
        });
        let in_use = IN_USE.get_or_init(SharedValues::default);
        in_use.get(settings, |settings| Self {
            settings: Arc::clone(settings),
            config: Mutex::default(),
        })
    }

    /// Returns the configuration of the next handshake: the last one, unless a provider has another certificate now.
    ///
    /// # Errors
    /// The certificate or the authorities are missing.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub async fn config(&self) -> Result<Arc<ServerConfig>, TlsError> {
        let identity = self.settings.identity.identity().await?;
        let roots = match &self.settings.roots {
            Some(source) => Some(source.roots().await?),
            None => None,
        };
        let mut built = self.config.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(built) = &*built {
            let same_roots = match (&built.roots, &roots) {
                (Some(one), Some(other)) => Arc::ptr_eq(one, other),
                (None, None) => true,
                _ => false,
            };
            if same_roots && Arc::ptr_eq(&built.identity, &identity) {
                return Ok(Arc::clone(&built.config));
            }
        }
        let config = Arc::new(self.build(&identity, roots.as_deref())?);
        *built = Some(BuiltConfig {
            identity,
            roots,
            config: Arc::clone(&config),
        });
        Ok(config)
    }

    fn build(
        &self,
        identity: &Identity,
        roots: Option<&TrustedRoots>,
    ) -> Result<ServerConfig, TlsError> {
        let unusable = |error: rustls::Error| TlsError::Config(error.to_string());
        let provider = Arc::new(ring::default_provider());
        let config = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13, &TLS12])
            .map_err(unusable)?;
        let config = match roots {
            Some(roots) => {
                let is_required = self.settings.view.require_client_certificate;
                let verifier = client_verifier(roots, is_required, &provider)
                    .map_err(|error| TlsError::Config(error.to_string()))?;
                config.with_client_cert_verifier(verifier)
            }
            None => config.with_no_client_auth(),
        };
        let key = SingleCertAndKey::from(Arc::clone(identity.key()));
        let mut config = config.with_cert_resolver(Arc::new(key));
        config.alpn_protocols = vec![Http::Two.alpn().to_vec()];
        // Tickets need no memory of the server, however many clients it has. A new certificate means a new key of
        // tickets, so that no session outlives the authorities that verified it.
        config.ticketer = ring::Ticketer::new().map_err(unusable)?;
        Ok(config)
    }

    /// Performs the handshake of an accepted connection. The caller limits its time.
    ///
    /// # Errors
    /// The certificate of this process is missing; the client's certificate is missing or invalid; the client does not
    /// speak HTTP/2.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection.
    pub async fn accept<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        socket: S,
    ) -> io::Result<Accepted<S>> {
        let roots = self.settings.roots.as_ref();
        let config = self.config().await?;
        let started = LazyConfigAcceptor::new(Acceptor::default(), socket).await;
        let hello = started.map_err(|error| explain(readable(error), Side::Client, roots))?;
        let accepted = hello.into_stream(config).await;
        let stream =
            accepted.map_err(|error| explain(left(readable(error)), Side::Client, roots))?;
        let connection = stream.get_ref().1;
        // RFC 9113 §3.2: HTTP/2 over TLS must be agreed by ALPN.
        if connection.alpn_protocol() != Some(Http::Two.alpn()) {
            return Err(invalid("ALPN: the client did not offer \"h2\""));
        }
        let certificate = connection
            .peer_certificates()
            .and_then(|chain| chain.first());
        let peer = Peer::new(certificate, connection.server_name());
        Ok(Accepted { stream, peer })
    }
}

/// Names the likely cause if a client leaves after its first message. One that sends nothing may be a probe of the
/// port.
fn left(error: io::Error) -> io::Error {
    match error.kind() {
        // RFC 8446 §6.2: a client that denies the certificate sends an alert; C-core, for one, sends none.
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => invalid(
            "the client closed the connection during the handshake, without an alert: it may not accept the certificate of this server",
        ),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use oxds_core::resource::CertificateInstance;
    use rcgen::{CertificateParams, KeyPair};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio_rustls::rustls::pki_types::ServerName;
    use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore};

    use super::*;
    use crate::certificates::CertificateProviderInstance;
    use crate::credentials::{CertificateFiles, IdentityFiles};

    /// Returns the TLS of a server with a certificate, and the folder of its files.
    fn server() -> (Arc<ServerTls>, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let key = KeyPair::generate().unwrap();
        let names = vec!["server.example".to_owned()];
        let params = CertificateParams::new(names).unwrap();
        let files = IdentityFiles {
            certificate: folder.path().join("cert.pem"),
            key: folder.path().join("key.pem"),
        };
        std::fs::write(&files.certificate, params.self_signed(&key).unwrap().pem()).unwrap();
        std::fs::write(&files.key, key.serialize_pem()).unwrap();
        let instance = CertificateProviderInstance::file_watcher(
            &CertificateFiles::default().with_identity(files),
        );
        let view = DownstreamTls {
            identity: CertificateInstance {
                instance_name: "a".into(),
                certificate_name: "".into(),
            },
            roots: None,
            require_client_certificate: false,
        };
        let providers = CertificateProviders::from([("a".to_owned(), instance)]);
        (ServerTls::shared(&view, &providers), folder)
    }

    #[tokio::test]
    async fn client_that_leaves_after_its_hello_is_a_security_failure() {
        let (tls, _folder) = server();
        let (mut client, socket) = tokio::io::duplex(1 << 16);
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&TLS13])
            .unwrap()
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth();
        let name = ServerName::try_from("server.example").unwrap();
        let mut hello = Vec::new();
        let mut connection = ClientConnection::new(Arc::new(config), name).unwrap();
        connection.write_tls(&mut hello).unwrap();
        client.write_all(&hello).await.unwrap();
        let leaving = async move {
            // The first byte of the server's answer.
            client.read_u8().await.unwrap();
        };
        let (accepted, ()) = tokio::join!(tls.accept(socket), leaving);
        let error = accepted.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{error}");
        let expected = "the client closed the connection during the handshake, without an alert";
        assert!(error.to_string().starts_with(expected), "{error}");
    }

    #[tokio::test]
    async fn client_that_sends_nothing_is_no_security_failure() {
        let (tls, _folder) = server();
        let (client, socket) = tokio::io::duplex(1 << 16);
        drop(client);
        let error = tls.accept(socket).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{error}");
    }
}
