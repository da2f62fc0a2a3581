//! Verification of the clients of a server: chain, then revocation (gRFC A29, A69, A87).

use std::collections::HashMap;
use std::sync::Arc;

use tokio_rustls::rustls::client::danger::HandshakeSignatureValid;
use tokio_rustls::rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use tokio_rustls::rustls::pki_types::{CertificateDer, UnixTime};
use tokio_rustls::rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use tokio_rustls::rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use tokio_rustls::rustls::{
    DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme,
};
use webpki::KeyUsage;

use super::material::{Trusted, TrustedRoots};
use super::revocation::RevocationLists;
use super::strength;
use crate::credentials::spiffe;

/// Verifier of clients.
#[derive(Debug)]
struct PeerVerifier {
    authorities: Authorities,
    revocation: Option<Arc<RevocationLists>>,
    is_required: bool,
    algorithms: WebPkiSupportedAlgorithms,
}

/// Authorities, with the verifier of the chains that they issue.
#[derive(Debug)]
enum Authorities {
    /// The same for all clients.
    Same(ChainVerifier),
    /// By trust domain (gRFC A87).
    ByDomain(HashMap<String, ChainVerifier>),
}

#[derive(Debug)]
struct ChainVerifier {
    roots: Arc<RootCertStore>,
    verifier: Arc<dyn ClientCertVerifier>,
}

/// Returns the verifier of the clients of a server.
///
/// # Errors
/// A trust domain, or the whole set, has no authority.
pub(super) fn client_verifier(
    roots: &TrustedRoots,
    is_required: bool,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, VerifierBuilderError> {
    let chain = |roots: Arc<RootCertStore>| {
        let of_roots = Arc::clone(&roots);
        let builder = WebPkiClientVerifier::builder_with_provider(of_roots, Arc::clone(provider));
        let verifier = builder.build()?;
        Ok::<_, VerifierBuilderError>(ChainVerifier { roots, verifier })
    };
    let authorities = match roots.trusted() {
        Trusted::Authorities(roots) => Authorities::Same(chain(Arc::clone(roots))?),
        Trusted::Bundles(bundles) => {
            let domains = bundles.domains().filter(|(_, roots)| !roots.is_empty());
            let domains = domains.map(|(domain, roots)| {
                Ok::<_, VerifierBuilderError>((domain.to_owned(), chain(Arc::new(roots.clone()))?))
            });
            Authorities::ByDomain(domains.collect::<Result<_, VerifierBuilderError>>()?)
        }
    };
    Ok(Arc::new(PeerVerifier {
        authorities,
        revocation: roots.revocation().cloned(),
        is_required,
        algorithms: provider.signature_verification_algorithms,
    }))
}

impl PeerVerifier {
    /// Returns the authorities that may have issued the certificate.
    fn authorities(&self, certificate: &CertificateDer<'_>) -> Result<&ChainVerifier, Error> {
        match &self.authorities {
            Authorities::Same(chain) => Ok(chain),
            // gRFC A87: only those of the certificate's own trust domain (C-258).
            Authorities::ByDomain(domains) => {
                let domain = spiffe::trust_domain(certificate)?;
                let chain = domains.get(&domain);
                chain.ok_or_else(|| spiffe::unknown_domain(domain))
            }
        }
    }
}

impl ClientCertVerifier for PeerVerifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        match &self.authorities {
            Authorities::Same(chain) => chain.verifier.root_hint_subjects(),
            Authorities::ByDomain(_) => &[],
        }
    }

    fn client_auth_mandatory(&self) -> bool {
        self.is_required
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let ChainVerifier { roots, verifier } = self.authorities(end_entity)?;
        let verified = verifier.verify_client_cert(end_entity, intermediates, now);
        let verified = strength::explained(verified, end_entity, intermediates)?;
        if let Some(lists) = &self.revocation {
            let chain = (end_entity, intermediates);
            lists.check(chain, roots, KeyUsage::client_auth(), now, &self.algorithms)?;
        }
        Ok(verified)
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
