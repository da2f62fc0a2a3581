//! Digest of a lane: a sum over all its entries.

use std::fmt;

use oxds_types::{Fingerprint, Version};

use super::entry::Entry;
use super::names::parse_hex;

/// Commutative sum over the (entry, version) pairs of a lane, matchers included.
///
/// Equal states have equal digests, whatever the order of their changes; a change costs O(1). The digest detects loss
/// and disorder, not a hostile writer. The version of an entry is
/// [`Stored::digest_version`](super::Stored::digest_version), which covers the TTL.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Digest(Fingerprint);

impl Digest {
    /// Adds an entry that the lane does not have.
    pub fn add(&mut self, entry: &Entry, version: &Version) {
        self.0.add(&entry.text(), version);
    }

    /// Removes an entry that the lane has.
    pub fn remove(&mut self, entry: &Entry, version: &Version) {
        self.0.remove(&entry.text(), version);
    }

    /// Replaces the version of an entry; `None` stands for no entry.
    pub fn replace(&mut self, entry: &Entry, old: Option<&Version>, new: Option<&Version>) {
        let name = entry.text();
        if let Some(old) = old {
            self.0.remove(&name, old);
        }
        if let Some(new) = new {
            self.0.add(&name, new);
        }
    }

    /// Reads the text of a digest; `None` if it does not have exactly 32 hexadecimal digits in lower case.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        parse_hex(text).map(|bits| Self(Fingerprint::from_bits(bits)))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0.bits())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

impl<'a> FromIterator<(&'a Entry, &'a Version)> for Digest {
    fn from_iter<I: IntoIterator<Item = (&'a Entry, &'a Version)>>(entries: I) -> Self {
        let mut digest = Self::default();
        for (entry, version) in entries {
            digest.add(entry, version);
        }
        digest
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn entry(at: u8) -> Entry {
        let group = ["", "g/edge/", "g/core/"][usize::from(at % 3)];
        let text = match at % 7 {
            0 => format!("g/group-{at}"),
            _ => format!("{group}r/envoy.config.cluster.v3.Cluster/{at}"),
        };
        Entry::parse(&text).expect("valid")
    }

    fn of(state: &BTreeMap<Entry, Version>) -> Digest {
        state.iter().collect()
    }

    #[test]
    fn digest_tells_groups_and_matchers_apart() {
        let version = Version::of(b"content");
        let texts = [
            "r/a.B/x",
            "g/x/r/a.B/x",
            "g/y/r/a.B/x",
            "g/x",
            "g/y",
            "r/a.B/y",
            "r/a.C/x",
        ];
        let digests = texts.map(|text| {
            let entry = Entry::parse(text).expect("valid");
            Digest::from_iter([(&entry, &version)]).to_string()
        });
        let different: std::collections::BTreeSet<_> = digests.iter().collect();
        assert_eq!(different.len(), texts.len());
    }

    #[test]
    fn digest_is_stable_across_releases() {
        let entry = Entry::parse("r/a.B/x").expect("valid");
        let digest = Digest::from_iter([(&entry, &Version::of(b"oxds"))]);
        assert_eq!(digest.to_string(), "d71017ec340fa45803cdfecf4b8c3640");
        assert_eq!(Digest::parse(&digest.to_string()), Some(digest));
        assert_eq!(Digest::default().to_string(), "0".repeat(32));
    }

    proptest! {
        #[test]
        fn digest_depends_only_on_the_state(changes in prop::collection::vec((0..12u8, prop::option::of(0..4u8)), 0..40)) {
            let mut state = BTreeMap::new();
            let mut digest = Digest::default();
            for (at, content) in changes {
                let new = content.map(|content| Version::of(&[content]));
                let old = match new {
                    Some(new) => state.insert(entry(at), new),
                    None => state.remove(&entry(at)),
                };
                digest.replace(&entry(at), old.as_ref(), new.as_ref());
            }
            prop_assert_eq!(digest, of(&state));
        }
    }
}
