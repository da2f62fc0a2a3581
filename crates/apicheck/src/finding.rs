//! Findings: one violation of a rule, and its location.
//!
//! A finding owns its texts. It outlives the trees that it is about and can be sorted, exempted and
//! printed in any format.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};

use crate::model::{FileSpan, Span, Tree};
use crate::rule::Rule;

pub use crate::rule::Severity;

/// Language whose generated code a change breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the variants are the names of the languages")]
#[non_exhaustive]
pub enum Language {
    Cpp,
    Go,
    Java,
    Python,
}

impl Language {
    /// All supported languages.
    pub const ALL: [Language; 4] = [
        Language::Cpp,
        Language::Go,
        Language::Java,
        Language::Python,
    ];

    /// Returns the spelling on the command line and in `oxds-api.yaml`.
    #[must_use]
    pub fn short(self) -> &'static str {
        match self {
            Language::Cpp => "cpp",
            Language::Go => "go",
            Language::Java => "java",
            Language::Python => "py",
        }
    }
}

/// Writes the full name of the language: `C++`.
impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Language::Cpp => "C++",
            Language::Go => "Go",
            Language::Java => "Java",
            Language::Python => "Python",
        })
    }
}

impl FromStr for Language {
    type Err = String;

    fn from_str(text: &str) -> Result<Language, String> {
        let known = Language::ALL
            .into_iter()
            .find(|language| language.short() == text);
        known.ok_or_else(|| format!("unknown language {text:?}: expected cpp, go, java or py"))
    }
}

/// File and position of an element, as text for people.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct Location {
    /// Display path of the file.
    pub path: String,
    /// Position in the file, if known.
    pub span: Option<Span>,
}

impl Location {
    /// Converts a span of a tree into texts that outlive the tree.
    #[must_use]
    pub fn of(tree: &Tree, place: FileSpan) -> Location {
        Location {
            path: tree[place.file].display.to_string(),
            span: place.span,
        }
    }
}

/// Writes `path:line:column`, which editors and terminals recognise.
impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)?;
        if let Some(span) = self.span {
            write!(f, ":{}:{}", span.line, span.column)?;
        }
        Ok(())
    }
}

/// One violation of a rule.
#[derive(Debug, Clone)]
pub struct Finding {
    /// Rule that is violated.
    pub rule: &'static Rule,
    /// Severity in the chosen profile.
    pub severity: Severity,
    /// Full name of the element in the new tree, or in the old tree if it was removed:
    /// `envoy.type.v3.Percent.value`. Findings about a file have its path.
    pub element: String,
    /// Full name of the element in the old tree, if it had another one there.
    pub old_element: Option<String>,
    /// One sentence without a full stop: `renumbered from 3 to 5`.
    pub message: String,
    /// Short form of the old state, for exceptions and programs: `3`. Empty for additions.
    pub old_value: String,
    /// Short form of the new state: `5`. Empty for removals.
    pub new_value: String,
    /// Location in the old tree; `None` for additions and for rules about one tree.
    pub old: Option<Location>,
    /// Location in the new tree. For removals, the location of the enclosing element: its owner, else
    /// its file, else its package. If the whole package is gone, the former path of the file.
    pub new: Option<Location>,
    /// Languages whose generated code breaks; empty if generated code is not the issue.
    pub languages: BTreeSet<Language>,
    /// Remedy, if the rule knows one.
    pub fix: Option<String>,
    /// Reason why the finding does not count, if it is exempt: `work in progress`, `alpha`.
    pub exempt: Option<String>,
}

impl Finding {
    /// Returns whether the new tree lacks the element. Then `new` is the location of another element.
    #[must_use]
    pub fn is_removal(&self) -> bool {
        self.old.is_some() && self.new_value.is_empty()
    }

    /// Returns the name of the element in the old tree; its only name if it was not renamed.
    #[must_use]
    pub fn old_name(&self) -> &str {
        self.old_element.as_deref().unwrap_or(&self.element)
    }

    /// Returns an identifier that stays the same when lines move: it hashes the rule, the element
    /// and both values.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        let mut hash = Sha256::new();
        for part in [
            self.rule.id,
            &self.element,
            &self.old_value,
            &self.new_value,
        ] {
            hash.update(part.as_bytes());
            hash.update([0]);
        }
        let digest = hash.finalize();
        let hex = |hex: String, byte: &u8| hex + &format!("{byte:02x}");
        digest.iter().take(16).fold(String::new(), hex)
    }
}
