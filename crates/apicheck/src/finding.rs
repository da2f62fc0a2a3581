//! What a rule found, and where.
//!
//! A finding owns its texts, so that it outlives the trees it is about and can be sorted, excepted
//! and printed in any form.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};

use crate::model::{Place, Span, Tree};
use crate::rule::Rule;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Told, never fails a check by itself.
    Note,
    /// Fails a check with `--fail-on warn`.
    Warning,
    /// Fails a check.
    Error,
}

/// A language whose generated code a change breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the names are those of the languages")]
pub enum Language {
    Cpp,
    Go,
    Java,
    Python,
}

impl Language {
    /// All of them.
    pub const ALL: [Language; 4] = [
        Language::Cpp,
        Language::Go,
        Language::Java,
        Language::Python,
    ];

    /// As people type it.
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

/// The name of the language.
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
        known.ok_or_else(|| format!("{text:?} is none of cpp, go, java, py"))
    }
}

/// Where, as a person reads it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Location {
    /// The file as its tree displays it.
    pub path: String,
    /// The stretch, when it is known.
    pub span: Option<Span>,
}

impl Location {
    /// The place in words that outlive `tree`.
    #[must_use]
    pub fn of(tree: &Tree, place: Place) -> Location {
        Location {
            path: tree[place.file].display.to_string(),
            span: place.span,
        }
    }
}

/// `path:line:column`, as editors and terminals take it.
impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)?;
        if let Some(span) = self.span {
            write!(f, ":{}:{}", span.line, span.column)?;
        }
        Ok(())
    }
}

/// One thing that a rule found.
#[derive(Debug, Clone)]
pub struct Finding {
    /// The rule.
    pub rule: &'static Rule,
    /// How bad it is, after profile and exemptions.
    pub severity: Severity,
    /// The full name of the element, as it is now, or as it was when it is gone:
    /// `envoy.type.v3.Percent.value`, or the path of a file.
    pub element: String,
    /// One sentence, no full stop: `renumbered from 3 to 5`.
    pub message: String,
    /// What was, shortly, for exceptions and machines: `3`. Empty when there was nothing.
    pub old_value: String,
    /// What is, shortly: `5`. Empty when there is nothing.
    pub new_value: String,
    /// Where it was; none for rules about one tree, and for what is new.
    pub old: Option<Location>,
    /// Where it is; none for what is gone.
    pub new: Option<Location>,
    /// Languages whose generated code breaks; empty when that is not the point.
    pub languages: BTreeSet<Language>,
    /// What to do about it, when there is something to say.
    pub fix: Option<String>,
    /// Why it does not count, when it does not: `work in progress`, `alpha package`.
    pub exempt: Option<String>,
}

impl Finding {
    /// Stays the same while lines move: made of the rule, the element, and what changed.
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
