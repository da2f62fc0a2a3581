//! TLS to a control plane, with certificates that are reloaded from their files.

mod config;

use std::io;
use std::sync::Arc;

use oxds_types::file::FileError;
use oxds_types::reload::Reloadable;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

use super::blocking::blocking;
use super::handshake::{handshake, invalid};
use super::{CertificateFiles, ChannelCredentials, Pending};
use crate::http::Http;
use crate::socket::Socket;

/// Channel credentials `tls`: TLS 1.2 or 1.3 (gRFC A65).
///
/// The files are read before the first connection, and again before the first connection after each `refresh_interval`.
/// If a reload fails, the error is logged once and the last valid certificates stay in use. If no read has succeeded
/// yet, connections fail with the error.
#[derive(Debug)]
pub struct TlsCredentials {
    files: CertificateFiles,
    /// Locked while files are read, so that concurrent connections wait for the same read.
    loaded: Mutex<Option<LoadedFiles>>,
}

/// Contents of the files.
#[derive(Debug)]
struct LoadedFiles {
    settings: Arc<Reloadable<ClientConfig, FileError>>,
    /// Time of the last read.
    checked: Instant,
}

impl TlsCredentials {
    /// Creates credentials from these files, which are not read yet.
    #[must_use]
    pub fn new(files: CertificateFiles) -> Self {
        Self {
            files,
            loaded: Mutex::new(None),
        }
    }

    /// Returns the configuration of the next handshake.
    async fn settings(&self) -> io::Result<Arc<ClientConfig>> {
        let mut loaded = self.loaded.lock().await;
        let now = Instant::now();
        if let Some(loaded) = &mut *loaded {
            if now.duration_since(loaded.checked) >= self.files.refresh_interval {
                loaded.checked = now;
                let settings = Arc::clone(&loaded.settings);
                // gRFC A65: reloaded files apply to new connections; an error keeps the last valid ones (C-18).
                match blocking(move || settings.refresh()).await? {
                    Ok(true) => {
                        tracing::info!(target: "oxds::credentials", "certificates reloaded");
                    }
                    Ok(false) => {}
                    Err(error) => {
                        tracing::error!(target: "oxds::credentials", "certificates not reloaded: {error}");
                    }
                }
            }
            return Ok(loaded.settings.load());
        }
        let files = self.files.clone();
        let opened = blocking(move || config::open(&files)).await?;
        let settings = Arc::new(opened.map_err(invalid)?);
        let first = settings.load();
        *loaded = Some(LoadedFiles {
            settings,
            checked: now,
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
            handshake(Arc::new(settings), name, socket, http).await
        })
    }

    fn is_private(&self) -> bool {
        true
    }
}
