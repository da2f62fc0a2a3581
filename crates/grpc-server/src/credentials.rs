//! Credentials of a server: those of the control plane, or else those of the program (gRFC A29).

#[cfg(feature = "tls")]
use std::sync::Arc;

#[cfg(feature = "tls")]
use tokio_rustls::rustls::ServerConfig;

/// Credentials of a server whose control plane may configure TLS for each filter chain (gRFC A29).
///
/// The default has plaintext as the fallback. So the TLS configuration of a chain is never ignored, which differs from
/// gRPC: there a server without xDS credentials ignores it.
#[derive(Clone, Debug)]
pub struct XdsServerCredentials {
    pub(crate) fallback: FallbackCredentials,
}

/// Credentials of connections whose filter chain has no TLS configuration.
#[derive(Clone, Debug)]
pub struct FallbackCredentials(pub(crate) Fallback);

#[derive(Clone, Debug)]
pub(crate) enum Fallback {
    Plaintext,
    #[cfg(feature = "tls")]
    Tls(Arc<ServerConfig>),
}

impl FallbackCredentials {
    /// Returns credentials for plaintext.
    #[must_use]
    pub fn insecure() -> Self {
        Self(Fallback::Plaintext)
    }

    /// Returns credentials for TLS with this configuration. Its `alpn_protocols` must have `h2`.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(config: Arc<ServerConfig>) -> Self {
        Self(Fallback::Tls(config))
    }
}

impl XdsServerCredentials {
    /// Makes credentials that use TLS where the control plane configures it, and `fallback` elsewhere. A filter chain
    /// whose TLS configuration cannot be used accepts no connection, and never falls back.
    #[must_use]
    pub fn new(fallback: FallbackCredentials) -> Self {
        Self { fallback }
    }
}

/// TLS where the control plane configures it, and plaintext elsewhere.
impl Default for XdsServerCredentials {
    fn default() -> Self {
        Self::new(FallbackCredentials::insecure())
    }
}
