//! The interface of certificate providers (gRFC A29).

use std::fmt;
use std::sync::Arc;

use super::error::CertificateError;
use super::material::{Identity, TrustedRoots};
use crate::credentials::Pending;

/// Source of certificates: `file_watcher`, or a plugin of the program.
///
/// A connection calls it before its handshake, so it should cache its values. If it returns the same `Arc` as before,
/// connections keep the same TLS configuration; a new `Arc` applies to new connections.
///
/// To add a plugin, register it with
/// [`CredentialTypes::with_certificate_provider`](crate::bootstrap::CredentialTypes::with_certificate_provider).
///
/// # Cancel safety
/// A connection attempt that is cancelled drops its future.
pub trait CertificateProvider: fmt::Debug + Send + Sync + 'static {
    /// Returns the current certificate and key of this process. `name` is the `certificate_name` of the resource, which
    /// may be empty.
    ///
    /// # Errors
    /// No valid certificate has been read yet. If an update fails, the provider returns the last valid one.
    fn identity<'a>(
        &'a self,
        name: &'a str,
    ) -> Pending<'a, Result<Arc<Identity>, CertificateError>>;

    /// Returns the current authorities that certificates of peers are verified with. `name` is the `certificate_name`
    /// of the resource, which may be empty.
    ///
    /// # Errors
    /// As of [`identity`](Self::identity).
    fn roots<'a>(
        &'a self,
        name: &'a str,
    ) -> Pending<'a, Result<Arc<TrustedRoots>, CertificateError>>;
}
