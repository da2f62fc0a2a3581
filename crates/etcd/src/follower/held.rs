//! Values of entries, and those that are served.

use std::mem;
use std::sync::Arc;

use bytes::Bytes;
use oxds_types::Version;

use crate::entry::{Entry, Place};
use crate::stored::{Stored, StoredError};
use oxds_core::group::NodeMatcher;
use oxds_core::snapshot::Resource;

/// Content of an entry that can be served.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Good {
    Resource(Arc<Resource>),
    Matcher(Arc<NodeMatcher>),
}

/// Value of an entry's key, decoded once.
pub(super) struct Decoded {
    /// Version that the digest counts.
    pub(super) version: Version,
    stored: Result<Stored, StoredError>,
}

impl Decoded {
    /// Decodes a value. It shares the given bytes, which may be a part of a large response: keep only what
    /// [`into_new`](Self::into_new) returns.
    pub(super) fn of(value: &Bytes) -> Self {
        let stored = Stored::decode(value.clone());
        let version = match &stored {
            Ok(stored) => stored.digest_version(),
            // No head vouches for a value without a valid version: the hash of all its bytes is the version of nothing
            // else.
            Err(_) => Version::of(value),
        };
        Self { version, stored }
    }

    /// Makes the value of an entry, which shares no bytes with the given ones.
    pub(super) fn into_new(self, entry: &Entry, created: i64) -> New {
        New {
            version: self.version,
            created,
            content: self.good(entry),
        }
    }

    fn good(self, entry: &Entry) -> Result<Good, String> {
        let text = |error: StoredError| error.to_string();
        let stored = self.stored.map_err(text)?;
        match entry {
            Entry::Matcher(_) => Ok(Good::Matcher(Arc::new(stored.matcher().map_err(text)?))),
            Entry::Resource(place) => {
                let resource = stored.resource(place).map_err(text)?;
                check_name(place, &resource)?;
                Ok(Good::Resource(Arc::new(resource)))
            }
        }
    }
}

/// xRFC TP1, "Normalization": resources are kept under canonical names. Another spelling would be a second key for one
/// name.
fn check_name(place: &Place, resource: &Resource) -> Result<(), String> {
    if place.name == *resource.name() {
        Ok(())
    } else {
        Err(format!(
            "the name is not in its canonical form: expected {:?}",
            resource.name()
        ))
    }
}

/// Value of an entry that is not served.
#[derive(Debug)]
pub(super) struct New {
    /// Version that the digest counts.
    pub(super) version: Version,
    /// Revision at which the key was created.
    pub(super) created: i64,
    /// The content, or why the value cannot be used.
    pub(super) content: Result<Good, String>,
}

impl New {
    /// Decodes the value of an entry's key.
    pub(super) fn of(entry: &Entry, created: i64, value: &Bytes) -> Self {
        Decoded::of(value).into_new(entry, created)
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
    /// Not handed out yet, and nothing was before.
    New(Good),
    /// Not handed out yet. The content before stays good until then.
    Changed(Box<(Result<Good, String>, Option<Good>)>),
    Good(Good),
    /// The value cannot be used; the last good content is.
    Invalid(Option<Good>),
}

impl Content {
    /// Returns the last good content that was handed out.
    fn into_good(self) -> Option<Good> {
        match self {
            Self::New(_) => None,
            Self::Changed(changed) => changed.1,
            Self::Good(good) => Some(good),
            Self::Invalid(good) => good,
        }
    }
}

/// Result of [`Held::hand_out`].
#[derive(Debug)]
pub(super) enum HandedOut {
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
    /// Makes it from the content of a value, or the reason why that cannot be used. `before` was handed out.
    pub(super) fn new(
        version: Version,
        mark: u32,
        content: Result<Good, String>,
        before: Option<Good>,
    ) -> Self {
        let content = match (content, before) {
            (Ok(good), None) => Content::New(good),
            changed => Content::Changed(Box::new(changed)),
        };
        Self {
            version,
            mark,
            content,
        }
    }

    /// Makes it the value that the key has now.
    pub(super) fn renew(&mut self, version: Version, mark: u32, content: Result<Good, String>) {
        let before = mem::replace(&mut self.content, Content::Invalid(None));
        *self = Self::new(version, mark, content, before.into_good());
    }

    /// Sets the last good content of a value that was not handed out yet.
    pub(super) fn set_before(&mut self, before: Good) {
        let content = mem::replace(&mut self.content, Content::Invalid(None));
        self.content = match content {
            Content::New(good) => Content::Changed(Box::new((Ok(good), Some(before)))),
            Content::Changed(changed) => Content::Changed(Box::new((changed.0, Some(before)))),
            handed_out => handed_out,
        };
    }

    /// Hands the content out. Returns its difference from the one that was handed out before.
    pub(super) fn hand_out(&mut self) -> HandedOut {
        let content = mem::replace(&mut self.content, Content::Invalid(None));
        let (content, before) = match content {
            Content::New(good) => (Ok(good), None),
            Content::Changed(changed) => *changed,
            handed_out => {
                self.content = handed_out;
                return HandedOut::Unchanged;
            }
        };
        match (content, before) {
            // Of two equal contents, the one that is already in memory is kept.
            (Ok(good), Some(before)) if good == before => {
                self.content = Content::Good(before);
                HandedOut::Unchanged
            }
            (Ok(good), _) => {
                self.content = Content::Good(good.clone());
                HandedOut::Changed(good)
            }
            (Err(reason), before) => {
                let is_served = before.is_some();
                self.content = Content::Invalid(before);
                HandedOut::Invalid { reason, is_served }
            }
        }
    }

    /// Returns the last good content that was handed out.
    pub(super) fn good(&self) -> Option<&Good> {
        match &self.content {
            Content::New(_) => None,
            Content::Changed(changed) => changed.1.as_ref(),
            Content::Good(good) => Some(good),
            Content::Invalid(good) => good.as_ref(),
        }
    }
}
