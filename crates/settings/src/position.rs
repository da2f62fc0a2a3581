//! Positions in texts.

use std::fmt;

/// A position in a text. Lines and columns count from 1; columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Position {
    /// Line number, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
}

impl Position {
    /// The position after the last character of a text.
    #[must_use]
    pub fn after(text: &str) -> Self {
        let last = text.rsplit('\n').next().unwrap_or_default();
        Self {
            line: text.matches('\n').count() as u32 + 1,
            column: last.chars().count() as u32 + 1,
        }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}
