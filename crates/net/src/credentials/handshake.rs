//! The TLS handshake of a client, and its errors as text.

use std::fmt::Display;
use std::io;
use std::sync::Arc;

use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{CertificateError, ClientConfig, Error};

use crate::http::Http;
use crate::socket::Socket;

/// Performs the handshake. The configuration offers the protocol.
///
/// # Errors
/// The handshake fails, or the server does not speak `http`.
pub async fn handshake(
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
    socket: Socket,
    http: Http,
) -> io::Result<Socket> {
    let connected = TlsConnector::from(config).connect(name, socket).await;
    let stream = connected.map_err(readable)?;
    let agreed = stream.get_ref().1.alpn_protocol();
    // RFC 9113 §3.2: HTTP/2 over TLS must be agreed by ALPN. HTTP/1.1 servers may not support ALPN.
    if agreed != Some(http.alpn()) && (http, agreed) != (Http::One, None) {
        return Err(invalid(format_args!(
            "ALPN: the server did not select {:?}",
            http.alpn().escape_ascii().to_string()
        )));
    }
    Ok(Socket::secured(stream))
}

/// Replaces the debug form in which rustls prints the errors of custom verifiers by their message.
pub fn readable(error: io::Error) -> io::Error {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref());
    match cause {
        Some(Error::InvalidCertificate(CertificateError::Other(reason))) => {
            invalid(format_args!("invalid peer certificate: {reason}"))
        }
        _ => error,
    }
}

/// Makes an error of the handshake from its text.
pub fn invalid(reason: impl Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason.to_string())
}
