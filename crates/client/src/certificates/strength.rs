//! Weak keys and signatures of certificates, by name: rustls rejects them, with errors that do not say why.

use std::sync::Arc;

use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::{CertificateError, Error, OtherError};
use x509_cert::Certificate;
use x509_cert::der::asn1::{ObjectIdentifier, UintRef};
use x509_cert::der::{self, Decode as _, Reader as _, SliceReader};

/// Fewest bits of an RSA key (NIST SP 800-131A).
const MIN_RSA_BITS: usize = 2048;

/// Object identifier of RSA keys.
const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");

/// Object identifiers of signatures whose hash can be forged, with their names.
const WEAK_SIGNATURES: [(&str, &str); 6] = [
    ("1.2.840.113549.1.1.2", "md2WithRSAEncryption"),
    ("1.2.840.113549.1.1.4", "md5WithRSAEncryption"),
    ("1.2.840.113549.1.1.5", "sha1WithRSAEncryption"),
    ("1.2.840.10040.4.3", "dsa-with-sha1"),
    ("1.2.840.10045.4.1", "ecdsa-with-SHA1"),
    ("1.3.14.3.2.29", "sha1WithRSASignature"),
];

/// Weakness of a certificate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Weakness {
    #[error("the certificate has an RSA key of {0} bits: expected at least {MIN_RSA_BITS}")]
    Key(usize),
    #[error("the certificate is signed with {0}: expected SHA-256 or stronger")]
    Signature(&'static str),
}

/// Checks the key of a certificate, and its signature. The signature of a certificate by itself is not checked, because
/// no one verifies it. A certificate that cannot be read has no weakness.
pub(super) fn check(certificate: &[u8]) -> Result<(), Weakness> {
    let Ok(certificate) = Certificate::from_der(certificate) else {
        return Ok(());
    };
    check_key(&certificate)?;
    let signed = certificate.tbs_certificate();
    if signed.subject() == signed.issuer() {
        return Ok(());
    }
    let algorithm = certificate.signature_algorithm().oid.to_string();
    let mut weak = WEAK_SIGNATURES.into_iter();
    match weak.find(|(id, _)| *id == algorithm) {
        Some((_, name)) => Err(Weakness::Signature(name)),
        None => Ok(()),
    }
}

fn check_key(certificate: &Certificate) -> Result<(), Weakness> {
    let key = certificate.tbs_certificate().subject_public_key_info();
    if key.algorithm.oid != RSA {
        return Ok(());
    }
    match rsa_bits(key.subject_public_key.raw_bytes()) {
        Ok(bits) if bits < MIN_RSA_BITS => Err(Weakness::Key(bits)),
        _ => Ok(()),
    }
}

/// Returns the size of the modulus of an `RSAPublicKey` (RFC 8017 §A.1.1), in whole bytes, as ring counts.
fn rsa_bits(key: &[u8]) -> der::Result<usize> {
    SliceReader::new(key)?.sequence(|fields| {
        let modulus = UintRef::decode(fields)?;
        let _exponent = UintRef::decode(fields)?;
        Ok(8 * modulus.as_bytes().len())
    })
}

/// Replaces the result of a verification by the weakness that makes the handshake fail, if any: of the peer's own
/// certificate, or, if the verification has failed, of any in its chain.
pub(super) fn explained<T>(
    verified: Result<T, Error>,
    end_entity: &CertificateDer<'_>,
    intermediates: &[CertificateDer<'_>],
) -> Result<T, Error> {
    check(end_entity)?;
    let fails = matches!(verified, Err(Error::InvalidCertificate(_)));
    for certificate in intermediates.iter().filter(|_| fails) {
        check(certificate)?;
    }
    verified
}

impl From<Weakness> for Error {
    fn from(weakness: Weakness) -> Self {
        CertificateError::Other(OtherError(Arc::new(weakness))).into()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tokio_rustls::rustls::client::danger::ServerCertVerifier as _;
    use tokio_rustls::rustls::crypto::ring;
    use tokio_rustls::rustls::pki_types::pem::PemObject as _;
    use tokio_rustls::rustls::pki_types::{ServerName, UnixTime};

    use super::*;
    use crate::certificates::client_verifier::client_verifier;
    use crate::certificates::verifier::EndpointCheck;
    use crate::certificates::{Identity, TrustedRoots};
    use crate::credentials::verifier::Verifier;

    const CA: &str = include_str!("../../testdata/weak/ca.pem");
    const RSA_1024: [&str; 2] = [
        include_str!("../../testdata/weak/rsa1024.pem"),
        include_str!("../../testdata/weak/rsa1024.key"),
    ];
    const SHA_1: [&str; 2] = [
        include_str!("../../testdata/weak/sha1.pem"),
        include_str!("../../testdata/weak/sha1.key"),
    ];
    const CASES: [([&str; 2], &str); 2] = [
        (
            RSA_1024,
            "the certificate has an RSA key of 1024 bits: expected at least 2048",
        ),
        (
            SHA_1,
            "the certificate is signed with sha1WithRSAEncryption: expected SHA-256 or stronger",
        ),
    ];

    #[test]
    fn a29_weak_own_certificate_is_named() {
        let (chain, key) = (Path::new("own.pem"), Path::new("own.key"));
        for ([certificate, private], expected) in CASES {
            let read = |text: &str| {
                let identity =
                    Identity::from_pem((chain, text.as_bytes()), (key, private.as_bytes()));
                identity.unwrap_err().to_string()
            };
            assert_eq!(read(certificate), format!("own.pem: {expected}"));
            let second = [certificate, CA].concat();
            let expected = format!("own.pem: certificate 1 of 2: {expected}");
            assert_eq!(read(&second), expected);
        }
    }

    #[test]
    fn a29_weak_peer_certificate_is_named() {
        let provider = Arc::new(ring::default_provider());
        let roots = TrustedRoots::from_pem(Path::new("ca.pem"), CA.as_bytes()).unwrap();
        let roots = Arc::new(roots);
        let endpoints = EndpointCheck {
            roots: Arc::clone(&roots),
            san_matchers: Vec::new(),
            checks_server_name: false,
        };
        let servers = Verifier::new(endpoints, &provider);
        let clients = client_verifier(&roots, true, &provider).unwrap();
        let name = ServerName::try_from("server.example").unwrap();
        let text = |error: Error| match error {
            Error::InvalidCertificate(CertificateError::Other(reason)) => reason.to_string(),
            other => panic!("{other}"),
        };
        for ([certificate, _], expected) in CASES {
            let own = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
            let now = UnixTime::now();
            let server = servers.verify_server_cert(&own, &[], &name, &[], now);
            assert_eq!(text(server.unwrap_err()), expected);
            let client = clients.verify_client_cert(&own, &[], now);
            assert_eq!(text(client.unwrap_err()), expected);
        }
        // An authority's signature by itself proves nothing, so its hash does not matter.
        let authority = CertificateDer::from_pem_slice(CA.as_bytes()).unwrap();
        assert_eq!(check(&authority), Ok(()));
    }
}
