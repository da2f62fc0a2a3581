//! Contents of providers: a certificate with its key, and certificate authorities.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use oxds_types::file::FileError;
use oxds_types::pem;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{Error, RootCertStore};
use x509_cert::Certificate;
use x509_cert::der::Decode as _;
use x509_cert::time::Time;

use super::revocation::RevocationLists;
use super::strength;
use crate::credentials::roots;
use crate::credentials::spiffe::BundleMap;

/// Certificate chain of this process, with its private key.
pub struct Identity {
    key: Arc<CertifiedKey>,
    /// End of the certificate's validity, in seconds since 1970.
    not_after: i64,
}

/// Certificate authorities that peers are verified with, and the certificates that they have revoked.
#[derive(Debug, Clone)]
pub struct TrustedRoots {
    trusted: Trusted,
    revocation: Option<Arc<RevocationLists>>,
}

#[derive(Debug, Clone)]
pub(super) enum Trusted {
    /// The same authorities for all peers.
    Authorities(Arc<RootCertStore>),
    /// Authorities of each trust domain (gRFC A87).
    Bundles(Arc<BundleMap>),
}

impl Identity {
    /// Reads a certificate chain and its private key. The paths are for errors.
    ///
    /// # Errors
    /// A text is not PEM; the key is encrypted, weak or of another certificate; the certificate has expired, or is not
    /// yet valid; a key in the chain is weak, or signed with SHA-1. The error has the path.
    pub fn from_pem(chain: (&Path, &[u8]), key: (&Path, &[u8])) -> Result<Self, FileError> {
        let certificates = pem::certificates(chain.0, chain.1)?;
        let not_after = certificates.first().map_or(Ok(i64::MAX), |first| {
            check_validity(first, now()).map_err(|fault| FileError::new(chain.0, fault))
        })?;
        let count = certificates.len();
        for (index, certificate) in certificates.iter().enumerate() {
            let fault = |fault: &dyn fmt::Display| of_several(chain.0, index, count, fault);
            Certificate::from_der(certificate)
                .map_err(|error| fault(&format_args!("invalid certificate: {error}")))?;
            strength::check(certificate).map_err(|weakness| fault(&weakness))?;
        }
        let private = pem::key(key.0, key.1)?;
        let identity = CertifiedKey::from_der(certificates, private, &ring::default_provider());
        match identity {
            Ok(identity) => Ok(Self {
                key: Arc::new(identity),
                not_after,
            }),
            Err(Error::InconsistentKeys(_)) => {
                let reason = format!("is not the key of {}", chain.0.display());
                Err(FileError::new(key.0, reason))
            }
            Err(error @ Error::InvalidCertificate(_)) => Err(FileError::new(chain.0, error)),
            // rustls: the key type is unknown, or the key is too short.
            Err(error) => Err(FileError::new(key.0, error)),
        }
    }

    pub(super) fn key(&self) -> &Arc<CertifiedKey> {
        &self.key
    }

    /// Returns the same identity with another end of its validity, in seconds since 1970.
    #[cfg(test)]
    pub(super) fn valid_until(&self, not_after: i64) -> Self {
        Self {
            key: Arc::clone(&self.key),
            not_after,
        }
    }

    /// Returns whether the certificate has expired since it was read.
    pub(super) fn has_expired(&self) -> bool {
        now() > self.not_after
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.key.cert.len();
        write!(f, "Identity({count} certificates)")
    }
}

impl TrustedRoots {
    /// Reads authorities from PEM. The path is for errors.
    ///
    /// # Errors
    /// The text has no certificate, or one of them is invalid: a partial set of authorities is not used.
    pub fn from_pem(path: &Path, pem: &[u8]) -> Result<Self, FileError> {
        let roots = roots::authorities(path, pem)?;
        Ok(Self::new(Trusted::Authorities(Arc::new(roots))))
    }

    fn new(trusted: Trusted) -> Self {
        Self {
            trusted,
            revocation: None,
        }
    }

    /// Rejects certificates that these lists revoke (gRFC A69).
    #[must_use]
    pub fn with_revocation_lists(mut self, lists: Arc<RevocationLists>) -> Self {
        self.revocation = Some(lists);
        self
    }

    /// Reads a SPIFFE bundle map from JSON (gRFC A87). The path is for errors.
    ///
    /// # Errors
    /// The position in the map, and the rule that is broken.
    pub fn from_bundle_map(path: &Path, json: &[u8]) -> Result<Self, FileError> {
        let map = BundleMap::parse(json).map_err(|fault| FileError::new(path, fault))?;
        Ok(Self::new(Trusted::Bundles(Arc::new(map))))
    }

    /// Loads the authorities that the operating system trusts (gRFC A82).
    ///
    /// # Errors
    /// The system has no valid certificate authority.
    pub fn of_system() -> Result<Self, FileError> {
        let roots = roots::of_system()?;
        Ok(Self::new(Trusted::Authorities(Arc::new(roots))))
    }

    pub(super) fn trusted(&self) -> &Trusted {
        &self.trusted
    }

    pub(super) fn revocation(&self) -> Option<&Arc<RevocationLists>> {
        self.revocation.as_ref()
    }
}

/// Returns seconds since 1970.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
    })
}

/// Returns an error about a certificate of a file, with its place if the file has several.
fn of_several(path: &Path, index: usize, count: usize, fault: &dyn fmt::Display) -> FileError {
    match count {
        1 => FileError::new(path, fault),
        _ => FileError::new(
            path,
            format_args!("certificate {} of {count}: {fault}", index + 1),
        ),
    }
}

/// Checks that a certificate is valid at a time, in seconds since 1970. Peers would reject it otherwise, with a worse
/// error. Returns the end of its validity.
fn check_validity(certificate: &[u8], now: i64) -> Result<i64, String> {
    let parsed = Certificate::from_der(certificate)
        .map_err(|error| format!("invalid certificate: {error}"))?;
    let validity = parsed.tbs_certificate().validity();
    let (from, until) = (validity.not_before, validity.not_after);
    if now < seconds(from) {
        return Err(format!("the certificate is not valid before {from}"));
    }
    if now > seconds(until) {
        return Err(format!(
            "the certificate has expired: it was valid until {until}"
        ));
    }
    Ok(seconds(until))
}

/// Returns a time as seconds since 1970.
fn seconds(time: Time) -> i64 {
    i64::try_from(time.to_unix_duration().as_secs()).unwrap_or(i64::MAX)
}
