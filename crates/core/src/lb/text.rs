//! String comparison with or without case.

/// Text to compare strings with, with or without ASCII case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text {
    text: Box<str>,
    ignore_case: bool,
}

impl Text {
    /// Makes a text; `ignore_case` is for ASCII letters.
    #[must_use]
    pub fn new(text: &str, ignore_case: bool) -> Self {
        Self {
            text: text.into(),
            ignore_case,
        }
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub(super) fn ignores_case(&self) -> bool {
        self.ignore_case
    }

    pub(super) fn equals(&self, other: &str) -> bool {
        self.same(other.as_bytes())
    }

    pub(super) fn is_prefix_of(&self, other: &str) -> bool {
        other
            .as_bytes()
            .get(..self.text.len())
            .is_some_and(|start| self.same(start))
    }

    /// Whether the text is a prefix of `other` that ends at a `/`, or all of it.
    #[cfg(feature = "explain")]
    pub(crate) fn is_separated_prefix_of(&self, other: &str) -> bool {
        let rest = other.as_bytes().get(self.text.len());
        self.is_prefix_of(other) && rest.is_none_or(|next| *next == b'/')
    }

    pub(super) fn is_suffix_of(&self, other: &str) -> bool {
        let start = other.len().checked_sub(self.text.len());
        start.is_some_and(|start| self.same(&other.as_bytes()[start..]))
    }

    pub(super) fn is_part_of(&self, other: &str) -> bool {
        if self.ignore_case {
            let mut windows = other.as_bytes().windows(self.text.len().max(1));
            self.text.is_empty() || windows.any(|window| self.same(window))
        } else {
            other.contains(&*self.text)
        }
    }

    fn same(&self, other: &[u8]) -> bool {
        if self.ignore_case {
            self.text.as_bytes().eq_ignore_ascii_case(other)
        } else {
            self.text.as_bytes() == other
        }
    }
}
