//! Certificates and keys in PEM files. Every error has the path of the file.

use std::path::Path;

use rustls_pki_types::pem::{Error, PemObject as _};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use crate::file::FileError;

/// Reads all certificates of a file; there is at least one.
///
/// # Errors
/// The file has no certificate, or is not PEM.
pub fn certificates(path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, FileError> {
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|error| invalid(path, &error))?;
    if certificates.is_empty() {
        return Err(FileError::new(path, "no certificate found"));
    }
    Ok(certificates)
}

/// Reads a private key: PKCS #8, PKCS #1 or SEC 1.
///
/// # Errors
/// The file has no private key, the key is encrypted, or the file is not PEM.
pub fn key(path: &Path, pem: &[u8]) -> Result<PrivateKeyDer<'static>, FileError> {
    PrivateKeyDer::from_pem_slice(pem).map_err(|error| {
        // An encrypted key is marked by the label in PKCS #8 files, and by a header in older formats (RFC 1421).
        let has = |text: &[u8]| pem.windows(text.len()).any(|window| window == text);
        if has(b"ENCRYPTED") {
            return FileError::new(
                path,
                "the private key is encrypted: expected an unencrypted key",
            );
        }
        match error {
            Error::NoItemsFound => FileError::new(path, "no private key found"),
            error => invalid(path, &error),
        }
    })
}

/// Converts a parser error to text for the author of the file.
fn invalid(path: &Path, error: &Error) -> FileError {
    match error {
        Error::MissingSectionEnd { end_marker } => {
            let marker = String::from_utf8_lossy(end_marker);
            let reason = format!("truncated PEM: missing `-----END {marker}-----`");
            FileError::new(path, reason)
        }
        Error::Base64Decode(reason) => {
            FileError::new(path, format_args!("invalid base64: {reason}"))
        }
        error => FileError::new(path, error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_text<T>(result: Result<T, FileError>) -> String {
        result.err().map(|error| error.to_string()).unwrap()
    }

    #[test]
    fn errors_have_the_path_and_plain_text() {
        let path = Path::new("a.pem");
        let half = b"-----BEGIN CERTIFICATE-----\nMIIB\n";
        let end = "a.pem: truncated PEM: missing `-----END CERTIFICATE-----`";
        assert_eq!(error_text(certificates(path, half)), end);
        assert_eq!(
            error_text(certificates(path, b"x")),
            "a.pem: no certificate found"
        );
        assert_eq!(error_text(key(path, b"x")), "a.pem: no private key found");
        let locked = "a.pem: the private key is encrypted: expected an unencrypted key";
        let pkcs8 =
            b"-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIB\n-----END ENCRYPTED PRIVATE KEY-----\n";
        assert_eq!(error_text(key(path, pkcs8)), locked);
        let sec1 = b"-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nMIIB\n-----END EC PRIVATE KEY-----\n";
        assert_eq!(error_text(key(path, sec1)), locked);
    }
}
