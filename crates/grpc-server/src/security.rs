//! Security of a connection: its handshake, and who its client is.

use std::io;

use http::Extensions;
use oxds_core::rbac::Security;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::credentials::{Fallback, FallbackCredentials};
use crate::handshake::Prefaced;
use crate::serving::ChainSecurity;

#[cfg(feature = "tls")]
use std::sync::Arc;

#[cfg(feature = "tls")]
use oxds_client::certificates::{Accepted, Peer};
#[cfg(feature = "tls")]
use oxds_core::rbac::PeerIdentity;
#[cfg(feature = "tls")]
use tokio_rustls::TlsAcceptor;
#[cfg(feature = "tls")]
use tokio_rustls::rustls::pki_types::CertificateDer;
#[cfg(feature = "tls")]
use tokio_rustls::server::TlsStream;

/// Verified certificates of a client, its own first: in the extensions of requests over TLS, if the client has a
/// certificate.
///
/// It takes the place of `tonic::Request::peer_certs`, which needs the TLS of tonic's own server.
#[cfg(feature = "tls")]
#[derive(Clone, Debug)]
pub struct PeerCertificates(pub Arc<[CertificateDer<'static>]>);

/// A connection whose handshake is complete.
pub(crate) struct Opened {
    pub(crate) io: Prefaced<Box<dyn Io>>,
    pub(crate) identity: Identity,
}

/// Bytes of a connection, inside its security.
pub(crate) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// Identity of the client of a connection.
#[derive(Debug, Default)]
pub(crate) struct Identity {
    #[cfg(feature = "tls")]
    tls: Option<TlsIdentity>,
}

#[cfg(feature = "tls")]
#[derive(Debug)]
struct TlsIdentity {
    /// `None` if the client has no certificate.
    names: Option<PeerIdentity>,
    peer: Arc<Peer>,
    certificates: Option<PeerCertificates>,
}

impl Identity {
    /// Returns what the rules of authorization see.
    pub(crate) fn security(&self) -> Security<'_> {
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            return Security::Tls(tls.names.as_ref());
        }
        Security::Plaintext
    }

    /// Adds what services see to the extensions of a request.
    pub(crate) fn extend(&self, extensions: &mut Extensions) {
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            if let Some(certificates) = &tls.certificates {
                extensions.insert(certificates.clone());
            }
            extensions.insert(Arc::clone(&tls.peer));
        }
        #[cfg(not(feature = "tls"))]
        let _ = extensions;
    }
}

/// Completes the handshake of a connection.
///
/// # Errors
/// `InvalidData` if its security fails, or the client speaks another protocol.
pub(crate) async fn open(
    socket: TcpStream,
    security: &ChainSecurity,
    fallback: &FallbackCredentials,
) -> io::Result<Opened> {
    // Without TCP_NODELAY a response is at most 40 ms late: not worth a failure.
    drop(socket.set_nodelay(true));
    let (io, identity): (Box<dyn Io>, _) = match (security, &fallback.0) {
        (ChainSecurity::Fallback, Fallback::Plaintext) => (Box::new(socket), Identity::default()),
        #[cfg(feature = "tls")]
        (ChainSecurity::Fallback, Fallback::Tls(config)) => {
            let stream = TlsAcceptor::from(Arc::clone(config)).accept(socket).await?;
            // Rules apply to the names that the fallback has verified, too: otherwise a rule that denies one of them
            // would have no effect.
            let (_, tls) = stream.get_ref();
            let own = tls.peer_certificates().and_then(<[_]>::first);
            let peer = Peer::new(own, tls.server_name());
            let identity = identity(&stream, peer);
            (Box::new(stream), identity)
        }
        // gRFC A29: a chain with TLS never uses the fallback.
        #[cfg(feature = "tls")]
        (ChainSecurity::Tls(tls), _) => {
            let Accepted { stream, peer } = tls.accept(socket).await?;
            let identity = identity(&stream, peer);
            (Box::new(stream), identity)
        }
        #[cfg(not(feature = "tls"))]
        (ChainSecurity::Unsupported, _) => {
            let text = "the filter chain has a TLS configuration, and the feature tls of oxds-grpc-server is off";
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
    };
    let io = Prefaced::read(io).await?;
    Ok(Opened { io, identity })
}

#[cfg(feature = "tls")]
fn identity(stream: &TlsStream<TcpStream>, peer: Peer) -> Identity {
    let names = peer.is_authenticated.then(|| PeerIdentity {
        uri_sans: peer.uri_sans.clone(),
        dns_sans: peer.dns_sans.clone(),
        subject: peer.subject.clone().unwrap_or_default(),
    });
    let certificates = stream.get_ref().1.peer_certificates();
    let certificates =
        certificates.map(|chain| chain.iter().cloned().map(CertificateDer::into_owned));
    Identity {
        tls: Some(TlsIdentity {
            names,
            peer: Arc::new(peer),
            certificates: certificates.map(|chain| PeerCertificates(chain.collect())),
        }),
    }
}
