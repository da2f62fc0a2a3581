//! Verification of endpoints: chain, then names (gRFC A29, A87, A101).

use std::sync::Arc;

use oxds_core::resource::SanMatcher;
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::client::verify_server_cert_signed_by_trust_anchor;
use tokio_rustls::rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::server::ParsedCertificate;
use tokio_rustls::rustls::{
    CertificateError, DigitallySignedStruct, Error, OtherError, RootCertStore, SignatureScheme,
};
use webpki::KeyUsage;

use super::material::{Trusted, TrustedRoots};
use super::names::Names;
use super::strength;
use crate::credentials::spiffe;

/// Verifier of endpoints.
#[derive(Debug)]
pub(super) struct EndpointVerifier {
    roots: Arc<TrustedRoots>,
    /// Names of which one must match; any name if empty.
    san_matchers: Vec<SanMatcher>,
    /// Whether the certificate must have the server name in place of the matchers.
    checks_server_name: bool,
    algorithms: WebPkiSupportedAlgorithms,
}

/// Reason why the names of a certificate are wrong.
#[derive(Debug, Clone, thiserror::Error)]
enum NameError {
    #[error("the names of the certificate cannot be read: {0}")]
    Unreadable(String),
    #[error("no name of the certificate matches: it has {found}; expected one of {expected}")]
    NoMatch { found: Names, expected: String },
    #[error("the certificate does not have the server name: it has {found}; expected {expected:?}")]
    NotServerName { found: Names, expected: String },
}

impl EndpointVerifier {
    pub(super) fn new(
        roots: Arc<TrustedRoots>,
        san_matchers: Vec<SanMatcher>,
        checks_server_name: bool,
        provider: &CryptoProvider,
    ) -> Self {
        Self {
            roots,
            san_matchers,
            checks_server_name,
            algorithms: provider.signature_verification_algorithms,
        }
    }

    /// Returns the authorities that may have issued the certificate.
    fn roots(&self, certificate: &CertificateDer<'_>) -> Result<&RootCertStore, Error> {
        match self.roots.trusted() {
            Trusted::Authorities(roots) => Ok(roots),
            // gRFC A87: only those of the certificate's own trust domain (C-258).
            Trusted::Bundles(bundles) => spiffe::roots_of(bundles, certificate),
        }
    }

    fn check_names(
        &self,
        certificate: &CertificateDer<'_>,
        server_name: &ServerName<'_>,
    ) -> Result<(), NameError> {
        // gRFC A29: no names are checked without matchers, in particular not the host name (C-257).
        if self.san_matchers.is_empty() && !self.checks_server_name {
            return Ok(());
        }
        let found = Names::read(certificate).map_err(NameError::Unreadable)?;
        // gRFC A101: the server name that was sent replaces the matchers.
        if self.checks_server_name {
            return match found.have(server_name) {
                true => Ok(()),
                false => Err(NameError::NotServerName {
                    found,
                    expected: server_name.to_str().into_owned(),
                }),
            };
        }
        if found.match_any(&self.san_matchers) {
            return Ok(());
        }
        let expected = self.san_matchers.iter().map(ToString::to_string);
        Err(NameError::NoMatch {
            found,
            expected: expected.collect::<Vec<_>>().join(", "),
        })
    }
}

impl From<NameError> for Error {
    fn from(error: NameError) -> Self {
        CertificateError::Other(OtherError(Arc::new(error))).into()
    }
}

impl ServerCertVerifier for EndpointVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let roots = self.roots(end_entity)?;
        let verified = verify_server_cert_signed_by_trust_anchor(
            &ParsedCertificate::try_from(end_entity)?,
            roots,
            intermediates,
            now,
            self.algorithms.all,
        );
        strength::explained(verified, end_entity, intermediates)?;
        if let Some(lists) = self.roots.revocation() {
            let chain = (end_entity, intermediates);
            lists.check(chain, roots, KeyUsage::server_auth(), now, &self.algorithms)?;
        }
        self.check_names(end_entity, server_name)?;
        Ok(ServerCertVerified::assertion())
    }

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
}
