//! Changes of one element, which become one finding.

use crate::compare::{Comparison, Member};
use crate::finding::{Finding, Language, Location};
use crate::model::{
    Enum, EnumValue, Field, FileId, FileSpan, Message, Method, Service, Source, Tree,
};
use crate::rule::{Profile, Rule};

/// All languages whose generated code is checked.
pub(super) const ALL: &[Language] = &[
    Language::Cpp,
    Language::Go,
    Language::Java,
    Language::Python,
];

/// One change of an element.
#[derive(Debug)]
pub(super) struct Fact {
    pub(super) rule: &'static Rule,
    /// Sentence of the finding: `renumbered from 3 to 5`.
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

/// Changed element with all its changes; the first change determines the rule.
pub(super) type ElementFacts = (ChangedElement, Vec<Fact>);

/// Changed element and its location in each tree.
#[derive(Debug)]
pub(super) struct ChangedElement {
    pub(super) name: String,
    pub(super) old: Option<Location>,
    pub(super) new: Option<Location>,
}

impl ChangedElement {
    /// Creates the description of an element with a full name. Pass `None` for a tree that lacks
    /// it.
    pub(super) fn of(
        comparison: &Comparison<'_>,
        name: impl Into<String>,
        old: Option<(FileId, &Source)>,
        new: Option<(FileId, &Source)>,
    ) -> Self {
        let at = |tree: &Tree, side: Option<(FileId, &Source)>| {
            side.map(|(file, source)| location(tree, file, source))
        };
        ChangedElement {
            name: name.into(),
            old: at(comparison.old, old),
            new: at(comparison.new, new),
        }
    }

    /// Creates the description of a member of an element that both trees contain.
    pub(super) fn member<O: MemberOwner, T: NamedMember>(
        comparison: &Comparison<'_>,
        member: &Member<'_, O, T>,
    ) -> Self {
        let (earlier, current) = (member.old_owner, member.new_owner);
        let name = match (member.pair.after(), member.pair.before()) {
            (Some(one), _) => format!("{}.{}", current.name(), one.name()),
            (None, Some(one)) => format!("{}.{}", earlier.name(), one.name()),
            (None, None) => String::new(),
        };
        let old = member
            .pair
            .before()
            .map(|one| (earlier.file(), one.source()));
        let new = member
            .pair
            .after()
            .map(|one| (current.file(), one.source()));
        ChangedElement::of(comparison, name, old, new)
    }

    /// Merges all changes into one finding; the first change determines the rule. Returns `None` if
    /// there is no change, or if the rule does not apply in the profile.
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

/// Returns the location of a declaration: the span of its name, if known.
fn location(tree: &Tree, file: FileId, source: &Source) -> Location {
    let span = source.name.or(source.span);
    Location::of(tree, FileSpan { file, span })
}

/// Element that has members.
pub(super) trait MemberOwner {
    fn name(&self) -> &str;
    fn file(&self) -> FileId;
}

/// Member with a name and a source position.
pub(super) trait NamedMember {
    fn name(&self) -> &str;
    fn source(&self) -> &Source;
}

macro_rules! owners {
    ($($owner:ty),*) => {$(
        impl MemberOwner for $owner {
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
        impl NamedMember for $member {
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
