//! The version of a resource, in whatever words its server has for it.

use std::fmt;
use std::ops::Deref;

use smol_str::SmolStr;

/// Any text; short ones, as versions are, take no allocation of their own.
#[derive(Clone, PartialEq, Eq)]
pub struct VersionText(SmolStr);

impl From<&str> for VersionText {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl Deref for VersionText {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for VersionText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self)
    }
}

impl fmt::Debug for VersionText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_three_words_long() {
        assert_eq!(size_of::<VersionText>(), 3 * size_of::<usize>());
    }
}
