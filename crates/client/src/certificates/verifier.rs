//! Verification of endpoints: chain, then names (gRFC A29, A87, A101).

use std::sync::Arc;

use oxds_core::resource::SanMatcher;
use tokio_rustls::rustls::client::verify_server_cert_signed_by_trust_anchor;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::server::ParsedCertificate;
use tokio_rustls::rustls::{CertificateError, Error, OtherError, RootCertStore};
use webpki::KeyUsage;

use super::material::{Trusted, TrustedRoots};
use super::names::Names;
use super::strength;
use crate::credentials::spiffe;
use crate::credentials::verifier::{Presented, ServerCheck};

/// Check of the certificates of endpoints.
#[derive(Debug)]
pub(super) struct EndpointCheck {
    pub(super) roots: Arc<TrustedRoots>,
    /// One of these names must match; any name if empty.
    pub(super) san_matchers: Vec<SanMatcher>,
    /// Whether the certificate must have the server name in place of the matchers.
    pub(super) checks_server_name: bool,
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

impl EndpointCheck {
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
            if found.have(server_name) {
                return Ok(());
            }
            return Err(NameError::NotServerName {
                found,
                expected: server_name.to_str().into_owned(),
            });
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

impl ServerCheck for EndpointCheck {
    fn check(&self, presented: Presented<'_>, server_name: &ServerName<'_>) -> Result<(), Error> {
        let (own, intermediates) = (presented.end_entity, presented.intermediates);
        let roots = self.roots(own)?;
        let verified = verify_server_cert_signed_by_trust_anchor(
            &ParsedCertificate::try_from(own)?,
            roots,
            intermediates,
            presented.now,
            presented.algorithms.all,
        );
        strength::explained(verified, own, intermediates)?;
        if let Some(lists) = self.roots.revocation() {
            lists.check(&presented, roots, KeyUsage::server_auth())?;
        }
        Ok(self.check_names(own, server_name)?)
    }
}
