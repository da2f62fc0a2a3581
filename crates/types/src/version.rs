//! Versions as content hashes: equal content has equal versions on every replica and after every restart, and different
//! content has different versions (S-29).
//!
//! A version is 96 bits of XXH3-128 in base64url: 16 ASCII characters. Clients send thousands of versions after a
//! reconnect, so they are short. With 96 bits, the probability of a collision among 10^9 resources is below 10^-10. The
//! hash need not be cryptographic: an author who can construct a collision can also write both resources.

use std::fmt;

use xxhash_rust::xxh3::xxh3_128;

/// Length of a version in characters.
const LEN: usize = 16;
/// Digits of a version: base64url.
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The version of a resource, or of a set of resources: 16 ASCII characters.
///
/// ```
/// use oxds_types::Version;
///
/// let version = Version::of(b"content");
/// assert_eq!(version, Version::of(b"content"));
/// assert_ne!(version, Version::of(b"other content"));
/// assert_eq!(version.as_str().len(), 16);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Version([u8; LEN]);

impl Version {
    /// Returns the version of a resource with these canonical bytes.
    #[must_use]
    pub fn of(content: &[u8]) -> Version {
        Version::render(xxh3_128(content))
    }

    /// Returns the version as it is sent.
    #[must_use]
    pub fn as_str(&self) -> &str {
        // `render` makes ASCII only, so the check never fails. It costs a nanosecond.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }

    /// Reads a version as it is sent; `None` if the text does not have the form of one.
    ///
    /// ```
    /// use oxds_types::Version;
    ///
    /// let version = Version::of(b"content");
    /// assert_eq!(Version::parse(version.as_str()), Some(version));
    /// assert_eq!(Version::parse("v1"), None);
    /// ```
    #[must_use]
    pub fn parse(text: &str) -> Option<Version> {
        let version = <[u8; LEN]>::try_from(text.as_bytes()).ok()?;
        let is_digit = |digit: &u8| ALPHABET.contains(digit);
        version.iter().all(is_digit).then_some(Version(version))
    }

    fn render(hash: u128) -> Version {
        Version(std::array::from_fn(|i| {
            ALPHABET[(hash >> (6 * i)) as usize & 63]
        }))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Version({self})")
    }
}

impl AsRef<str> for Version {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl PartialEq<str> for Version {
    fn eq(&self, other: &str) -> bool {
        self.0 == *other.as_bytes()
    }
}

/// Hash of a set of (name, version) pairs, updated in O(1) per change.
///
/// It is a commutative sum of one hash per pair, so the order of additions and removals does not matter: replicas that
/// reach the same set in different ways agree on its version.
///
/// ```
/// use oxds_types::{Fingerprint, Version};
///
/// let (a, b) = (Version::of(b"a"), Version::of(b"b"));
/// let mut one = Fingerprint::default();
/// one.add("x", &a);
/// one.add("y", &b);
/// let mut other = Fingerprint::default();
/// other.add("y", &b);
/// other.add("z", &a);
/// other.remove("z", &a);
/// other.add("x", &a);
/// assert_eq!(one.version(), other.version());
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Fingerprint(u128);

impl Fingerprint {
    /// Adds a pair that is not in the set.
    pub fn add(&mut self, name: &str, version: &Version) {
        self.0 = self.0.wrapping_add(Self::pair(name, version));
    }

    /// Removes a pair that is in the set.
    pub fn remove(&mut self, name: &str, version: &Version) {
        self.0 = self.0.wrapping_sub(Self::pair(name, version));
    }

    /// Returns the whole hash, for storage. [`from_bits`](Self::from_bits) continues from it.
    #[must_use]
    pub fn bits(self) -> u128 {
        self.0
    }

    /// Returns the fingerprint that had these [`bits`](Self::bits).
    #[must_use]
    pub fn from_bits(bits: u128) -> Fingerprint {
        Fingerprint(bits)
    }

    /// Returns the version of the whole set.
    #[must_use]
    pub fn version(&self) -> Version {
        Version::render(self.0)
    }

    fn pair(name: &str, version: &Version) -> u128 {
        // The version has a fixed length, so the concatenation is unambiguous.
        xxh3_128(&[&version.0, name.as_bytes()].concat())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn s29_versions_are_stable_across_releases() {
        // Replicas of different builds must agree on these. The published XXH3-128 of the empty input is
        // 99aa06d3014798d86001c324468d497f.
        assert_eq!(Version::of(b"").as_str(), "_lUjGRywBAG2YeUA");
        assert_eq!(Version::of(b"oxds").as_str(), "TRkVn1nWy3gcXstU");
    }

    proptest! {
        #[test]
        fn fingerprint_depends_only_on_the_set(
            set in prop::collection::btree_map("[a-z]{1,4}", any::<u64>(), 0..20),
            noise in prop::collection::vec(("[A-Z]{1,4}", any::<u64>()), 0..20),
        ) {
            let version = |n: &u64| Version::of(&n.to_le_bytes());
            let mut forward = Fingerprint::default();
            set.iter().for_each(|(name, n)| forward.add(name, &version(n)));

            let mut detour = Fingerprint::default();
            noise.iter().for_each(|(name, n)| detour.add(name, &version(n)));
            set.iter().rev().for_each(|(name, n)| detour.add(name, &version(n)));
            noise.iter().for_each(|(name, n)| detour.remove(name, &version(n)));
            prop_assert_eq!(forward, detour);
        }

        #[test]
        fn version_is_16_characters_of_base64url(content: Vec<u8>) {
            let version = Version::of(&content);
            prop_assert_eq!(version.as_str().len(), LEN);
            prop_assert!(version.as_str().bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_'));
        }
    }
}
