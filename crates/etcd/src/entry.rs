//! Places of resources and matchers in a lane, and their texts in keys.

use std::fmt;
use std::sync::Arc;

use oxds_types::ResourceType;

use super::key_error::KeyError;
use super::names::Segment;
use oxds_core::snapshot::ResourceKey;

/// Place of a resource: its group, if it is not for all nodes, its type and its name.
///
/// `Display` writes the end of its key: `r/<type>/<name>` or `g/<group>/r/<type>/<name>`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// Group whose nodes see the resource; `None` if all nodes do.
    pub group: Option<Segment>,
    /// Type of the resource.
    pub resource_type: ResourceType,
    /// Name of the resource, as it is.
    pub name: Arc<str>,
}

impl Place {
    /// Returns the place of a resource that all nodes see.
    #[must_use]
    pub fn of_all(resource_type: ResourceType, name: impl Into<Arc<str>>) -> Self {
        Self {
            group: None,
            resource_type,
            name: name.into(),
        }
    }

    /// Returns the place of a resource that the nodes of a group see.
    #[must_use]
    pub fn of_group(
        group: Segment,
        resource_type: ResourceType,
        name: impl Into<Arc<str>>,
    ) -> Self {
        Self {
            group: Some(group),
            ..Self::of_all(resource_type, name)
        }
    }

    /// Returns type and name.
    #[must_use]
    pub fn resource_key(&self) -> ResourceKey {
        (self.resource_type.clone(), Arc::clone(&self.name))
    }

    /// Reads what `Display` writes.
    ///
    /// # Errors
    /// The text is not that of a place.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        match Entry::parse(text)? {
            Entry::Resource(place) => Ok(place),
            Entry::Matcher(_) => Err(KeyError::unknown(text)),
        }
    }

    /// Reads what follows `r/`: `<type>/<name>`. The name is the whole rest (G-3).
    fn parse_resource(group: Option<Segment>, text: &str) -> Result<Self, KeyError> {
        let (message, name) = text.split_once('/').unwrap_or((text, ""));
        // First, because almost all are known, and to read a type URL takes longer.
        let known = ResourceType::known().find(|known| known.message() == message);
        let read = || {
            ResourceType::from_type_url(&format!("/{message}"))
                .map(|(resource_type, _)| resource_type)
                // The name of a v2 message would give one place two keys.
                .filter(|resource_type| resource_type.message() == message)
        };
        let resource_type = known
            .or_else(read)
            .ok_or_else(|| KeyError::InvalidType(message.to_owned()))?;
        if name.is_empty() {
            return Err(KeyError::NoName(resource_type));
        }
        let name = name.into();
        Ok(Self {
            group,
            resource_type,
            name,
        })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(group) = &self.group {
            write!(f, "g/{group}/")?;
        }
        write!(f, "r/{}/{}", self.resource_type.message(), self.name)
    }
}

/// Part of a lane's published state: a resource, or the matcher of a group.
///
/// `Display` writes the end of its key: that of a [`Place`], or `g/<group>`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Entry {
    /// Matcher of a group.
    Matcher(Segment),
    /// A resource.
    Resource(Place),
}

impl Entry {
    /// Reads what `Display` writes.
    ///
    /// # Errors
    /// The text is not that of an entry.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        if let Some(rest) = text.strip_prefix("r/") {
            return Place::parse_resource(None, rest).map(Self::Resource);
        }
        let rest = text
            .strip_prefix("g/")
            .ok_or_else(|| KeyError::unknown(text))?;
        // The name of a group has no `/`, so that its end is known (G-3).
        let Some((group, rest)) = rest.split_once('/') else {
            return Segment::group(rest).map(Self::Matcher);
        };
        let group = Segment::group(group)?;
        let rest = rest
            .strip_prefix("r/")
            .ok_or_else(|| KeyError::unknown(text))?;
        Place::parse_resource(Some(group), rest).map(Self::Resource)
    }

    /// Returns the group that the entry belongs to.
    #[must_use]
    pub fn group(&self) -> Option<&Segment> {
        match self {
            Self::Matcher(group) => Some(group),
            Self::Resource(place) => place.group.as_ref(),
        }
    }

    /// Returns what `Display` writes. Digests are made of it, so it must be fast.
    pub(super) fn text(&self) -> String {
        let Self::Resource(place) = self else {
            return self.to_string();
        };
        let group = place.group.as_ref();
        let group = group.map(|group| ["g/", group, "/"]);
        let rest = ["r/", place.resource_type.message(), "/", &place.name];
        let parts = group.iter().flatten().chain(&rest);
        parts.copied().collect()
    }

    /// Returns the type of the resource; `None` for a matcher.
    #[must_use]
    pub fn resource_type(&self) -> Option<&ResourceType> {
        match self {
            Self::Matcher(_) => None,
            Self::Resource(place) => Some(&place.resource_type),
        }
    }
}

impl From<Place> for Entry {
    fn from(place: Place) -> Self {
        Self::Resource(place)
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Matcher(group) => write!(f, "g/{group}"),
            Self::Resource(place) => place.fmt(f),
        }
    }
}
