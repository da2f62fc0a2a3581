//! Certificate revocation lists: which certificates their issuers have revoked (RFC 5280 §5, gRFC A69).

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use oxds_types::file::FileError;
use tokio_rustls::rustls::pki_types::CertificateRevocationListDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::{CertificateError, Error, RootCertStore};
use webpki::{
    CertRevocationList, EndEntityCert, ExpirationPolicy, KeyUsage, OwnedCertRevocationList,
    RevocationOptionsBuilder, UnknownStatusPolicy,
};

use crate::credentials::verifier::Presented;

/// Revocation lists by the name of their issuer.
///
/// A list is verified when a certificate of its issuer is. A list that is not signed by the issuer has no effect.
#[derive(Clone, Default)]
pub struct RevocationLists {
    by_issuer: BTreeMap<Vec<u8>, Vec<Arc<CertRevocationList<'static>>>>,
    /// Whether a certificate without a valid list of its issuer is rejected.
    denies_undetermined: bool,
}

impl RevocationLists {
    /// Makes an empty set. `denies_undetermined` decides whether a certificate with an undetermined status is rejected:
    /// the list of its issuer is missing, has expired, or is not signed by the issuer (gRFC A69).
    #[must_use]
    pub fn new(denies_undetermined: bool) -> Self {
        Self {
            by_issuer: BTreeMap::new(),
            denies_undetermined,
        }
    }

    /// Adds the lists of a file, in PEM or DER. The path is for errors.
    ///
    /// # Errors
    /// The file has no list, or an invalid one. Then none of its lists is added.
    pub fn add(&mut self, path: &Path, contents: &[u8]) -> Result<(), FileError> {
        let invalid = |error: &dyn fmt::Display| {
            FileError::new(path, format_args!("invalid revocation list: {error}"))
        };
        let is_pem = contents
            .windows(b"-----BEGIN".len())
            .any(|window| window == b"-----BEGIN");
        let ders = if is_pem {
            CertificateRevocationListDer::pem_slice_iter(contents)
                .collect::<Result<Vec<_>, _>>()
                .map_err(|error| invalid(&error))?
        } else {
            vec![CertificateRevocationListDer::from(contents)]
        };
        if ders.is_empty() {
            return Err(FileError::new(path, "no revocation list found"));
        }
        let lists = ders.iter().map(|der| {
            let list = OwnedCertRevocationList::from_der(der);
            list.map(CertRevocationList::from)
                .map_err(|error| invalid(&format_args!("{error:?}")))
        });
        for list in lists.collect::<Result<Vec<_>, _>>()? {
            let of_issuer = self.by_issuer.entry(list.issuer().to_vec());
            of_issuer.or_default().push(Arc::new(list));
        }
        Ok(())
    }

    /// Adds the lists of issuers that this set lacks, so lists that could not be read stay as they were (gRFC A69).
    pub(super) fn keep(&mut self, before: &Self) {
        for (issuer, lists) in &before.by_issuer {
            let of_issuer = self.by_issuer.entry(issuer.clone());
            of_issuer.or_insert_with(|| lists.clone());
        }
    }

    /// Checks a chain that has been verified otherwise.
    ///
    /// # Errors
    /// A certificate is revoked, or its status is undetermined and must not be.
    pub(super) fn check(
        &self,
        presented: &Presented<'_>,
        roots: &RootCertStore,
        usage: KeyUsage,
    ) -> Result<(), Error> {
        let Presented {
            end_entity,
            intermediates,
            now,
            algorithms,
        } = *presented;
        let bad_encoding = |_| Error::from(CertificateError::BadEncoding);
        let own = EndEntityCert::try_from(end_entity).map_err(bad_encoding)?;
        let mut lists = self.of_issuer(own.issuer());
        for certificate in intermediates {
            // The peer may send certificates that do not belong to its chain.
            if let Ok(certificate) = EndEntityCert::try_from(certificate) {
                lists.extend(self.of_issuer(certificate.issuer()));
            }
        }
        let undetermined = || {
            if self.denies_undetermined {
                Err(CertificateError::UnknownRevocationStatus.into())
            } else {
                Ok(())
            }
        };
        let Ok(options) = RevocationOptionsBuilder::new(&lists) else {
            return undetermined();
        };
        // RFC 5280 §6.3: an expired list determines nothing. Where that is accepted, it still says what was revoked.
        let (status, expiration) = if self.denies_undetermined {
            (UnknownStatusPolicy::Deny, ExpirationPolicy::Enforce)
        } else {
            (UnknownStatusPolicy::Allow, ExpirationPolicy::Ignore)
        };
        let options = options
            .with_status_policy(status)
            .with_expiration_policy(expiration)
            .build();
        let verified = own.verify_for_usage(
            algorithms.all,
            &roots.roots,
            intermediates,
            now,
            usage,
            Some(options),
            None,
        );
        match verified {
            Ok(_) => Ok(()),
            Err(webpki::Error::CertRevoked) => Err(CertificateError::Revoked.into()),
            // The chain has been verified, so another error is one of the lists.
            Err(error) => {
                tracing::debug!(target: "oxds::credentials", ?error, "revocation status undetermined");
                undetermined()
            }
        }
    }

    fn of_issuer(&self, issuer: &[u8]) -> Vec<&CertRevocationList<'static>> {
        let lists = self.by_issuer.get(issuer).into_iter().flatten();
        lists.map(AsRef::as_ref).collect()
    }
}

impl fmt::Debug for RevocationLists {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RevocationLists({} issuers)", self.by_issuer.len())
    }
}
