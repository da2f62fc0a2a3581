//! How to connect to a control plane: the types of channel credentials.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

/// How to connect to a control plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Credentials {
    /// In plaintext.
    Insecure,
}

impl Credentials {
    /// The type's name in a bootstrap.
    #[must_use]
    pub fn type_name(self) -> &'static str {
        match self {
            Self::Insecure => "insecure",
        }
    }
}

/// Makes credentials of a `config` object, which may be missing.
type Make = Arc<dyn Fn(Option<&Value>) -> Result<Credentials, String> + Send + Sync>;

/// The types of channel credentials that a bootstrap may choose from. `insecure` is one unless removed.
#[derive(Clone)]
pub struct CredentialTypes {
    types: BTreeMap<String, Make>,
}

impl Default for CredentialTypes {
    fn default() -> Self {
        let none = Self {
            types: BTreeMap::new(),
        };
        none.with("insecure", |_| Ok(Credentials::Insecure))
    }
}

impl CredentialTypes {
    /// Adds a type, or replaces it. `make` is given the entry's `config`, and says what is wrong with it.
    #[must_use]
    pub fn with(
        mut self,
        name: impl Into<String>,
        make: impl Fn(Option<&Value>) -> Result<Credentials, String> + Send + Sync + 'static,
    ) -> Self {
        self.types.insert(name.into(), Arc::new(make));
        self
    }

    pub(super) fn get(&self, name: &str) -> Option<&Make> {
        self.types.get(name)
    }

    pub(super) fn names(&self) -> String {
        self.types
            .keys()
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join(", ")
    }
}

impl fmt::Debug for CredentialTypes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.types.keys()).finish()
    }
}
