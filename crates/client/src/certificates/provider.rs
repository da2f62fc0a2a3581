//! The interface of certificate providers (gRFC A29).

use std::fmt;
use std::sync::Arc;

use super::error::CertificateError;
use super::material::{Identity, TrustedRoots};
use crate::credentials::Pending;

/// Source of certificates: `file_watcher`, or a plugin of the program.
///
/// It is asked before each connection, so it should keep what it has: an `Arc` that it returned before means that nothing
/// changed, and connections go on with the same TLS configuration. A new `Arc` applies to new connections.
///
/// To add a plugin, register it with
/// [`CredentialTypes::with_certificate_provider`](crate::bootstrap::CredentialTypes::with_certificate_provider).
///
/// # Cancel safety
/// Connections that are given up drop the futures.
pub trait CertificateProvider: fmt::Debug + Send + Sync + 'static {
    /// Returns the current certificate and key of this process. `name` is the `certificate_name` of the resource, which may be
    /// empty.
    ///
    /// # Errors
    /// There is none, and never was a valid one. If an update fails, the provider returns the last valid one.
    fn identity<'a>(
        &'a self,
        name: &'a str,
    ) -> Pending<'a, Result<Arc<Identity>, CertificateError>>;

    /// Returns the current authorities that certificates of peers are verified with. `name` is the `certificate_name` of the
    /// resource, which may be empty.
    ///
    /// # Errors
    /// As of [`identity`](Self::identity).
    fn roots<'a>(
        &'a self,
        name: &'a str,
    ) -> Pending<'a, Result<Arc<TrustedRoots>, CertificateError>>;
}
