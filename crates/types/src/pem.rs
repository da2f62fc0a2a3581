//! Certificates and keys in PEM, with the name of their file in every complaint.

use std::path::Path;

use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use crate::live::FileError;

/// All certificates of a file; there is at least one.
///
/// # Errors
/// There is none, or something is not PEM.
pub fn certificates(path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, FileError> {
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|error| FileError::new(path, error))?;
    if certificates.is_empty() {
        return Err(FileError::new(path, "no certificate in it"));
    }
    Ok(certificates)
}

/// A private key: PKCS #8, PKCS #1 or SEC 1.
///
/// # Errors
/// There is none, or it is not PEM.
pub fn key(path: &Path, pem: &[u8]) -> Result<PrivateKeyDer<'static>, FileError> {
    PrivateKeyDer::from_pem_slice(pem).map_err(|error| FileError::new(path, error))
}
