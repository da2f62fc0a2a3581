//! Messages, enums and services as a whole: removed, renamed, moved to another file.

use super::files::Covers;
use crate::compare::{Comparison, Fate, Pair};
use crate::finding::Language;
use crate::model::{Enum, Extension, FileId, ImportMode, Message, MessageId, Service, Source};
use crate::rule::{Category, Compares, Profiles, Rule};
use crate::rules::fact::{ALL, ChangedElement, Fact};

/// Rules of this file.
pub(super) const RULES: &[&Rule] = &[
    &MESSAGE_REMOVED,
    &MESSAGE_RENAMED,
    &ENUM_REMOVED,
    &ENUM_RENAMED,
    &SERVICE_REMOVED,
    &SERVICE_RENAMED,
    &ELEMENT_MOVED,
];

/// Rules for one sort of declaration.
pub(super) struct Sort {
    pub(super) removed: &'static Rule,
    pub(super) renamed: &'static Rule,
    /// Annotation that renames it in the next major.
    pub(super) annotation: Option<&'static str>,
    /// Whether its name is part of the path of calls.
    pub(super) called: bool,
}

static MESSAGE_REMOVED: Rule = Rule {
    id: "MESSAGE_REMOVED",
    behaviours: &["V-27", "V-36"],
    purpose: "A message is not removed",
    why: "Stored and received messages of the type can no longer be read. Deprecate it, and remove it in the next major.",
    category: Category::Policy,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &["MESSAGE_NO_DELETE", "PACKAGE_MESSAGE_NO_DELETE"],
};

static MESSAGE_RENAMED: Rule = Rule {
    id: "MESSAGE_RENAMED",
    behaviours: &["V-27"],
    purpose: "A message keeps its full name",
    why: "Type URLs in `Any` and generated code contain it. Annotate `(udpa.annotations.message_migrate).rename`, and the next major makes the change.",
    category: Category::Wire,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &["MESSAGE_NO_DELETE", "PACKAGE_MESSAGE_NO_DELETE"],
};

pub(super) const MESSAGES: Sort = Sort {
    removed: &MESSAGE_REMOVED,
    renamed: &MESSAGE_RENAMED,
    annotation: Some("udpa.annotations.message_migrate"),
    called: false,
};

static ENUM_REMOVED: Rule = Rule {
    id: "ENUM_REMOVED",
    behaviours: &["V-30", "V-36"],
    purpose: "An enum is not removed",
    why: "Code that uses it no longer compiles. Deprecate it, and remove it in the next major.",
    category: Category::Policy,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &["ENUM_NO_DELETE", "PACKAGE_ENUM_NO_DELETE"],
};

static ENUM_RENAMED: Rule = Rule {
    id: "ENUM_RENAMED",
    behaviours: &["V-29", "V-30"],
    purpose: "An enum keeps its full name",
    why: "Generated code contains the name. Annotate `(udpa.annotations.enum_migrate).rename`, and the next major makes the change.",
    category: Category::Source,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &[
        "ENUM_NO_DELETE",
        "PACKAGE_ENUM_NO_DELETE",
        "FIELD_SAME_TYPE",
    ],
};

pub(super) const ENUMS: Sort = Sort {
    removed: &ENUM_REMOVED,
    renamed: &ENUM_RENAMED,
    annotation: Some("udpa.annotations.enum_migrate"),
    called: false,
};

static SERVICE_REMOVED: Rule = Rule {
    id: "SERVICE_REMOVED",
    behaviours: &["V-27", "V-36"],
    purpose: "A service is not removed",
    why: "Clients get UNIMPLEMENTED. Deprecate it, and remove it in the next major.",
    category: Category::Policy,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &["SERVICE_NO_DELETE", "PACKAGE_SERVICE_NO_DELETE"],
};

static SERVICE_RENAMED: Rule = Rule {
    id: "SERVICE_RENAMED",
    behaviours: &["V-5", "V-27"],
    purpose: "A service keeps its full name",
    why: "It is part of the path of each call: old clients get UNIMPLEMENTED. Serve both names during the migration.",
    category: Category::Wire,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &["SERVICE_NO_DELETE", "PACKAGE_SERVICE_NO_DELETE"],
};

pub(super) const SERVICES: Sort = Sort {
    removed: &SERVICE_REMOVED,
    renamed: &SERVICE_RENAMED,
    annotation: None,
    called: true,
};

/// Properties of every declaration with a full name.
pub(super) trait Declaration {
    fn name(&self) -> &str;
    fn file(&self) -> FileId;
    fn parent(&self) -> Option<MessageId>;
    fn source(&self) -> &Source;
}

macro_rules! declarations {
    ($($sort:ty: |$one:ident| $parent:expr, $source:expr;)*) => {$(
        impl Declaration for $sort {
            fn name(&self) -> &str {
                &self.name
            }
            fn file(&self) -> FileId {
                self.file
            }
            fn parent(&self) -> Option<MessageId> {
                let $one = self;
                $parent
            }
            fn source(&self) -> &Source {
                let $one = self;
                $source
            }
        }
    )*};
}

declarations! {
    Message: |one| one.parent, &one.source;
    Enum: |one| one.parent, &one.source;
    Service: |_one| None, &_one.source;
    Extension: |one| one.parent, &one.field.source;
}

/// Reports the fate of a declaration as a whole: removed, renamed, moved to another file.
pub(super) fn declaration<D: Declaration>(
    comparison: &Comparison<'_>,
    covers: &Covers<'_>,
    pair: Pair<&D>,
    sort: &Sort,
) -> Option<(ChangedElement, Fact)> {
    let both = |old: &D, new: &D| subject(comparison, (old, new));
    match pair {
        Pair::Added(_) => None,
        Pair::Removed(old) => (!covers.removal(old.file())).then(|| {
            let fact = Fact::new(sort.removed, "removed", old.name(), "").breaks(ALL);
            let place = (old.file(), old.source());
            let subject = ChangedElement::removed(comparison, old.name(), place, old.parent());
            (subject, fact)
        }),
        Pair::Both { old, new, fate } if fate != Fate::Kept => {
            (!covers.renamed(old.file(), new.file())).then(|| {
                let fact = renamed(old.name(), new.name(), sort);
                (both(old, new), fact)
            })
        }
        Pair::Both { old, new, .. } => {
            // C++ includes and Python imports contain the file name (V-30).
            let stays = new.parent().is_some() || covers.moved(old.file(), new.file());
            (!stays).then(|| (both(old, new), moved(comparison, old, new)))
        }
    }
}

/// Describes a declaration that both trees contain.
pub(super) fn subject<D: Declaration>(
    comparison: &Comparison<'_>,
    (old, new): (&D, &D),
) -> ChangedElement {
    let (earlier, current) = ((old.file(), old.source()), (new.file(), new.source()));
    let subject = ChangedElement::of(comparison, new.name(), Some(earlier), Some(current));
    subject.formerly(old.name())
}

fn renamed(earlier: &str, current: &str, sort: &Sort) -> Fact {
    // gRPC over HTTP/2: the full service name is part of the request path (V-5).
    let message = if sort.called {
        format!(
            "renamed from {earlier} to {current}: calls go to /{current}/… instead of /{earlier}/…"
        )
    } else {
        format!("renamed from {earlier} to {current}")
    };
    let fact = Fact::new(sort.renamed, message, earlier, current).breaks(ALL);
    let short = current.rsplit('.').next().unwrap_or(current);
    Fact {
        fix: sort.annotation.map(|annotation| {
            format!("keep the name, and write option ({annotation}).rename = \"{short}\";")
        }),
        ..fact
    }
}

static ELEMENT_MOVED: Rule = Rule {
    id: "ELEMENT_MOVED",
    behaviours: &["V-30"],
    purpose: "A declaration stays in its file",
    why: "C++ includes and Python imports contain the file name. A public import of the new file in the old one keeps C++ working, but not Python.",
    category: Category::Source,
    profiles: Profiles::ERROR,
    compares: Compares::Pair,
    buf: &[
        "MESSAGE_NO_DELETE",
        "ENUM_NO_DELETE",
        "SERVICE_NO_DELETE",
        "EXTENSION_NO_DELETE",
    ],
};

fn moved<D: Declaration>(comparison: &Comparison<'_>, old: &D, new: &D) -> Fact {
    let (earlier, current) = (&comparison.old[old.file()], &comparison.new[new.file()]);
    // A public import in the old file brings the new C++ header along. Python modules re-export
    // nothing that way.
    let public = comparison.new.file(&earlier.path).is_some_and(|file| {
        let mut imports = file.imports.iter();
        imports.any(|import| import.file == current.id && import.mode == ImportMode::Public)
    });
    let languages: &[Language] = if public {
        &[Language::Python]
    } else {
        &[Language::Cpp, Language::Python]
    };
    let message = format!("moved from {} to {}", earlier.path, current.path);
    Fact::new(&ELEMENT_MOVED, message, &*earlier.path, &*current.path).breaks(languages)
}
