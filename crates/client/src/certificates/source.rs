//! A certificate of a provider instance, as a TLS configuration refers to it.

use std::sync::Arc;

use oxds_core::resource::{CertificateInstance, Roots};
use tokio::sync::OnceCell;

use super::error::TlsError;
use super::instance::{CertificateProviderInstance, CertificateProviders};
use super::material::{Identity, TrustedRoots};
use crate::credentials::blocking::blocking;

/// Reference to a certificate, with the provider if the bootstrap has the instance.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Source {
    name: CertificateInstance,
    instance: Option<CertificateProviderInstance>,
}

/// Reference to certificate authorities.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum RootSource {
    Instance(Source),
    System,
}

impl Source {
    pub(super) fn new(name: &CertificateInstance, providers: &CertificateProviders) -> Self {
        Self {
            instance: providers.get(&*name.instance_name).cloned(),
            name: name.clone(),
        }
    }

    fn instance(&self) -> Result<&CertificateProviderInstance, TlsError> {
        let unknown = || TlsError::UnknownInstance(Arc::clone(&self.name.instance_name));
        self.instance.as_ref().ok_or_else(unknown)
    }

    pub(super) async fn identity(&self) -> Result<Arc<Identity>, TlsError> {
        let provider = self.instance()?.provider();
        let identity = provider.identity(&self.name.certificate_name).await;
        identity.map_err(|error| TlsError::Certificate {
            instance: Arc::clone(&self.name.instance_name),
            error,
        })
    }

    async fn roots(&self) -> Result<Arc<TrustedRoots>, TlsError> {
        let provider = self.instance()?.provider();
        let roots = provider.roots(&self.name.certificate_name).await;
        roots.map_err(|error| TlsError::Certificate {
            instance: Arc::clone(&self.name.instance_name),
            error,
        })
    }
}

impl RootSource {
    pub(super) fn new(roots: &Roots, providers: &CertificateProviders) -> Self {
        match roots {
            Roots::Instance(name) => Self::Instance(Source::new(name, providers)),
            Roots::System => Self::System,
        }
    }

    pub(super) async fn roots(&self) -> Result<Arc<TrustedRoots>, TlsError> {
        match self {
            Self::Instance(source) => source.roots().await,
            Self::System => of_system().await,
        }
    }

    /// Returns its name, for errors.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Instance(source) => {
                format!(
                    "certificate provider instance {:?}",
                    source.name.instance_name
                )
            }
            Self::System => "the operating system".to_owned(),
        }
    }
}

/// Loads the authorities of the operating system once in a process, as other programs do.
async fn of_system() -> Result<Arc<TrustedRoots>, TlsError> {
    static LOADED: OnceCell<Arc<TrustedRoots>> = OnceCell::const_new();
    let load = || async {
        let loaded = blocking(TrustedRoots::of_system).await;
        let loaded = loaded.map_err(|error| TlsError::Config(error.to_string()))?;
        loaded.map(Arc::new).map_err(TlsError::SystemRoots)
    };
    LOADED.get_or_try_init(load).await.cloned()
}
