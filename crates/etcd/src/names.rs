//! Names in keys: prefix, segments (lanes, groups, replicas) and publish ids.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::key_error::KeyError;

/// Prefix of all keys of one configuration, such as `/oxds/default/`. It ends with `/`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Prefix(Arc<str>);

impl Prefix {
    /// Makes a prefix. A `/` is added to its end if it has none.
    ///
    /// # Errors
    /// The text is empty or consists of `/` only: such a prefix would be the whole etcd.
    pub fn new(text: &str) -> Result<Self, KeyError> {
        let text = text.trim_end_matches('/');
        if text.is_empty() {
            return Err(KeyError::EmptyPrefix);
        }
        Ok(Self(format!("{text}/").into()))
    }

    /// Returns the text, with `/` at its end.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Prefix({})", self.0)
    }
}

/// Name that is one segment of a key: of a lane, a group or a replica. It is not empty and has no `/`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Segment(Arc<str>);

impl Segment {
    /// Makes the name of a lane.
    ///
    /// # Errors
    /// The name is empty or has a `/` (G-3).
    pub fn lane(name: &str) -> Result<Self, KeyError> {
        Self::new("lane", name)
    }

    /// Makes the name of a group.
    ///
    /// # Errors
    /// The name is empty or has a `/` (G-3).
    pub fn group(name: &str) -> Result<Self, KeyError> {
        Self::new("group", name)
    }

    /// Makes the id of a replica.
    ///
    /// # Errors
    /// The id is empty or has a `/`.
    pub fn replica(id: &str) -> Result<Self, KeyError> {
        Self::new("replica", id)
    }

    fn new(of: &'static str, name: &str) -> Result<Self, KeyError> {
        if name.is_empty() || name.contains('/') {
            let name = name.to_owned();
            return Err(KeyError::InvalidSegment { of, name });
        }
        Ok(Self(name.into()))
    }

    /// Returns the name, shared.
    #[must_use]
    pub fn shared(&self) -> Arc<str> {
        Arc::clone(&self.0)
    }
}

impl Deref for Segment {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

/// Equality, order and hash are those of the text.
impl Borrow<str> for Segment {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

/// Id of a publish: 128 random bits that the shell chooses. Its text has 32 hexadecimal digits in lower case.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PublishId(pub u128);

impl PublishId {
    /// Reads the text of an id; `None` if it does not have exactly 32 hexadecimal digits in lower case.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        parse_hex(text).map(Self)
    }
}

impl fmt::Display for PublishId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for PublishId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublishId({self})")
    }
}

/// Reads 128 bits as 32 hexadecimal digits in lower case.
pub(super) fn parse_hex(text: &str) -> Option<u128> {
    // `from_str_radix` alone also takes a sign and upper case: then one id would have several keys.
    let is_digit = |digit: u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
    let well_formed = text.len() == 32 && text.bytes().all(is_digit);
    well_formed.then(|| u128::from_str_radix(text, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g3_lane_and_group_names_with_a_slash_are_errors() {
        for name in ["a/b", "/", "a/", ""] {
            let lane = Segment::lane(name).expect_err(name).to_string();
            assert!(lane.starts_with("invalid lane name"), "{lane}");
            let group = Segment::group(name).expect_err(name).to_string();
            assert!(group.starts_with("invalid group name"), "{group}");
        }
        assert_eq!(
            &*Segment::group("kanten-größe?").expect("valid"),
            "kanten-größe?"
        );
    }

    #[test]
    fn prefix_ends_with_one_slash_and_is_not_the_whole_etcd() {
        for text in ["/oxds/a", "/oxds/a/", "/oxds/a//"] {
            assert_eq!(Prefix::new(text).expect("valid").as_str(), "/oxds/a/");
        }
        for text in ["", "/", "//"] {
            assert_eq!(Prefix::new(text), Err(KeyError::EmptyPrefix));
        }
    }

    #[test]
    fn publish_id_has_one_text() {
        let id = PublishId(0xabc);
        assert_eq!(PublishId::parse(&id.to_string()), Some(id));
        let other = [
            "+0000000000000000000000000000abc",
            "ABC",
            "abc",
            "0000000000000000000000000000ABCD",
        ];
        for text in other {
            assert_eq!(PublishId::parse(text), None, "{text}");
        }
    }
}
