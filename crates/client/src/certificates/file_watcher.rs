//! The plugin `file_watcher`: certificates in files (gRFC A29, A69, A87).
//!
//! ```text
//!              no valid files                       valid                        interval over
//!          ┌───────────────────┐ valid   ┌───────────────────────┐  ask   ┌───────────────────────┐
//!   ask ──►│ read: error, again│────────►│ use the last valid    │───────►│ read; an invalid file │
//!          │ after up to 1 s   │         │ files                 │◄───────│ is logged once        │
//!          └───────────────────┘         └───────────────────────┘        └───────────────────────┘
//!                                                                  read, or 5 s
//! ```

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use oxds_types::file::FileError;
use tokio::sync::MutexGuard;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{Instant, timeout};

use super::error::CertificateError;
use super::material::{Identity, TrustedRoots};
use super::provider::CertificateProvider;
use super::reading::{LastRead, ReadFiles, ReadResult, read_files};
use super::revocation::RevocationLists;
use super::shared::SharedValues;
use crate::credentials::{CertificateFiles, IdentityFiles, Pending, Trust};

/// Time after which invalid files are read again. Many connections may wait for them.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Longest wait for files that are read again. A disk that hangs must not hold back connections for which there are
/// valid files.
const SLOW_READ: Duration = Duration::from_secs(5);

/// Certificates in files.
///
/// The files are read when the first connection needs them, and again before the first connection after each
/// `refresh_interval`: unused files cost nothing. If they are invalid then, for example the certificate is new and the
/// key still old, the error is logged once and the last valid ones stay in use; so they do while a read takes longer
/// than five seconds. Without valid files, connections fail with the error, and the files are read again after a second
/// at most.
///
/// Only regular files of at most 64 MiB are read.
#[derive(Debug)]
pub struct FileWatcher {
    files: CertificateFiles,
    /// Locked while files are read, so that concurrent connections wait for the same read.
    state: tokio::sync::Mutex<WatchedFiles>,
}

#[derive(Debug, Default)]
struct WatchedFiles {
    /// Time of the last read.
    read: Option<Instant>,
    /// Read that is under way.
    reading: Option<JoinHandle<ReadFiles>>,
    /// Whether that takes too long, which is logged once.
    is_slow: bool,
    identity: Watched<Identity>,
    /// Whether it was logged that the identity has expired.
    is_expired: bool,
    /// Authorities, without the lists.
    authorities: Watched<TrustedRoots>,
    lists: Watched<RevocationLists>,
    /// Authorities with the lists.
    roots: Option<Arc<TrustedRoots>>,
}

/// A value made of files.
#[derive(Debug)]
struct Watched<T> {
    /// Last valid value, with the digest of its contents.
    valid: Option<(u64, Arc<T>)>,
    /// Error of the last read.
    error: Option<FileError>,
}

impl<T> Default for Watched<T> {
    fn default() -> Self {
        Self {
            valid: None,
            error: None,
        }
    }
}

impl FileWatcher {
    /// Creates a provider of these files, which are not read yet.
    #[must_use]
    pub fn new(files: CertificateFiles) -> Self {
        Self {
            files,
            state: tokio::sync::Mutex::default(),
        }
    }

    /// Returns the provider of these files that the process uses already, or else a new one (gRFC A29: one per
    /// configuration).
    #[must_use]
    pub fn shared(files: &CertificateFiles) -> Arc<Self> {
        static IN_USE: OnceLock<SharedValues<CertificateFiles, FileWatcher>> = OnceLock::new();
        let in_use = IN_USE.get_or_init(SharedValues::default);
        in_use.get(files.clone(), |files| Self::new(files.clone()))
    }

    /// Locks the state, and reads the files if it is time to.
    async fn current(&self) -> MutexGuard<'_, WatchedFiles> {
        let mut state = self.state.lock().await;
        let is_valid = state.is_valid(&self.files);
        if state.reading.is_none() && state.is_due(is_valid, self.files.refresh_interval) {
            let (files, before) = (self.files.clone(), state.before());
            state.read = Some(Instant::now());
            state.reading = Some(spawn_blocking(move || read_files(&files, &before)));
        }
        let is_slow = state.is_slow;
        let Some(reading) = &mut state.reading else {
            return state;
        };
        // A read that was too slow for one connection is not waited for by the next ones.
        if is_valid && is_slow && !reading.is_finished() {
            return state;
        }
        let limit = if is_valid { SLOW_READ } else { Duration::MAX };
        let read = timeout(limit, reading).await;
        match read {
            Ok(read) => {
                state.reading = None;
                state.is_slow = false;
                match read {
                    Ok(read) => state.apply(read, &self.files),
                    // The runtime of the read has stopped, or a parser has panicked.
                    Err(error) => state.fail(&error, &self.files),
                }
            }
            Err(_) => {
                state.is_slow = true;
                tracing::error!(target: "oxds::credentials", files = ?self.files, "certificates not reloaded: reading them takes longer than 5 s");
            }
        }
        state
    }
}

impl WatchedFiles {
    /// Returns whether all that the files provide has been valid once.
    fn is_valid(&self, files: &CertificateFiles) -> bool {
        (files.identity.is_none() || self.identity.valid.is_some())
            && (files.trust == Trust::System || self.authorities.valid.is_some())
    }

    fn is_due(&self, is_valid: bool, interval: Duration) -> bool {
        let interval = if is_valid {
            interval
        } else {
            interval.min(RETRY_INTERVAL)
        };
        self.read.is_none_or(|read| read.elapsed() >= interval)
    }

    fn before(&self) -> LastRead {
        LastRead {
            identity: self.identity.valid.as_ref().map(|(digest, _)| *digest),
            roots: self.authorities.valid.as_ref().map(|(digest, _)| *digest),
            lists: self.lists.valid.clone(),
        }
    }

    fn apply(&mut self, read: ReadFiles, files: &CertificateFiles) {
        if self.identity.update(read.identity, "certificates") {
            self.is_expired = false;
        }
        let is_new = self.authorities.update(read.roots, "certificates");
        if self.lists.update(read.lists, "revocation lists") || is_new {
            let with_lists = |(_, authorities): &(u64, Arc<TrustedRoots>)| match &self.lists.valid {
                Some((_, lists)) => {
                    let roots = TrustedRoots::clone(authorities);
                    Arc::new(roots.with_revocation_lists(Arc::clone(lists)))
                }
                _ => Arc::clone(authorities),
            };
            self.roots = self.authorities.valid.as_ref().map(with_lists);
        }
        let identity = self.identity.valid.as_ref();
        // Peers reject it, with an error that does not name the file.
        if !self.is_expired
            && identity.is_some_and(|(_, identity)| identity.has_expired())
            && let Some(IdentityFiles { certificate, .. }) = &files.identity
        {
            self.is_expired = true;
            let path = certificate.display();
            tracing::error!(target: "oxds::credentials", "{path}: the certificate in use has expired");
        }
    }

    fn fail(&mut self, error: &tokio::task::JoinError, files: &CertificateFiles) {
        if error.is_cancelled() {
            // The next connection reads at once.
            self.read = None;
        }
        let failed = |path: &Path| FileError::new(path, format_args!("not read: {error}"));
        if let Some(identity) = &files.identity {
            self.identity.error = Some(failed(&identity.certificate));
        }
        if let Trust::Authorities(path) | Trust::Spiffe(path) = &files.trust {
            self.authorities.error = Some(failed(path));
        }
    }
}

impl<T> Watched<T> {
    /// Takes the result of a read, and returns whether there is a new value. Invalid files leave the last valid value.
    fn update(&mut self, read: ReadResult<T>, what: &str) -> bool {
        let is_new = read.new.is_some();
        if let Some(new) = read.new {
            if self.valid.is_some() {
                tracing::info!(target: "oxds::credentials", "{what} reloaded");
            }
            self.valid = Some(new);
        }
        if let Some(error) = &read.error
            && self.valid.is_some()
            && self.error.as_ref() != Some(error)
        {
            tracing::error!(target: "oxds::credentials", "{what} not reloaded: {error}");
        }
        self.error = read.error;
        is_new
    }

    fn error(&self, wanted: &'static str, field: &'static str) -> CertificateError {
        match &self.error {
            Some(error) => error.clone().into(),
            None => CertificateError::NotConfigured { wanted, field },
        }
    }
}

impl CertificateProvider for FileWatcher {
    fn identity<'a>(&'a self, _: &'a str) -> Pending<'a, Result<Arc<Identity>, CertificateError>> {
        Box::pin(async {
            let watched = &self.current().await.identity;
            match &watched.valid {
                Some((_, identity)) => Ok(Arc::clone(identity)),
                None => Err(watched.error("identity certificate", "certificate_file")),
            }
        })
    }

    fn roots<'a>(&'a self, _: &'a str) -> Pending<'a, Result<Arc<TrustedRoots>, CertificateError>> {
        Box::pin(async {
            let state = self.current().await;
            let field = "ca_certificate_file or spiffe_trust_bundle_map_file";
            match &state.roots {
                Some(roots) => Ok(Arc::clone(roots)),
                None => Err(state.authorities.error("certificate authorities", field)),
            }
        })
    }
}

#[cfg(test)]
mod tests;
