//! Changes of one element, which become one finding.

use crate::compare::{Comparison, Member, Pair};
use crate::finding::{Finding, Language, Location};
use crate::model::{
    Enum, EnumValue, Field, FileId, FileSpan, Message, MessageId, Method, Service, Source, Tree,
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
    /// Name in the old tree, if it was another one.
    pub(super) old_name: Option<String>,
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
            old_name: None,
            old: at(comparison.old, old),
            new: at(comparison.new, new),
        }
    }

    /// Creates the description of an element that the new tree lacks. `parent` is the message that
    /// contained it in the old tree.
    pub(super) fn removed(
        comparison: &Comparison<'_>,
        name: impl Into<String>,
        (file, source): (FileId, &Source),
        parent: Option<MessageId>,
    ) -> Self {
        ChangedElement {
            new: Some(remaining(comparison, file, parent)),
            ..ChangedElement::of(comparison, name, Some((file, source)), None)
        }
    }

    /// Sets the name of the element in the old tree.
    pub(super) fn formerly(mut self, old_name: impl AsRef<str> + Into<String>) -> Self {
        self.old_name = (old_name.as_ref() != self.name).then(|| old_name.into());
        self
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
        // A removed member is located at its owner.
        let new = member
            .pair
            .after()
            .map_or(current.source(), NamedMember::source);
        let new = Some((current.file(), new));
        let changed = ChangedElement::of(comparison, name, old, new);
        match member.pair.before() {
            Some(one) => changed.formerly(format!("{}.{}", earlier.name(), one.name())),
            None => changed,
        }
    }

    /// Merges all changes into one finding; the first change determines the rule. Returns `None` if
    /// nothing changed, or if the rule does not apply in the profile.
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
            old_element: self.old_name,
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

/// Returns the location of a removed element or file in the new tree: that of the enclosing element.
pub(super) fn remaining(
    comparison: &Comparison<'_>,
    file: FileId,
    parent: Option<MessageId>,
) -> Location {
    let new = comparison.new;
    if let Some(message) = parent.and_then(|parent| comparison.new_message(parent)) {
        let message = &new[message];
        return location(new, message.file, &message.source);
    }
    let old = &comparison.old[file];
    let package = || {
        let pair = comparison.packages.iter().filter_map(Pair::both);
        let mut pair = pair.filter(|(earlier, _)| *earlier.name == old.package);
        pair.next().map(|(_, current)| current.file)
    };
    if let Some(file) = comparison.new_file(file).or_else(package) {
        return location(new, file, &new[file].sources.package);
    }
    let path = old.place(&old.path);
    // Display paths of a tree differ from its paths by a common prefix.
    let prefix = new.targets().find_map(|file| {
        let place = file.place(&file.path);
        file.display.strip_suffix(place.as_str())
    });
    Location {
        path: format!("{}{path}", prefix.unwrap_or_default()),
        span: None,
    }
}

/// Element that has members.
pub(super) trait MemberOwner {
    fn name(&self) -> &str;
    fn file(&self) -> FileId;
    fn source(&self) -> &Source;
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
            fn source(&self) -> &Source {
                &self.source
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
