//! Registry of the credential types, and of the plugins of certificate providers, that a bootstrap may name.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

#[cfg(feature = "tls")]
use crate::certificates::CertificateProvider;
use crate::certificates::{CertificateProviderInstance, FILE_WATCHER};
use crate::credentials::{CallCredentials, ChannelCredentials, Configured, Insecure};
#[cfg(feature = "tls")]
use crate::credentials::{CertificateFiles, JwtTokenFile, TlsCredentials};

/// Constructor of credentials from a `config` object, which may be absent.
type Make<T> = Arc<dyn Fn(Option<&Value>) -> Result<Arc<T>, String> + Send + Sync>;
type Table<T> = BTreeMap<String, Make<T>>;
type MakeInstance =
    Arc<dyn Fn(Option<&Value>) -> Result<CertificateProviderInstance, String> + Send + Sync>;

/// Credential types that a bootstrap may name.
///
/// The default has the channel credentials `insecure` and, with feature `tls`, `tls`; it has no call credentials. All
/// other names are unknown, including `google_default` (C-15). The only plugin of certificate providers is
/// `file_watcher`.
#[derive(Clone)]
pub struct CredentialTypes {
    channel: Table<dyn ChannelCredentials>,
    call: Table<dyn CallCredentials>,
    providers: BTreeMap<String, MakeInstance>,
}

impl Default for CredentialTypes {
    fn default() -> Self {
        let types = Self {
            channel: BTreeMap::new(),
            call: BTreeMap::new(),
            providers: BTreeMap::from([(
                FILE_WATCHER.to_owned(),
                Arc::new(CertificateProviderInstance::read_file_watcher) as MakeInstance,
            )]),
        };
        let types = types.with("insecure", |_| Ok(Arc::new(Insecure)));
        #[cfg(feature = "tls")]
        let types = types.with("tls", |config| {
            let files = CertificateFiles::parse(config)?;
            Ok(Arc::new(TlsCredentials::new(files)))
        });
        types
    }
}

impl CredentialTypes {
    /// Adds or replaces a type of channel credentials. `make` gets the entry's `config`; its error text becomes part of
    /// the bootstrap error.
    #[must_use]
    pub fn with(
        mut self,
        name: impl Into<String>,
        make: impl Fn(Option<&Value>) -> Result<Arc<dyn ChannelCredentials>, String>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        self.channel.insert(name.into(), Arc::new(make));
        self
    }

    /// Adds or replaces a type of call credentials. While no call credential type is registered, `call_creds` in a
    /// bootstrap is ignored.
    #[must_use]
    pub fn with_call(
        mut self,
        name: impl Into<String>,
        make: impl Fn(Option<&Value>) -> Result<Arc<dyn CallCredentials>, String>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        self.call.insert(name.into(), Arc::new(make));
        self
    }

    /// Adds or replaces a plugin of certificate providers (gRFC A29), by its `plugin_name`. `make` gets the entry's
    /// `config`; its error text becomes part of the bootstrap error. Entries with equal `config` should share one
    /// provider.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn with_certificate_provider(
        mut self,
        plugin_name: impl Into<String>,
        make: impl Fn(Option<&Value>) -> Result<Arc<dyn CertificateProvider>, String>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        let name: String = plugin_name.into();
        let key = name.clone();
        let make = move |config: Option<&Value>| {
            let provider = make(config)?;
            let config = config.cloned();
            Ok(CertificateProviderInstance::new(
                name.as_str(),
                config,
                provider,
            ))
        };
        self.providers.insert(key, Arc::new(make));
        self
    }

    /// Makes an instance of a certificate provider; `None` if the plugin is unknown.
    pub(crate) fn certificate_provider(
        &self,
        plugin_name: &str,
        config: Option<&Value>,
    ) -> Option<Result<CertificateProviderInstance, String>> {
        Some(self.providers.get(plugin_name)?(config))
    }

    /// Adds the call credentials `jwt_token_file` (gRFC A97). The default types include them if
    /// `GRPC_EXPERIMENTAL_XDS_BOOTSTRAP_CALL_CREDS` is `true`.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn with_jwt_token_file(self) -> Self {
        self.with_call("jwt_token_file", |config| {
            Ok(Arc::new(JwtTokenFile::parse(config)?))
        })
    }

    /// Makes channel credentials of a type; `None` if the type is unknown.
    pub(crate) fn channel(
        &self,
        name: &str,
        config: Option<&Value>,
    ) -> Option<Result<Configured<dyn ChannelCredentials>, String>> {
        make(&self.channel, name, config)
    }

    /// Makes call credentials of a type; `None` if the type is unknown.
    pub(crate) fn call(
        &self,
        name: &str,
        config: Option<&Value>,
    ) -> Option<Result<Configured<dyn CallCredentials>, String>> {
        make(&self.call, name, config)
    }

    pub(crate) fn has_call_types(&self) -> bool {
        !self.call.is_empty()
    }

    /// Returns the names of the channel credential types, for error messages.
    pub(crate) fn names(&self) -> String {
        let names: Vec<_> = self.channel.keys().map(String::as_str).collect();
        names.join(", ")
    }
}

fn make<T: ?Sized>(
    table: &Table<T>,
    name: &str,
    config: Option<&Value>,
) -> Option<Result<Configured<T>, String>> {
    let made = table.get(name)?(config);
    Some(made.map(|made| Configured::new(name, config.cloned(), made)))
}

impl fmt::Debug for CredentialTypes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CredentialTypes")
            .field("channel", &self.channel.keys())
            .field("call", &self.call.keys())
            .field("providers", &self.providers.keys())
            .finish()
    }
}
