//! Entries of `certificate_providers` in a bootstrap.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::credentials::{CertificateFiles, Configured};

#[cfg(feature = "tls")]
use super::{file_watcher::FileWatcher, provider::CertificateProvider};

/// Name of the plugin that reads files (gRFC A29).
pub const FILE_WATCHER: &str = "file_watcher";

#[cfg(feature = "tls")]
type Provider = dyn CertificateProvider;
/// Without TLS, an entry is read and written, and not used.
#[cfg(not(feature = "tls"))]
type Provider = ();

/// Entries of `certificate_providers` of a bootstrap, by name.
pub type CertificateProviders = BTreeMap<String, CertificateProviderInstance>;

/// Entry of `certificate_providers`: a plugin with its configuration.
///
/// Two entries are equal if plugin and configuration are equal. Connections with equal entries share their TLS
/// configuration.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CertificateProviderInstance(Configured<Provider>);

impl CertificateProviderInstance {
    /// Makes an instance of the plugin `file_watcher`, which reads these files when a connection needs them.
    #[must_use]
    pub fn file_watcher(files: &CertificateFiles) -> Self {
        let config = files.to_config();
        Self::of_files(files, config)
    }

    /// Makes an instance of a plugin of the program, under the `plugin_name` and `config` that a bootstrap would give
    /// it.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn new(
        plugin_name: impl Into<Arc<str>>,
        config: Option<Value>,
        provider: Arc<dyn CertificateProvider>,
    ) -> Self {
        Self(Configured::new(plugin_name, config, provider))
    }

    /// Reads the `config` of the plugin `file_watcher`.
    pub(crate) fn read_file_watcher(config: Option<&Value>) -> Result<Self, String> {
        let files = CertificateFiles::parse_watcher(config)?;
        let config = config.cloned().unwrap_or_default();
        Ok(Self::of_files(&files, config))
    }

    #[cfg(feature = "tls")]
    fn of_files(files: &CertificateFiles, config: Value) -> Self {
        let provider = FileWatcher::shared(files);
        Self(Configured::new(FILE_WATCHER, Some(config), provider))
    }

    #[cfg(not(feature = "tls"))]
    fn of_files(_: &CertificateFiles, config: Value) -> Self {
        Self(Configured::new(FILE_WATCHER, Some(config), Arc::new(())))
    }

    /// Returns the `plugin_name` in a bootstrap.
    #[must_use]
    pub fn plugin_name(&self) -> &str {
        self.0.type_name()
    }

    /// Returns the `config` in a bootstrap, if there is one.
    #[must_use]
    pub fn config(&self) -> Option<&Value> {
        self.0.config()
    }

    /// Returns the files of a `file_watcher`; `None` for other plugins.
    #[must_use]
    pub fn files(&self) -> Option<CertificateFiles> {
        let config = self.config().filter(|_| self.plugin_name() == FILE_WATCHER);
        CertificateFiles::parse_watcher(Some(config?)).ok()
    }

    /// Returns the provider.
    #[cfg(feature = "tls")]
    pub(super) fn provider(&self) -> &dyn CertificateProvider {
        &*self.0
    }
}
