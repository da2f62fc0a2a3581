//! Support of fields by a client, from its versions, features and extensions (V-54).

use std::collections::BTreeMap;

use super::version::SemVer;
use crate::discovery::{Node, VersionedTypeUrl};

/// Whether a client supports a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Support {
    /// The client has said so.
    Yes,
    /// The client has said that it does not.
    No,
    /// The client has not said enough. Fields that older clients may ignore can be sent; others need a substitute.
    Unknown,
}

/// Conditions under which a client supports a field, all of which must hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[must_use]
pub struct Requirement {
    since: Option<(String, SemVer)>,
    feature: Option<String>,
    extension: Option<String>,
}

impl Requirement {
    /// Requires this version of a message, which has a major of its own: the resource that the field is in, or the
    /// configuration of an extension.
    pub fn since(mut self, message: impl Into<String>, version: SemVer) -> Self {
        self.since = Some((message.into(), version));
        self
    }

    /// Requires a client feature.
    pub fn feature(mut self, feature: impl Into<String>) -> Self {
        self.feature = Some(feature.into());
        self
    }

    /// Requires an extension that is not disabled, by the full name of its configuration message.
    pub fn extension(mut self, message: impl Into<String>) -> Self {
        self.extension = Some(message.into());
        self
    }
}

/// Requirements by field: full names such as `envoy.config.cluster.v3.Cluster.lb_policy`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[must_use]
pub struct FieldCatalogue(BTreeMap<String, Requirement>);

impl FieldCatalogue {
    /// Adds a field, or replaces its requirement.
    pub fn field(mut self, name: impl Into<String>, requirement: Requirement) -> Self {
        self.0.insert(name.into(), requirement);
        self
    }
}

/// The identity of a client as far as it says what the client supports. User agent and build version are not part of it
/// (V-51).
#[derive(Debug, Clone, Copy)]
pub struct ClientApi<'a> {
    node: &'a Node,
    versions: &'a [VersionedTypeUrl],
}

impl<'a> ClientApi<'a> {
    /// Returns what a node says.
    #[must_use]
    pub fn of(node: &'a Node) -> Self {
        Self {
            node,
            versions: &[],
        }
    }

    /// Adds the versions of a request.
    #[must_use]
    pub fn with_versions(mut self, versions: &'a [VersionedTypeUrl]) -> Self {
        self.versions = versions;
        self
    }

    /// Returns whether the client supports a field. A field that is not in the catalogue is `Unknown`.
    ///
    /// ```
    /// use oxds_types::discovery::Node;
    /// use oxds_types::identity::{ClientApi, FieldCatalogue, Requirement, Support};
    ///
    /// let field = "acme.v1.Quota.burst";
    /// let fields = FieldCatalogue::default().field(field, Requirement::default().feature("com.acme.burst"));
    /// let node = Node { client_features: vec!["com.acme.burst".to_owned()], ..Node::default() };
    /// assert_eq!(ClientApi::of(&node).supports(&fields, field), Support::Yes);
    /// assert_eq!(ClientApi::of(&Node::default()).supports(&fields, field), Support::Unknown);
    /// ```
    #[must_use]
    pub fn supports(&self, catalogue: &FieldCatalogue, field: &str) -> Support {
        let Some(requirement) = catalogue.0.get(field) else {
            return Support::Unknown;
        };
        let Requirement {
            since,
            feature,
            extension,
        } = requirement;
        let parts = [
            since
                .as_ref()
                .map(|(message, version)| self.has_version(message, *version)),
            feature.as_ref().map(|feature| self.has_feature(feature)),
            extension
                .as_ref()
                .map(|message| self.has_extension(message)),
        ];
        let mut parts = parts.into_iter().flatten().peekable();
        // Nothing is required of an entry without conditions, and so nothing is known.
        if parts.peek().is_none() {
            return Support::Unknown;
        }
        let mut all = Support::Yes;
        for part in parts {
            match part {
                Support::No => return Support::No,
                Support::Unknown => all = Support::Unknown,
                Support::Yes => {}
            }
        }
        all
    }

    fn has_version(&self, message: &str, wanted: SemVer) -> Support {
        let of_request = self.versions.iter().filter_map(|versioned| {
            let version = versioned.most_recently_supported.as_ref()?;
            (message_of(&versioned.type_url) == message).then(|| SemVer::from(version))
        });
        let extensions = self.node.extensions.iter();
        let of_extensions = extensions.filter_map(|extension| {
            let version = extension.version.as_ref()?.version.as_ref()?;
            let mut urls = extension.type_urls.iter();
            let is_named = urls.any(|url| message_of(url) == message);
            is_named.then(|| SemVer::from(version))
        });
        match of_request.chain(of_extensions).max() {
            Some(version) if version >= wanted => Support::Yes,
            Some(_) => Support::No,
            // A list of versions has one entry per accepted major: this message, which has its major, is not accepted.
            None if self.lists_resource(message) => Support::No,
            None => Support::Unknown,
        }
    }

    /// Whether the client has listed versions of another major of the same resource.
    fn lists_resource(&self, message: &str) -> bool {
        let plain = without_major(message);
        let mut versions = self.versions.iter();
        versions.any(|versioned| without_major(message_of(&versioned.type_url)) == plain)
    }

    fn has_feature(&self, feature: &str) -> Support {
        let features = &self.node.client_features;
        if features.iter().any(|known| known == feature) {
            Support::Yes
        } else if features.is_empty() {
            // A client without any feature may be older than the field.
            Support::Unknown
        } else {
            Support::No
        }
    }

    fn has_extension(&self, message: &str) -> Support {
        let extensions = &self.node.extensions;
        let mut named = extensions.iter().filter(|extension| {
            let mut urls = extension.type_urls.iter();
            urls.any(|url| message_of(url) == message)
        });
        let mut found = named.clone();
        if named.any(|extension| !extension.disabled) {
            Support::Yes
        } else if found.next().is_some() {
            Support::No
        } else if extensions.iter().any(|known| !known.type_urls.is_empty()) {
            // The list is complete if it has type URLs at all.
            Support::No
        } else {
            Support::Unknown
        }
    }
}

/// Returns the full name of the message of a type URL, or of a name without a host.
fn message_of(type_url: &str) -> &str {
    type_url.rsplit('/').next().unwrap_or(type_url)
}

/// Returns the name of a message without its major: `envoy.config.cluster.Cluster`.
fn without_major(message: &str) -> Vec<&str> {
    let segments = message.split('.');
    let is_major = |segment: &str| segment.parse::<super::Major>().is_ok();
    segments.filter(|segment| !is_major(segment)).collect()
}
