//! Served entries. A value becomes a resource only when it is handed out.

use std::sync::Arc;

use bytes::Bytes;
use oxds_types::Version;

use crate::etcd::entry::{Entry, Place};
use crate::etcd::stored::{Stored, StoredError};
use crate::group::NodeMatcher;
use crate::snapshot::Resource;

/// Content of an entry that can be served.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Good {
    Resource(Arc<Resource>),
    Matcher(Arc<NodeMatcher>),
}

impl Good {
    /// Reads the value of an entry.
    fn of(entry: &Entry, value: Bytes) -> Result<Self, String> {
        let text = |error: StoredError| error.to_string();
        let stored = Stored::decode(value).map_err(text)?;
        match entry {
            Entry::Matcher(_) => Ok(Self::Matcher(Arc::new(stored.matcher().map_err(text)?))),
            Entry::Resource(place) => {
                let resource = stored.resource(place).map_err(text)?;
                check_name(place, &resource)?;
                Ok(Self::Resource(Arc::new(resource)))
            }
        }
    }
}

/// xRFC TP1, "Normalization": resources are kept under canonical names. Another spelling would be a second key for one name.
fn check_name(place: &Place, resource: &Resource) -> Result<(), String> {
    match place.name == *resource.name() {
        true => Ok(()),
        false => Err(format!(
            "the name is not in its canonical form: expected {:?}",
            resource.name()
        )),
    }
}

/// A published value of an entry.
#[derive(Debug)]
pub(super) struct Held {
    /// Version that the digest counts.
    pub(super) version: Version,
    /// The read that last found it.
    pub(super) mark: u32,
    content: Content,
}

#[derive(Debug)]
enum Content {
    /// The resource was not made yet. The content before stays good until then.
    Value(Box<(Bytes, Option<Good>)>),
    Good(Good),
    /// The value cannot be used; the last good content is.
    Invalid(Option<Good>),
}

/// Result of [`Held::build`].
#[derive(Debug)]
pub(super) enum Built {
    /// The content is as before.
    Unchanged,
    /// The content is another one.
    Changed(Good),
    /// The value cannot be used.
    Invalid {
        reason: String,
        /// A last good content stays served.
        is_served: bool,
    },
}

impl Held {
    pub(super) fn new(version: Version, mark: u32, value: Bytes, before: Option<Good>) -> Self {
        Self {
            version,
            mark,
            content: Content::Value(Box::new((value, before))),
        }
    }

    /// Sets the last good content of a value that was not built yet.
    pub(super) fn set_before(&mut self, good: Good) {
        if let Content::Value(unbuilt) = &mut self.content {
            unbuilt.1 = Some(good);
        }
    }

    /// Makes the resource or matcher. Returns its difference from the one that was handed out before.
    pub(super) fn build(&mut self, entry: &Entry) -> Built {
        let Content::Value(unbuilt) = &mut self.content else {
            return Built::Unchanged;
        };
        let (value, before) = std::mem::take(&mut **unbuilt);
        match (Good::of(entry, value), before) {
            // Of two equal contents, the one that is already in memory is kept.
            (Ok(good), Some(before)) if good == before => {
                self.content = Content::Good(before);
                Built::Unchanged
            }
            (Ok(good), _) => {
                self.content = Content::Good(good.clone());
                Built::Changed(good)
            }
            (Err(reason), before) => {
                let is_served = before.is_some();
                self.content = Content::Invalid(before);
                Built::Invalid { reason, is_served }
            }
        }
    }

    /// Returns the last good content that was handed out.
    pub(super) fn good(&self) -> Option<&Good> {
        match &self.content {
            Content::Value(unbuilt) => unbuilt.1.as_ref(),
            Content::Good(good) => Some(good),
            Content::Invalid(good) => good.as_ref(),
        }
    }

    /// Returns the last good content.
    pub(super) fn into_good(self) -> Option<Good> {
        match self.content {
            Content::Value(unbuilt) => unbuilt.1,
            Content::Good(good) => Some(good),
            Content::Invalid(good) => good,
        }
    }
}
