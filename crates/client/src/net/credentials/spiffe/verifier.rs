//! Verifies servers by the authorities of their trust domain (gRFC A87).

use std::sync::Arc;

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
    CertificateError, DigitallySignedStruct, Error, OtherError, SignatureScheme,
};

use super::{BundleMap, id};

/// Verifier that uses the authorities of the server's own trust domain. It does not check the host name.
#[derive(Debug)]
pub(crate) struct SpiffeVerifier {
    bundles: BundleMap,
    algorithms: WebPkiSupportedAlgorithms,
}

/// Reason why a certificate has no usable SPIFFE ID.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum SpiffeError {
    #[error("the certificate has {0} URI names, expected one: its SPIFFE ID")]
    Names(usize),
    #[error("{id:?} is not a SPIFFE ID: it {fault}")]
    Id { id: String, fault: &'static str },
    #[error("trust domain {0:?} is not in the bundle map")]
    Domain(String),
}

impl SpiffeVerifier {
    pub(crate) fn new(bundles: BundleMap, provider: &CryptoProvider) -> Self {
        Self {
            bundles,
            algorithms: provider.signature_verification_algorithms,
        }
    }
}

/// Returns the trust domain of a certificate, which must have exactly one URI name: its SPIFFE ID.
fn trust_domain(certificate: &CertificateDer<'_>) -> Result<String, Error> {
    let certificate = webpki::EndEntityCert::try_from(certificate)
        .map_err(|_| Error::from(CertificateError::BadEncoding))?;
    let uris: Vec<_> = certificate.valid_uri_names().collect();
    // SPIFFE X509-SVID: a certificate has exactly one URI name, its SPIFFE ID.
    let [id] = uris[..] else {
        return Err(SpiffeError::Names(uris.len()).into());
    };
    let domain = id::trust_domain(id).map_err(|fault| SpiffeError::Id {
        id: id.to_owned(),
        fault,
    })?;
    Ok(domain.to_owned())
}

impl ServerCertVerifier for SpiffeVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let domain = trust_domain(end_entity)?;
        // gRFC A87: only the authorities of the certificate's own trust domain can verify it (C-258).
        let roots = self.bundles.roots(&domain);
        let roots = roots.ok_or(SpiffeError::Domain(domain))?;
        verify_server_cert_signed_by_trust_anchor(
            &ParsedCertificate::try_from(end_entity)?,
            roots,
            intermediates,
            now,
            self.algorithms.all,
        )?;
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

impl From<SpiffeError> for Error {
    fn from(error: SpiffeError) -> Self {
        CertificateError::Other(OtherError(Arc::new(error))).into()
    }
}
