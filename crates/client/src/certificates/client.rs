//! TLS to the endpoints of a cluster.

use std::borrow::Cow;
use std::hash::{Hash, Hasher};
use std::io;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use oxds_core::resource::UpstreamTls;
use oxds_net::transport::{Http, Socket};
use tokio_rustls::rustls::client::Resumption;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::sign::SingleCertAndKey;
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{self, ClientConfig};

use super::error::TlsError;
use super::explain::{Side, explain};
use super::instance::CertificateProviders;
use super::material::{Identity, TrustedRoots};
use super::shared::SharedValues;
use super::source::{RootSource, Source};
use super::verifier::EndpointCheck;
use crate::credentials::handshake::handshake;
use crate::credentials::verifier::Verifier;
use crate::credentials::{ChannelCredentials, Pending};

/// TLS sessions that a configuration remembers: 8 for each of 256 endpoints. Each takes up to about 2 KB.
const SESSIONS: usize = 2048;

/// TLS to the endpoints of clusters with the same security.
///
/// All clusters of the process with equal [`UpstreamTls`] and equal provider instances share one value, and so one
/// rustls configuration and its sessions.
#[derive(Debug)]
pub struct ClientTls {
    settings: Arc<Settings>,
    /// Last configurations: without, and with a server name.
    configs: Mutex<[Option<BuiltConfig>; 2]>,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Settings {
    view: Arc<UpstreamTls>,
    identity: Option<Source>,
    roots: RootSource,
}

/// A configuration, and the certificates that it was made of.
#[derive(Debug)]
struct BuiltConfig {
    identity: Option<Arc<Identity>>,
    roots: Arc<TrustedRoots>,
    config: Arc<ClientConfig>,
}

impl ClientTls {
    /// Returns the TLS of clusters with this view, with the provider instances of a bootstrap. An instance that it
    /// does not have is an error of each handshake.
    #[must_use]
    pub fn shared(view: &Arc<UpstreamTls>, providers: &CertificateProviders) -> Arc<Self> {
        static IN_USE: OnceLock<SharedValues<Arc<Settings>, ClientTls>> = OnceLock::new();
        let settings = Arc::new(Settings {
            view: Arc::clone(view),
            identity: view
                .identity
                .as_ref()
                .map(|name| Source::new(name, providers)),
            roots: RootSource::new(&view.roots, providers),
        });
        let in_use = IN_USE.get_or_init(SharedValues::default);
        in_use.get(settings, |settings| Self {
            settings: Arc::clone(settings),
            configs: Mutex::default(),
        })
    }

    /// Returns the credentials of connections to an endpoint with this hostname.
    #[must_use]
    pub fn endpoint(self: &Arc<Self>, hostname: Option<&str>) -> EndpointTls {
        EndpointTls {
            server_name: self.settings.view.server_name(hostname).map(Into::into),
            tls: Arc::clone(self),
        }
    }

    /// Returns the configuration of the next handshake: the last one, unless a provider has another certificate now.
    async fn config(&self, has_server_name: bool) -> Result<Arc<ClientConfig>, TlsError> {
        let roots = self.settings.roots.roots().await?;
        let identity = match &self.settings.identity {
            Some(source) => Some(source.identity().await?),
            None => None,
        };
        let mut configs = self.configs.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = &mut configs[usize::from(has_server_name)];
        if let Some(built) = slot
            && Arc::ptr_eq(&built.roots, &roots)
            && same(built.identity.as_ref(), identity.as_ref())
        {
            return Ok(Arc::clone(&built.config));
        }
        let config = self.build(&roots, identity.as_deref(), has_server_name);
        let config = Arc::new(config.map_err(|error| TlsError::Config(error.to_string()))?);
        *slot = Some(BuiltConfig {
            identity,
            roots,
            config: Arc::clone(&config),
        });
        Ok(config)
    }

    fn build(
        &self,
        roots: &Arc<TrustedRoots>,
        identity: Option<&Identity>,
        has_server_name: bool,
    ) -> Result<ClientConfig, rustls::Error> {
        let view = &self.settings.view;
        let provider = Arc::new(ring::default_provider());
        let check = EndpointCheck {
            roots: Arc::clone(roots),
            san_matchers: view.san_matchers.clone(),
            checks_server_name: has_server_name && view.auto_sni_san_validation,
        };
        let verifier = Verifier::new(check, &provider);
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13, &TLS12])?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier));
        let mut config = match identity {
            Some(identity) => {
                let key = SingleCertAndKey::from(Arc::clone(identity.key()));
                config.with_client_cert_resolver(Arc::new(key))
            }
            None => config.with_no_client_auth(),
        };
        config.alpn_protocols = vec![Http::Two.alpn().to_vec()];
        config.resumption = Resumption::in_memory_sessions(SESSIONS);
        Ok(config)
    }
}

fn same<T>(one: Option<&Arc<T>>, other: Option<&Arc<T>>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        (None, None) => true,
        _ => false,
    }
}

/// Credentials of connections to one endpoint. Equal for endpoints that may share a connection.
#[derive(Debug, Clone)]
pub struct EndpointTls {
    tls: Arc<ClientTls>,
    server_name: Option<Arc<str>>,
}

impl PartialEq for EndpointTls {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.tls, &other.tls) && self.server_name == other.server_name
    }
}

impl Eq for EndpointTls {}

impl Hash for EndpointTls {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.tls).hash(state);
        self.server_name.hash(state);
    }
}

impl ChannelCredentials for EndpointTls {
    /// `host` is the IP address of the endpoint. It is not sent and not verified, but sessions are kept by it.
    fn secure<'a>(
        &'a self,
        socket: Socket,
        host: &'a str,
        http: Http,
    ) -> Pending<'a, io::Result<Socket>> {
        Box::pin(async move {
            let config = self.tls.config(self.server_name.is_some()).await?;
            let name = self.server_name.as_deref().unwrap_or(host);
            let name = ServerName::try_from(name.to_owned());
            let name = name.map_err(|_| {
                let name: Cow<'_, str> = self.server_name.as_deref().unwrap_or(host).into();
                TlsError::ServerName(name.into_owned())
            })?;
            let secured = handshake(config, name, socket, http).await;
            let roots = &self.tls.settings.roots;
            secured.map_err(|error| explain(error, Side::Endpoint, Some(roots)))
        })
    }

    fn is_private(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests;
