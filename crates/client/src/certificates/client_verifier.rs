//! Verification of the clients of a server: chain, then revocation (gRFC A29, A69, A87).

use std::collections::HashMap;
use std::sync::Arc;

use tokio_rustls::rustls::crypto::CryptoProvider;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use tokio_rustls::rustls::{DistinguishedName, Error, RootCertStore};
use webpki::KeyUsage;

use super::material::{Trusted, TrustedRoots};
use super::revocation::RevocationLists;
use super::strength;
use crate::credentials::spiffe;
use crate::credentials::verifier::{ClientCheck, Presented, Verifier};

/// Check of the certificates of clients.
#[derive(Debug)]
struct PeerCheck {
    authorities: Authorities,
    revocation: Option<Arc<RevocationLists>>,
    is_required: bool,
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
    let check = PeerCheck {
        authorities,
        revocation: roots.revocation().cloned(),
        is_required,
    };
    Ok(Arc::new(Verifier::new(check, provider)))
}

impl PeerCheck {
    /// Returns the authorities that may have issued the certificate.
    fn chain_verifier(&self, certificate: &CertificateDer<'_>) -> Result<&ChainVerifier, Error> {
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

impl ClientCheck for PeerCheck {
    fn check(&self, presented: Presented<'_>) -> Result<(), Error> {
        let (own, intermediates) = (presented.end_entity, presented.intermediates);
        let ChainVerifier { roots, verifier } = self.chain_verifier(own)?;
        let verified = verifier.verify_client_cert(own, intermediates, presented.now);
        strength::explained(verified, own, intermediates)?;
        if let Some(lists) = &self.revocation {
            lists.check(&presented, roots, KeyUsage::client_auth())?;
        }
        Ok(())
    }

    fn authorities(&self) -> &[DistinguishedName] {
        match &self.authorities {
            Authorities::Same(chain) => chain.verifier.root_hint_subjects(),
            Authorities::ByDomain(_) => &[],
        }
    }

    fn is_required(&self) -> bool {
        self.is_required
    }
}
