//! Errors of handshakes, with facts that rustls does not know.

use std::io;

use tokio_rustls::rustls::{CertificateError, Error};

use super::source::RootSource;
use crate::credentials::handshake::invalid;

/// Other side of a handshake, for errors.
#[derive(Debug, Clone, Copy)]
pub(super) enum Side {
    Endpoint,
    Client,
}

impl Side {
    fn name(self) -> &'static str {
        match self {
            Self::Endpoint => "endpoint",
            Self::Client => "client",
        }
    }
}

/// Adds to the error of a handshake with the other side, whose certificate these authorities verify.
pub(super) fn explain(error: io::Error, side: Side, roots: Option<&RootSource>) -> io::Error {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref());
    let peer = side.name();
    match (cause, roots) {
        (Some(Error::InvalidCertificate(fault)), Some(roots)) => certificate(fault, roots)
            .map_or(error, |text| {
                invalid(format_args!("invalid peer certificate: {text}"))
            }),
        (Some(Error::InvalidMessage(_)), _) => {
            invalid(format_args!("the {peer} does not speak TLS: {error}"))
        }
        (Some(Error::AlertReceived(alert)), _) => invalid(format_args!(
            "the {peer} ended the handshake with the alert {alert:?}"
        )),
        _ => error,
    }
}

fn certificate(fault: &CertificateError, roots: &RootSource) -> Option<String> {
    use CertificateError as Fault;
    Some(match fault {
        Fault::UnknownIssuer => {
            format!("its issuer is not an authority of {}", roots.describe())
        }
        Fault::Revoked => {
            format!("it is revoked by a revocation list of {}", roots.describe())
        }
        Fault::UnknownRevocationStatus => format!(
            "whether it is revoked is undetermined: {} has no valid revocation list of its issuer",
            roots.describe()
        ),
        Fault::BadSignature => {
            "a signature in its chain is wrong, or an authority has a key that is not supported"
                .to_owned()
        }
        _ => return None,
    })
}
