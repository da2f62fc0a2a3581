//! Certificate authorities of files and of the operating system.

use std::path::Path;

use oxds_types::file::FileError;
use oxds_types::pem;
use tokio_rustls::rustls::RootCertStore;

/// Reads authorities from PEM. One invalid certificate makes the whole file invalid: a partial set must not be used.
///
/// # Errors
/// The file has no certificate, or an invalid one. The path is for the error.
pub fn authorities(path: &Path, pem: &[u8]) -> Result<RootCertStore, FileError> {
    let mut roots = RootCertStore::empty();
    let certificates = pem::certificates(path, pem)?;
    let count = certificates.len();
    for (index, certificate) in certificates.into_iter().enumerate() {
        roots.add(certificate).map_err(|error| match count {
            1 => FileError::new(path, error),
            _ => FileError::new(
                path,
                format_args!("certificate {} of {count}: {error}", index + 1),
            ),
        })?;
    }
    Ok(roots)
}

/// Loads the system's authorities. Invalid certificates are skipped, as other programs do.
///
/// # Errors
/// The system has no valid certificate.
pub fn of_system() -> Result<RootCertStore, FileError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let reasons: Vec<_> = found.errors.iter().map(ToString::to_string).collect();
        let reason = format!("no valid certificate found: {}", reasons.join(", "));
        return Err(FileError::new(
            Path::new("the system's certificates"),
            reason,
        ));
    }
    Ok(roots)
}
