//! Security of the connections to endpoints (gRFC A29).
//!
//! ```text
//!   XdsCredentials ─────────┐ cluster without TLS
//!                           ├──► ClusterSecurity ──► Security of an endpoint: part of the key of the pool
//!   Cluster.tls, bootstrap ─┘ cluster with TLS
//! ```

use std::io;
use std::sync::Arc;

#[cfg(feature = "tls")]
use oxds_client::Bootstrap;
#[cfg(feature = "tls")]
use oxds_client::certificates::{ClientTls, EndpointTls};
use oxds_client::credentials::{ChannelCredentials, Configured, Pending};
use oxds_core::resource::UpstreamTls;
use oxds_net::transport::{Http, Socket};

/// Credentials of a channel, whose clusters may have TLS by the control plane (gRFC A29).
///
/// A cluster with a TLS configuration is connected by it, with the certificates of the provider instances in the
/// bootstrap. A cluster without one uses the fallback. If the TLS configuration cannot be used, RPCs fail: the fallback
/// is never used in its place.
///
/// The default has plaintext as the fallback. So the TLS configuration of a cluster is never ignored, which differs
/// from gRPC: there a channel without xDS credentials ignores it.
#[derive(Clone, Debug)]
pub struct XdsCredentials {
    fallback: Configured<dyn ChannelCredentials>,
}

impl XdsCredentials {
    /// Makes credentials with this fallback: plaintext ([`Configured::insecure`]), TLS, or those of the program. The
    /// host of their handshakes is the authority of the channel, as in gRPC: the service of its target. Channels with
    /// equal fallbacks and targets share connections.
    #[must_use]
    pub fn new(fallback: Configured<dyn ChannelCredentials>) -> Self {
        Self { fallback }
    }
}

impl Default for XdsCredentials {
    fn default() -> Self {
        Self::new(Configured::insecure())
    }
}

/// Security of a connection. Part of the key of a pool, because channels with different security must not share a
/// connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Security {
    Plaintext,
    /// The fallback of a channel.
    Fallback(Arc<FallbackSecurity>),
    /// The TLS configuration of a cluster.
    #[cfg(feature = "tls")]
    Tls(EndpointTls),
    /// The TLS configuration of a cluster, in a program without TLS.
    #[cfg(not(feature = "tls"))]
    Unsupported,
}

impl Security {
    /// Returns the credentials of the handshake; `None` for plaintext.
    pub(crate) fn credentials(&self) -> Option<&dyn ChannelCredentials> {
        match self {
            Self::Plaintext => None,
            Self::Fallback(fallback) => Some(&**fallback),
            #[cfg(feature = "tls")]
            Self::Tls(tls) => Some(tls),
            #[cfg(not(feature = "tls"))]
            Self::Unsupported => Some(&unsupported::TlsUnsupported),
        }
    }

    /// Returns whether connections are encrypted and authenticated.
    pub(crate) fn is_private(&self) -> bool {
        self.credentials()
            .is_some_and(ChannelCredentials::is_private)
    }
}

/// Credentials of connections to endpoints, for the host of the channel.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct FallbackSecurity {
    credentials: Configured<dyn ChannelCredentials>,
    host: Box<str>,
}

impl ChannelCredentials for FallbackSecurity {
    fn secure<'a>(
        &'a self,
        socket: Socket,
        _: &'a str,
        http: Http,
    ) -> Pending<'a, io::Result<Socket>> {
        // gRPC verifies the authority of the channel, not the address of the endpoint.
        self.credentials.secure(socket, &self.host, http)
    }

    fn is_private(&self) -> bool {
        self.credentials.is_private()
    }
}

/// Security of the endpoints of a cluster.
#[derive(Clone, Debug)]
pub(crate) enum ClusterSecurity {
    /// The same for all endpoints.
    Same(Security),
    /// By TLS, whose server name may depend on the endpoint (gRFC A101).
    #[cfg(feature = "tls")]
    Tls(Arc<ClientTls>),
}

impl ClusterSecurity {
    /// Returns the security of an endpoint with this hostname.
    pub(crate) fn endpoint(&self, hostname: Option<&str>) -> Security {
        match (self, hostname) {
            (Self::Same(security), _) => security.clone(),
            #[cfg(feature = "tls")]
            (Self::Tls(tls), hostname) => Security::Tls(tls.endpoint(hostname)),
        }
    }
}

/// The values that the security of a channel's clusters depends on.
#[derive(Clone, Debug)]
pub(crate) struct ChannelSecurity {
    fallback: Security,
    /// `None` for a channel without one: its clusters have no certificate provider instances.
    #[cfg(feature = "tls")]
    bootstrap: Option<Arc<Bootstrap>>,
}

impl ChannelSecurity {
    pub(crate) fn new(
        credentials: XdsCredentials,
        host: &str,
        #[cfg(feature = "tls")] bootstrap: Option<&Arc<Bootstrap>>,
    ) -> Self {
        let credentials = credentials.fallback;
        Self {
            // Equal to the security of all other channels in plaintext.
            fallback: if credentials == Configured::insecure() {
                Security::Plaintext
            } else {
                Security::Fallback(Arc::new(FallbackSecurity {
                    credentials,
                    host: host.into(),
                }))
            },
            #[cfg(feature = "tls")]
            bootstrap: bootstrap.cloned(),
        }
    }

    /// Returns the security of a cluster with this TLS configuration.
    pub(crate) fn of_cluster(&self, tls: Option<&Arc<UpstreamTls>>) -> ClusterSecurity {
        match tls {
            // gRFC A29: the fallback is for clusters without a TLS configuration, and for no others (C-256).
            None => ClusterSecurity::Same(self.fallback.clone()),
            #[cfg(feature = "tls")]
            Some(tls) => {
                let none = oxds_client::certificates::CertificateProviders::new();
                let providers = self.bootstrap.as_ref();
                let providers =
                    providers.map_or(&none, |bootstrap| bootstrap.certificate_providers());
                ClusterSecurity::Tls(ClientTls::shared(tls, providers))
            }
            #[cfg(not(feature = "tls"))]
            Some(_) => ClusterSecurity::Same(Security::Unsupported),
        }
    }
}

/// Channel in plaintext, for tests.
#[cfg(test)]
impl Default for ChannelSecurity {
    fn default() -> Self {
        Self::new(
            XdsCredentials::default(),
            "svc",
            #[cfg(feature = "tls")]
            None,
        )
    }
}

#[cfg(not(feature = "tls"))]
mod unsupported {
    //! Credentials of a program that is built without TLS.

    use std::io;

    use oxds_client::credentials::{ChannelCredentials, Pending};
    use oxds_net::transport::{Http, Socket};

    /// Fails every handshake.
    #[derive(Debug)]
    pub(super) struct TlsUnsupported;

    impl ChannelCredentials for TlsUnsupported {
        fn secure<'a>(&'a self, _: Socket, _: &'a str, _: Http) -> Pending<'a, io::Result<Socket>> {
            let text = "the cluster requires TLS: this program is built without the feature tls of oxds-channel";
            Box::pin(async move { Err(io::Error::new(io::ErrorKind::Unsupported, text)) })
        }

        fn is_private(&self) -> bool {
            true
        }
    }
}
