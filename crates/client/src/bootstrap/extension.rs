//! Extensions that a program lists in its node (V-52).

use envoy_types::pb::envoy::config::core::v3::{self as proto, BuildVersion};
use oxds_types::identity::SemVer;

/// An extension of a program: a filter, a resolver, a load-balancing policy.
///
/// ```
/// use oxds_client::bootstrap::{Bootstrap, Extension};
/// use oxds_types::identity::SemVer;
///
/// let extension = Extension::new("com.acme.filters.audit", "envoy.filters.http")
///     .version(SemVer::new(1, 2, 0))
///     .type_url("type.googleapis.com/acme.filters.audit.v1.Audit");
/// let bootstrap = Bootstrap::builder("cp:18000").extension(extension).build()?;
/// assert_eq!(bootstrap.node().extensions[0].name, "com.acme.filters.audit");
/// # Ok::<_, oxds_client::BootstrapError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[must_use]
pub struct Extension {
    name: String,
    category: String,
    version: Option<SemVer>,
    type_urls: Vec<String>,
    disabled: bool,
}

impl Extension {
    /// Returns an extension by its name and category, as Envoy has them: `envoy.filters.http.router`,
    /// `envoy.filters.http`.
    pub fn new(name: impl Into<String>, category: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            category: category.into(),
            ..Self::default()
        }
    }

    /// Sets the version. Only extensions outside the tree of the program have one of their own.
    pub fn version(mut self, version: SemVer) -> Self {
        self.version = Some(version);
        self
    }

    /// Adds the type URL of a configuration that the extension accepts.
    pub fn type_url(mut self, type_url: impl Into<String>) -> Self {
        self.type_urls.push(type_url.into());
        self
    }

    /// Marks the extension as present, but disabled.
    pub fn disabled(mut self) -> Self {
        self.disabled = true;
        self
    }
}

impl From<Extension> for proto::Extension {
    fn from(extension: Extension) -> Self {
        let version = extension.version.map(|version| BuildVersion {
            version: Some(version.into()),
            metadata: None,
        });
        Self {
            name: extension.name,
            category: extension.category,
            version,
            type_urls: extension.type_urls,
            disabled: extension.disabled,
            ..Self::default()
        }
    }
}
