//! The types of credentials that a bootstrap may choose from.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::{CallCredentials, ChannelCredentials, Configured, Insecure};

/// Makes credentials of a `config` object, which may be missing.
type Make<T> = Arc<dyn Fn(Option<&Value>) -> Result<Arc<T>, String> + Send + Sync>;
type Table<T> = BTreeMap<String, Make<T>>;

/// The types of credentials that a bootstrap may choose from: of channels `insecure`, and with feature `tls` `tls`; of
/// calls none. Whatever else it names is unknown, `google_default` included (C-15).
#[derive(Clone)]
pub struct CredentialTypes {
    channel: Table<dyn ChannelCredentials>,
    call: Table<dyn CallCredentials>,
}

impl Default for CredentialTypes {
    fn default() -> Self {
        let types = Self {
            channel: BTreeMap::new(),
            call: BTreeMap::new(),
        };
        let types = types.with("insecure", |_| Ok(Arc::new(Insecure)));
        #[cfg(feature = "tls")]
        let types = types.with("tls", |config| {
            let files = super::CertificateFiles::parse(config)?;
            Ok(Arc::new(super::TlsCredentials::new(files)))
        });
        types
    }
}

impl CredentialTypes {
    /// Adds a type of channel credentials, or replaces it. `make` is given the entry's `config`, and says what is wrong
    /// with it.
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

    /// The same for call credentials; their names are others. While there is no such type, what a bootstrap says of
    /// call credentials is not looked at.
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

    /// Adds the call credentials `jwt_token_file` (gRFC A97). What the environment names has them if
    /// `GRPC_EXPERIMENTAL_XDS_BOOTSTRAP_CALL_CREDS` says `true`.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn with_jwt_token_file(self) -> Self {
        self.with_call("jwt_token_file", |config| {
            Ok(Arc::new(super::JwtTokenFile::parse(config)?))
        })
    }

    /// Channel credentials of a type; `None` if it is unknown.
    pub(crate) fn channel(
        &self,
        name: &str,
        config: Option<&Value>,
    ) -> Option<Result<Configured<dyn ChannelCredentials>, String>> {
        make(&self.channel, name, config)
    }

    /// Call credentials of a type; `None` if it is unknown.
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

    /// Of channel credentials, for people.
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
            .finish()
    }
}
