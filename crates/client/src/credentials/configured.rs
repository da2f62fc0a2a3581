//! Credentials together with their bootstrap configuration.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use serde_json::Value;

use super::{ChannelCredentials, Insecure};

/// Credentials of a type, with the configuration that they were made from.
///
/// Two values are equal if type name and configuration are equal: servers with equal credentials share a connection
/// (C-46).
pub struct Configured<T: ?Sized> {
    type_name: Arc<str>,
    config: Option<Value>,
    credentials: Arc<T>,
}

impl<T: ?Sized> Configured<T> {
    /// Wraps credentials under the `type` and `config` that a bootstrap would give them.
    pub fn new(type_name: impl Into<Arc<str>>, config: Option<Value>, credentials: Arc<T>) -> Self {
        Self {
            type_name: type_name.into(),
            config,
            credentials,
        }
    }

    /// Returns the `type` in a bootstrap.
    #[must_use]
    pub fn type_name(&self) -> &str {
        &self.type_name
    }

    /// Returns the `config` in a bootstrap, if there is one.
    #[must_use]
    pub fn config(&self) -> Option<&Value> {
        self.config.as_ref()
    }
}

impl Configured<dyn ChannelCredentials> {
    /// Returns the credentials `insecure`: plaintext.
    #[must_use]
    pub fn insecure() -> Self {
        Self::new("insecure", None, Arc::new(Insecure))
    }

    /// Returns the credentials `tls` with these certificate files.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(files: super::CertificateFiles) -> Self {
        let config = files.to_config();
        Self::new(
            "tls",
            Some(config),
            Arc::new(super::TlsCredentials::new(files)),
        )
    }
}

impl<T: ?Sized> Deref for Configured<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.credentials
    }
}

impl<T: ?Sized> Clone for Configured<T> {
    fn clone(&self) -> Self {
        Self {
            type_name: Arc::clone(&self.type_name),
            config: self.config.clone(),
            credentials: Arc::clone(&self.credentials),
        }
    }
}

impl<T: ?Sized> PartialEq for Configured<T> {
    fn eq(&self, other: &Self) -> bool {
        // The credentials are made from these two, so they need no comparison of their own (C-46).
        self.type_name == other.type_name && self.config == other.config
    }
}

impl<T: ?Sized> Eq for Configured<T> {}

impl<T: ?Sized> Hash for Configured<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.type_name.hash(state);
        self.config.hash(state);
    }
}

impl<T: ?Sized> fmt::Debug for Configured<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Configured")
            .field("type_name", &self.type_name)
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}
