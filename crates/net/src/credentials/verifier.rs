//! The TLS verifier of servers and clients. It checks the signature of the handshake; the check of the certificates is
//! a parameter.

use std::fmt::Debug;

use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use tokio_rustls::rustls::{DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

/// Certificates that a peer presents, at the time of the handshake.
#[derive(Debug, Clone, Copy)]
pub struct Presented<'a> {
    /// Certificate of the peer itself.
    pub end_entity: &'a CertificateDer<'a>,
    /// The certificates between it and an authority, which may contain others.
    pub intermediates: &'a [CertificateDer<'a>],
    /// Current time.
    pub now: UnixTime,
    /// Signature algorithms that are accepted.
    pub algorithms: &'a WebPkiSupportedAlgorithms,
}

/// Check of the certificates of servers.
pub trait ServerCheck: Debug + Send + Sync {
    /// Accepts the certificates of a server, or returns why not.
    ///
    /// # Errors
    /// The certificates are invalid, or they are not those of this server.
    fn check(&self, presented: Presented<'_>, server: &ServerName<'_>) -> Result<(), Error>;
}

/// Check of the certificates of clients.
pub trait ClientCheck: Debug + Send + Sync {
    /// Accepts the certificates of a client, or returns why not.
    ///
    /// # Errors
    /// The certificates are invalid.
    fn check(&self, presented: Presented<'_>) -> Result<(), Error>;

    /// Returns the names of the authorities that a server sends to clients; empty to send none.
    fn authorities(&self) -> &[DistinguishedName];

    /// Returns whether a client must present a certificate.
    fn is_required(&self) -> bool;
}

/// Verifier of peers by this check.
#[derive(Debug)]
pub struct Verifier<C> {
    check: C,
    algorithms: WebPkiSupportedAlgorithms,
}

impl<C> Verifier<C> {
    /// Creates a verifier that accepts the signature algorithms of this provider.
    #[must_use]
    pub fn new(check: C, provider: &CryptoProvider) -> Self {
        Self {
            check,
            algorithms: provider.signature_verification_algorithms,
        }
    }

    fn presented<'a>(
        &'a self,
        end_entity: &'a CertificateDer<'a>,
        intermediates: &'a [CertificateDer<'a>],
        now: UnixTime,
    ) -> Presented<'a> {
        Presented {
            end_entity,
            intermediates,
            now,
            algorithms: &self.algorithms,
        }
    }
}

/// The methods that the two traits of rustls share.
macro_rules! handshake_signatures {
    () => {
        fn verify_tls12_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            verify_tls12_signature(message, certificate, signed, &self.algorithms)
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            verify_tls13_signature(message, certificate, signed, &self.algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.algorithms.supported_schemes()
        }
    };
}

impl<C: ServerCheck> ServerCertVerifier for Verifier<C> {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let presented = self.presented(end_entity, intermediates, now);
        self.check.check(presented, server)?;
        Ok(ServerCertVerified::assertion())
    }

    handshake_signatures!();
}

impl<C: ClientCheck> ClientCertVerifier for Verifier<C> {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.check.authorities()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.check.is_required()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let presented = self.presented(end_entity, intermediates, now);
        self.check.check(presented)?;
        Ok(ClientCertVerified::assertion())
    }

    handshake_signatures!();
}
