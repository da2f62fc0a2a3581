//! The registry of client features: a text file per major of the API.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use crate::ApiVersion;

/// Feature of clients whose requests have `versioned_type_urls` (V-50).
pub const VERSIONED_TYPE_URLS: &str = "oxds.xds.versioned-type-urls";

static V2: LazyLock<ClientFeatures> =
    LazyLock::new(|| ClientFeatures::parse(include_str!("../../data/client-features/v2.txt")));
static V3: LazyLock<ClientFeatures> =
    LazyLock::new(|| ClientFeatures::parse(include_str!("../../data/client-features/v3.txt")));

/// The registered client features of a major. A client may send others: servers keep them, and ignore what they do not
/// know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientFeatures(BTreeSet<&'static str>);

/// A name that no client feature can have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("client feature {0:?}: expected a name in reverse DNS form, such as com.example.feature")]
pub struct InvalidFeature(pub String);

impl ClientFeatures {
    /// Returns the registry of a major: `crates/types/data/client-features/`.
    #[must_use]
    pub fn of(version: ApiVersion) -> &'static Self {
        match version {
            ApiVersion::V2 => &V2,
            ApiVersion::V3 => &V3,
        }
    }

    /// Reads a registry: a name per line, then a description; `#` begins a comment.
    fn parse(text: &'static str) -> Self {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        Self(
            lines
                .filter_map(|line| line.split_whitespace().next())
                .collect(),
        )
    }

    /// Whether a feature is registered.
    #[must_use]
    pub fn has(&self, feature: &str) -> bool {
        self.0.contains(feature)
    }

    /// Returns the registered features, sorted.
    pub fn iter(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().copied()
    }

    /// Checks the form of a name: at least two segments of letters, digits, `-` and `_`.
    ///
    /// # Errors
    /// The name has another form.
    pub fn check(feature: &str) -> Result<(), InvalidFeature> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let segments = feature.split('.');
        let valid = segments
            .clone()
            .all(|segment| !segment.is_empty() && segment.chars().all(is_plain));
        if valid && segments.count() > 1 {
            Ok(())
        } else {
            Err(InvalidFeature(feature.chars().take(100).collect()))
        }
    }
}
