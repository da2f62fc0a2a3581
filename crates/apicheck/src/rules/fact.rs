//! What is wrong with one element, before it becomes a finding.

use crate::compare::{Comparison, Member};
use crate::finding::{Finding, Language, Location};
use crate::model::{Enum, EnumValue, Field, FileId, Message, Method, Place, Service, Source, Tree};
use crate::rule::{Profile, Rule};

/// All languages whose stubs are looked after.
pub(super) const ALL: &[Language] = &[
    Language::Cpp,
    Language::Go,
    Language::Java,
    Language::Python,
];

/// One thing that changed.
#[derive(Debug)]
pub(super) struct Fact {
    pub(super) rule: &'static Rule,
    /// `renumbered from 3 to 5`.
    pub(super) message: String,
    pub(super) old: String,
    pub(super) new: String,
    pub(super) languages: &'static [Language],
    pub(super) fix: Option<String>,
}

impl Fact {
    pub(super) fn new(
        rule: &'static Rule,
        message: impl Into<String>,
        old: impl Into<String>,
        new: impl Into<String>,
    ) -> Self {
        Fact {
            rule,
            message: message.into(),
            old: old.into(),
            new: new.into(),
            languages: &[],
            fix: None,
        }
    }

    pub(super) fn breaks(self, languages: &'static [Language]) -> Self {
        Fact { languages, ..self }
    }

    pub(super) fn fix(self, fix: impl Into<String>) -> Self {
        Fact {
            fix: Some(fix.into()),
            ..self
        }
    }
}

/// The element that facts are about, and where it stands in each tree.
#[derive(Debug)]
pub(super) struct Subject {
    pub(super) name: String,
    pub(super) old: Option<Location>,
    pub(super) new: Option<Location>,
}

impl Subject {
    /// Something that has a full name; none for the side that lacks it.
    pub(super) fn of(
        comparison: &Comparison<'_>,
        name: impl Into<String>,
        old: Option<(FileId, &Source)>,
        new: Option<(FileId, &Source)>,
    ) -> Self {
        let at = |tree: &Tree, side: Option<(FileId, &Source)>| {
            side.map(|(file, source)| location(tree, file, source))
        };
        Subject {
            name: name.into(),
            old: at(comparison.old, old),
            new: at(comparison.new, new),
        }
    }

    /// A member of something that both trees have.
    pub(super) fn member<O: Owner, T: Named>(
        comparison: &Comparison<'_>,
        member: &Member<'_, O, T>,
    ) -> Self {
        let (was, is) = (member.old_owner, member.new_owner);
        let name = match (member.pair.is(), member.pair.was()) {
            (Some(one), _) => format!("{}.{}", is.name(), one.name()),
            (None, Some(one)) => format!("{}.{}", was.name(), one.name()),
            (None, None) => String::new(),
        };
        let old = member.pair.was().map(|one| (was.file(), one.source()));
        let new = member.pair.is().map(|one| (is.file(), one.source()));
        Subject::of(comparison, name, old, new)
    }

    /// One finding for all that is wrong with it; the first fact gives the rule. None when nothing is,
    /// or the rule does not apply in the profile.
    pub(super) fn finding(self, facts: Vec<Fact>, profile: Profile) -> Option<Finding> {
        let severity = facts.first()?.rule.severity(profile)?;
        let join = |text: fn(&Fact) -> &str, with: &str| {
            let texts: Vec<_> = facts
                .iter()
                .map(text)
                .filter(|text| !text.is_empty())
                .collect();
            texts.join(with)
        };
        Some(Finding {
            rule: facts[0].rule,
            severity,
            element: self.name,
            message: join(|fact| &fact.message, "; "),
            old_value: join(|fact| &fact.old, "; "),
            new_value: join(|fact| &fact.new, "; "),
            old: self.old,
            new: self.new,
            languages: facts
                .iter()
                .flat_map(|fact| fact.languages)
                .copied()
                .collect(),
            fix: facts.into_iter().find_map(|fact| fact.fix),
            exempt: None,
        })
    }
}

/// The place of a declaration: its name, when that is known.
fn location(tree: &Tree, file: FileId, source: &Source) -> Location {
    let span = source.name.or(source.span);
    Location::of(tree, Place { file, span })
}

/// What has members.
pub(super) trait Owner {
    fn name(&self) -> &str;
    fn file(&self) -> FileId;
}

/// What has a name and a place.
pub(super) trait Named {
    fn name(&self) -> &str;
    fn source(&self) -> &Source;
}

macro_rules! owners {
    ($($owner:ty),*) => {$(
        impl Owner for $owner {
            fn name(&self) -> &str {
                &self.name
            }
            fn file(&self) -> FileId {
                self.file
            }
        }
    )*};
}
owners!(Message, Enum, Service);

macro_rules! named {
    ($($member:ty),*) => {$(
        impl Named for $member {
            fn name(&self) -> &str {
                &self.name
            }
            fn source(&self) -> &Source {
                &self.source
            }
        }
    )*};
}
named!(
    Field,
    EnumValue,
    Method,
    crate::model::Oneof,
    Message,
    Enum,
    Service
);
