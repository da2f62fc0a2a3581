//! TLS to a control plane, by certificates that follow their files.

mod config;

use std::fmt::Display;
use std::io;
use std::sync::Arc;

use oxds_types::file::FileError;
use oxds_types::reload::Reloadable;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{CertificateError, ClientConfig, Error};

use super::{CertificateFiles, ChannelCredentials, Pending};
use crate::transport::{Http, Socket};

/// TLS 1.2 or 1.3 (gRFC A65).
///
/// The files are read before the first connection, and again before the first one that is `refresh_interval` later.
/// What cannot be used then is logged once, and what was read last holds on; if there was never anything good,
/// connections fail and say why.
#[derive(Debug)]
pub struct TlsCredentials {
    files: CertificateFiles,
    /// Held while files are read: who connects meanwhile waits for them, too.
    read: Mutex<Option<Read>>,
}

/// What the files hold, and when it was last looked.
#[derive(Debug)]
struct Read {
    settings: Arc<Reloadable<ClientConfig, FileError>>,
    looked: Instant,
}

impl TlsCredentials {
    /// TLS by these files. They are not read yet.
    #[must_use]
    pub fn new(files: CertificateFiles) -> Self {
        Self {
            files,
            read: Mutex::new(None),
        }
    }

    /// The settings of the next handshake.
    async fn settings(&self) -> io::Result<Arc<ClientConfig>> {
        let mut read = self.read.lock().await;
        let now = Instant::now();
        if let Some(read) = &mut *read {
            if now.duration_since(read.looked) >= self.files.refresh_interval {
                read.looked = now;
                let settings = Arc::clone(&read.settings);
                match blocking(move || settings.refresh()).await? {
                    Ok(true) => tracing::info!(target: "oxds::credentials", "new certificates"),
                    Ok(false) => {}
                    Err(error) => {
                        tracing::error!(target: "oxds::credentials", "{error}: certificates stay as they were");
                    }
                }
            }
            return Ok(read.settings.load());
        }
        let files = self.files.clone();
        let opened = blocking(move || config::open(&files)).await?;
        let settings = Arc::new(opened.map_err(invalid)?);
        let first = settings.load();
        *read = Some(Read {
            settings,
            looked: now,
        });
        Ok(first)
    }
}

impl ChannelCredentials for TlsCredentials {
    fn secure<'a>(
        &'a self,
        socket: Socket,
        host: &'a str,
        http: Http,
    ) -> Pending<'a, io::Result<Socket>> {
        Box::pin(async move {
            let mut settings = (*self.settings().await?).clone();
            settings.alpn_protocols = vec![http.alpn().to_vec()];
            let name = ServerName::try_from(host.to_owned()).map_err(invalid)?;
            let connector = TlsConnector::from(Arc::new(settings));
            let connected = connector.connect(name, socket).await;
            let stream = connected.map_err(in_words)?;
            let agreed = stream.get_ref().1.alpn_protocol();
            // Over HTTP/2 there is nothing to guess (RFC 9113 §3.2); servers of HTTP/1.1 may know no ALPN.
            if agreed != Some(http.alpn()) && (http, agreed) != (Http::One, None) {
                return Err(invalid(format_args!(
                    "the peer did not agree to {http:?} (ALPN)"
                )));
            }
            Ok(Socket::secured(stream))
        })
    }

    fn is_private(&self) -> bool {
        true
    }
}

/// Disks may be slow, and behind a network.
pub(super) async fn blocking<T: Send + 'static>(
    read: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let read = tokio::task::spawn_blocking(read);
    read.await.map_err(io::Error::other)
}

/// rustls shows what a verifier of ours says in the form for programmers.
fn in_words(error: io::Error) -> io::Error {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref());
    match cause {
        Some(Error::InvalidCertificate(CertificateError::Other(reason))) => {
            invalid(format_args!("invalid peer certificate: {reason}"))
        }
        _ => error,
    }
}

fn invalid(reason: impl Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason.to_string())
}
