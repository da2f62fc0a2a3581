//! Trust domain of a peer's certificate, and the authorities of the domain.

use std::sync::Arc;

use tokio_rustls::rustls::client::verify_server_cert_signed_by_trust_anchor;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::server::ParsedCertificate;
use tokio_rustls::rustls::{CertificateError, Error, OtherError, RootCertStore};

use super::{BundleMap, id};
use crate::credentials::verifier::{Presented, ServerCheck};

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

/// Verifies servers by the authorities of their own trust domain. Does not check the host name (gRFC A87).
impl ServerCheck for BundleMap {
    fn check(&self, presented: Presented<'_>, _: &ServerName<'_>) -> Result<(), Error> {
        verify_server_cert_signed_by_trust_anchor(
            &ParsedCertificate::try_from(presented.end_entity)?,
            roots_of(self, presented.end_entity)?,
            presented.intermediates,
            presented.now,
            presented.algorithms.all,
        )
    }
}

/// Returns the authorities that may have issued a certificate: those of its own trust domain (gRFC A87; C-258).
///
/// # Errors
/// The certificate has no SPIFFE ID, or its trust domain is not in the map.
pub fn roots_of<'a>(
    bundles: &'a BundleMap,
    certificate: &CertificateDer<'_>,
) -> Result<&'a RootCertStore, Error> {
    let domain = trust_domain(certificate)?;
    match bundles.roots(&domain) {
        Some(roots) => Ok(roots),
        None => Err(unknown_domain(domain)),
    }
}

/// Returns the error that a trust domain is not in the map.
pub fn unknown_domain(domain: String) -> Error {
    SpiffeError::Domain(domain).into()
}

/// Returns the trust domain of a certificate, which must have exactly one URI name: its SPIFFE ID.
pub fn trust_domain(certificate: &CertificateDer<'_>) -> Result<String, Error> {
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

impl From<SpiffeError> for Error {
    fn from(error: SpiffeError) -> Self {
        CertificateError::Other(OtherError(Arc::new(error))).into()
    }
}
