//! Believes peers by the authorities of their own trust domain (gRFC A87).

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

/// Believes peers by the authorities of their own trust domain, whatever name they were asked for by.
#[derive(Debug)]
pub(crate) struct SpiffeVerifier {
    bundles: BundleMap,
    algorithms: WebPkiSupportedAlgorithms,
}

/// Why a certificate shows nobody in SPIFFE's sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum Stranger {
    #[error("the certificate has {0} URIs for a name, not the one of a SPIFFE ID")]
    Names(usize),
    #[error("{id:?} is no SPIFFE ID: it {fault}")]
    Id { id: String, fault: &'static str },
    #[error("the bundle map has no trust domain {0:?}")]
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

/// The trust domain of a certificate, which must have one URI for a name, and this a SPIFFE ID.
fn trust_domain(certificate: &CertificateDer<'_>) -> Result<String, Error> {
    let certificate = webpki::EndEntityCert::try_from(certificate)
        .map_err(|_| Error::from(CertificateError::BadEncoding))?;
    let uris: Vec<_> = certificate.valid_uri_names().collect();
    let [id] = uris[..] else {
        return Err(Stranger::Names(uris.len()).into());
    };
    let domain = id::trust_domain(id).map_err(|fault| Stranger::Id {
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
        let roots = self.bundles.roots(&domain);
        let roots = roots.ok_or(Stranger::Domain(domain))?;
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

impl From<Stranger> for Error {
    fn from(stranger: Stranger) -> Self {
        CertificateError::Other(OtherError(Arc::new(stranger))).into()
    }
}
