//! Errors of TLS, as text for the operator (G-32).

use std::io;

/// Explains why this client rejects a member's certificate; `None` if the error's own text is the best one.
#[cfg(feature = "tls")]
pub(super) fn explain(error: &io::Error) -> Option<String> {
    use tokio_rustls::rustls::{CertificateError, Error};
    let cause = error.get_ref()?.downcast_ref()?;
    let Error::InvalidCertificate(fault) = cause else {
        return None;
    };
    Some(match fault {
        CertificateError::UnknownIssuer => {
            "the member's certificate is of an unknown authority: expected one of the configured authorities".to_owned()
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            format!("the member's certificate has expired: {fault}")
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            format!("the member's certificate has another name than its URL: {fault}")
        }
        _ => return None,
    })
}

/// Without TLS there is no certificate to explain.
#[cfg(not(feature = "tls"))]
pub(super) fn explain(_: &io::Error) -> Option<String> {
    None
}
