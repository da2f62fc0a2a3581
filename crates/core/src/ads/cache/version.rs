//! The version of a resource, in whatever words its server has for it.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// What makes the whole no larger than three words: room for hashes of 64 bits in hexadecimal, for oxds' own, and for
/// numbers.
const SHORT: usize = 22;

/// Any text; short ones, as versions are, take no allocation of their own.
#[derive(Clone, PartialEq, Eq)]
pub struct VersionText(Repr);

#[derive(Clone, PartialEq, Eq)]
enum Repr {
    /// Zeros follow the text.
    Short {
        len: u8,
        bytes: [u8; SHORT],
    },
    Long(Arc<str>),
}

impl From<&str> for VersionText {
    fn from(text: &str) -> Self {
        let mut bytes = [0; SHORT];
        Self(match bytes.get_mut(..text.len()) {
            Some(own) => {
                own.copy_from_slice(text.as_bytes());
                let len = text.len() as u8;
                Repr::Short { len, bytes }
            }
            None => Repr::Long(text.into()),
        })
    }
}

impl Deref for VersionText {
    type Target = str;

    fn deref(&self) -> &str {
        match &self.0 {
            Repr::Short { len, bytes } => {
                // Only `from` makes one, of a whole text.
                let own = bytes.get(..usize::from(*len)).unwrap_or_default();
                std::str::from_utf8(own).unwrap_or_default()
            }
            Repr::Long(text) => text,
        }
    }
}

impl fmt::Display for VersionText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self)
    }
}

impl fmt::Debug for VersionText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &**self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_comes_back() {
        let longest = "v".repeat(SHORT);
        let longer = "é".repeat(SHORT);
        for text in ["", "1", "0a1b2c3d4e5f6071", "größer", &longest, &longer] {
            let version = VersionText::from(text);
            assert_eq!((&*version, version.to_string()), (text, text.to_owned()));
        }
    }

    #[test]
    fn it_is_three_words_long() {
        assert_eq!(size_of::<VersionText>(), 3 * size_of::<usize>());
    }
}
