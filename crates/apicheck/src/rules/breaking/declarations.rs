//! Packages, files, messages, enums, services and extensions as a whole.
//!
//! What happened to something that encloses others is one finding; those inside are covered by it.

use std::collections::HashMap;

use super::text;
use crate::compare::{Comparison, Fate, Pair};
use crate::finding::Language;
use crate::model::{
    Enum, Extension, File, FileId, ImportMode, Message, MessageId, Service, Source,
};
use crate::rule::Rule;
use crate::rules::fact::{ALL, Fact, Subject};
use crate::rules::removal::{
    ENUM_REMOVED, EXTENSION_REMOVED, FILE_REMOVED, MESSAGE_REMOVED, PACKAGE_REMOVED,
    SERVICE_REMOVED,
};
use crate::rules::source::{ELEMENT_MOVED, ENUM_RENAMED, EXTENSION_RENAMED, FILE_MOVED};
use crate::rules::wire::{
    ENUM_OPENNESS_CHANGED, EXTENSION_CHANGED, MESSAGE_RENAMED, PACKAGE_RENAMED, SERVICE_RENAMED,
};

/// What became of each file and package, for what lies in them.
pub(super) struct Covers<'a> {
    files: HashMap<FileId, Pair<&'a File>>,
    packages: HashMap<&'a str, Option<&'a str>>,
}

impl<'a> Covers<'a> {
    pub(super) fn of(comparison: &Comparison<'a>) -> Self {
        let files = comparison.files.iter();
        let packages = comparison.packages.iter();
        Covers {
            files: files
                .filter_map(|pair| Some((pair.was()?.id, *pair)))
                .collect(),
            packages: packages
                .filter_map(|pair| {
                    Some((
                        &**pair.was()?.name,
                        pair.is().map(|package| &**package.name),
                    ))
                })
                .collect(),
        }
    }

    /// Whether a finding about its file or package tells that something is gone.
    fn removal(&self, file: FileId) -> bool {
        matches!(self.files.get(&file), Some(Pair::Removed(_)))
    }

    /// Whether a finding about its old file tells that something is in `new` now.
    fn moved(&self, old: FileId, new: FileId) -> bool {
        match self.files.get(&old) {
            Some(Pair::Both {
                new: file, fate, ..
            }) => *fate == Fate::Renamed || file.id == new,
            Some(_) => true,
            None => old == new,
        }
    }

    /// Whether the new package of a file is not what became of the old one.
    fn repackaged(&self, old: &File, new: &File) -> bool {
        let expected = self.packages.get(&*old.package).copied().flatten();
        expected.is_some_and(|expected| expected != &*new.package)
    }

    /// Whether a finding about its file tells that something has another full name.
    fn renamed(&self, old: FileId, new: FileId) -> bool {
        let pair = self.files.get(&old).and_then(Pair::both);
        pair.is_some_and(|(was, is)| is.id == new && self.repackaged(was, is))
    }
}

/// Findings about packages and files.
pub(super) fn enclosing(
    comparison: &Comparison<'_>,
    covers: &Covers<'_>,
) -> Vec<(Subject, Vec<Fact>)> {
    let mut found = Vec::new();
    for pair in &comparison.packages {
        let Some(was) = pair.was() else { continue };
        let old = (was.file, &comparison.old[was.file].package_source);
        let is = pair.is();
        let new = is.map(|is| (is.file, &comparison.new[is.file].package_source));
        let fact = match pair {
            Pair::Removed(_) => Fact::new(
                &PACKAGE_REMOVED,
                "removed with all that was in it",
                &**was.name,
                "",
            ),
            Pair::Both {
                new,
                fate: Fate::Renamed,
                ..
            } => package_renamed(was.name, new.name),
            _ => continue,
        };
        let name = is.map_or(was.name, |is| is.name);
        let subject = Subject::of(comparison, &**name, Some(old), new);
        found.push((subject, vec![fact.breaks(ALL)]));
    }
    for pair in &comparison.files {
        let Some(was) = pair.was() else { continue };
        if let Some(fact) = file(comparison, covers, *pair) {
            let old = (was.id, &Source::default());
            let is = pair.is();
            let default = Source::default();
            let new = is.map(|is| (is.id, &default));
            let path = is.map_or(&was.path, |is| &is.path);
            let subject = Subject::of(comparison, &**path, Some(old), new);
            found.push((subject, vec![fact]));
        }
    }
    found
}

fn package_renamed(was: &str, is: &str) -> Fact {
    let fix = format!(
        "keep the package, and write option (udpa.annotations.file_migrate).move_to_package = \"{is}\";"
    );
    let message = format!("package changed from {was} to {is}");
    Fact::new(&PACKAGE_RENAMED, message, was, is).fix(fix)
}

fn file(comparison: &Comparison<'_>, covers: &Covers<'_>, pair: Pair<&File>) -> Option<Fact> {
    match pair {
        Pair::Removed(old) => {
            let gone = covers.packages.get(&*old.package) == Some(&None);
            (!gone).then(|| file_removed(comparison, old))
        }
        Pair::Both { old, new, .. } if covers.repackaged(old, new) => {
            Some(package_renamed(&old.package, &new.package).breaks(ALL))
        }
        Pair::Both {
            old,
            new,
            fate: Fate::Renamed,
        } if old.package == new.package => {
            let message = format!("moved from {} to {}", old.path, new.path);
            let fix = format!("leave {} with `import public \"{}\";`", old.path, new.path);
            let fact = Fact::new(&FILE_MOVED, message, &*old.path, &*new.path);
            Some(fact.breaks(&[Language::Cpp, Language::Python]).fix(fix))
        }
        _ => None,
    }
}

fn file_removed(comparison: &Comparison<'_>, old: &File) -> Fact {
    let message = |id: &MessageId| {
        comparison
            .new_message(*id)
            .map(|id| comparison.new[id].file)
    };
    let homes: Option<Vec<FileId>> = (old.messages.iter().map(message))
        .chain(
            old.enums
                .iter()
                .map(|id| comparison.new_enum(*id).map(|id| comparison.new[id].file)),
        )
        .chain(old.services.iter().map(|id| {
            comparison
                .new_service(*id)
                .map(|id| comparison.new[id].file)
        }))
        .collect();
    let Some(mut homes) = homes.filter(|homes| !homes.is_empty()) else {
        return Fact::new(&FILE_REMOVED, "removed", &*old.path, "").breaks(ALL);
    };
    homes.sort_unstable();
    homes.dedup();
    let paths: Vec<_> = homes.iter().map(|id| &*comparison.new[*id].path).collect();
    let paths = paths.join(", ");
    let message = format!("removed; what it declared is in {paths} now");
    let fact = Fact::new(&FILE_MOVED, message, &*old.path, paths);
    fact.breaks(&[Language::Cpp, Language::Python])
}

/// How the rules about one sort of declarations are called.
pub(super) struct Sort {
    pub(super) removed: &'static Rule,
    pub(super) renamed: &'static Rule,
    /// The annotation of the pending set that renames it in the next major.
    pub(super) annotation: Option<&'static str>,
    /// Whether its name is part of the paths of calls.
    pub(super) called: bool,
}

pub(super) const MESSAGES: Sort = Sort {
    removed: &MESSAGE_REMOVED,
    renamed: &MESSAGE_RENAMED,
    annotation: Some("udpa.annotations.message_migrate"),
    called: false,
};
pub(super) const ENUMS: Sort = Sort {
    removed: &ENUM_REMOVED,
    renamed: &ENUM_RENAMED,
    annotation: Some("udpa.annotations.enum_migrate"),
    called: false,
};
pub(super) const SERVICES: Sort = Sort {
    removed: &SERVICE_REMOVED,
    renamed: &SERVICE_RENAMED,
    annotation: None,
    called: true,
};
const EXTENSIONS: Sort = Sort {
    removed: &EXTENSION_REMOVED,
    renamed: &EXTENSION_RENAMED,
    annotation: None,
    called: false,
};

/// What can be said of anything that has a full name.
pub(super) trait Declaration {
    fn name(&self) -> &str;
    fn file(&self) -> FileId;
    fn nested(&self) -> bool;
    fn source(&self) -> &Source;
}

macro_rules! declarations {
    ($($sort:ty: |$one:ident| $nested:expr, $source:expr;)*) => {$(
        impl Declaration for $sort {
            fn name(&self) -> &str {
                &self.name
            }
            fn file(&self) -> FileId {
                self.file
            }
            fn nested(&self) -> bool {
                let $one = self;
                $nested
            }
            fn source(&self) -> &Source {
                let $one = self;
                $source
            }
        }
    )*};
}
declarations! {
    Message: |one| one.parent.is_some(), &one.source;
    Enum: |one| one.parent.is_some(), &one.source;
    Service: |_one| false, &_one.source;
    Extension: |one| one.parent.is_some(), &one.field.source;
}

/// What is wrong with a declaration as a whole: gone, renamed, in another file.
pub(super) fn declaration<D: Declaration>(
    comparison: &Comparison<'_>,
    covers: &Covers<'_>,
    pair: Pair<&D>,
    sort: &Sort,
) -> Option<(Subject, Fact)> {
    let subject = |name: &str| {
        let at = |one: Option<&D>| one.map(Declaration::file);
        let (old, new) = (pair.was(), pair.is());
        let old = at(old).zip(old.map(Declaration::source));
        let new = at(new).zip(new.map(Declaration::source));
        Subject::of(comparison, name, old, new)
    };
    match pair {
        Pair::Added(_) => None,
        Pair::Removed(old) => (!covers.removal(old.file())).then(|| {
            let fact = Fact::new(sort.removed, "removed", old.name(), "").breaks(ALL);
            (subject(old.name()), fact)
        }),
        Pair::Both { old, new, fate } if fate != Fate::Kept => {
            (!covers.renamed(old.file(), new.file())).then(|| {
                let fact = renamed(old.name(), new.name(), sort);
                (subject(new.name()), fact)
            })
        }
        Pair::Both { old, new, .. } => {
            let stays = new.nested() || covers.moved(old.file(), new.file());
            (!stays).then(|| (subject(new.name()), moved(comparison, old, new)))
        }
    }
}

fn renamed(was: &str, is: &str, sort: &Sort) -> Fact {
    let message = match sort.called {
        true => format!("renamed from {was} to {is}: calls go to /{is}/… instead of /{was}/…"),
        false => format!("renamed from {was} to {is}"),
    };
    let fact = Fact::new(sort.renamed, message, was, is).breaks(ALL);
    let short = is.rsplit('.').next().unwrap_or(is);
    Fact {
        fix: sort.annotation.map(|annotation| {
            format!("keep the name, and write option ({annotation}).rename = \"{short}\";")
        }),
        ..fact
    }
}

fn moved<D: Declaration>(comparison: &Comparison<'_>, old: &D, new: &D) -> Fact {
    let (was, is) = (&comparison.old[old.file()], &comparison.new[new.file()]);
    // A public import in the old file brings the new header along; Python's modules re-export nothing that way.
    let public = comparison.new.file(&was.path).is_some_and(|file| {
        let mut imports = file.imports.iter();
        imports.any(|import| import.file == is.id && import.mode == ImportMode::Public)
    });
    let languages: &[Language] = if public {
        &[Language::Python]
    } else {
        &[Language::Cpp, Language::Python]
    };
    let message = format!("moved from {} to {}", was.path, is.path);
    Fact::new(&ELEMENT_MOVED, message, &*was.path, &*is.path).breaks(languages)
}

/// Whether readers refuse unknown numbers.
pub(super) fn openness(old: &Enum, new: &Enum) -> Option<Fact> {
    let word = |closed| if closed { "closed" } else { "open" };
    (old.closed != new.closed).then(|| {
        let (was, is) = (word(old.closed), word(new.closed));
        Fact::new(&ENUM_OPENNESS_CHANGED, format!("became {is}"), was, is)
    })
}

pub(super) fn extension(
    comparison: &Comparison<'_>,
    covers: &Covers<'_>,
    pair: Pair<&Extension>,
) -> Option<(Subject, Vec<Fact>)> {
    let whole = declaration(comparison, covers, pair, &EXTENSIONS);
    let changed = pair.both().and_then(|(old, new)| {
        let describe = |tree, one: &Extension, extendee: &str| {
            let (number, kind) = (one.field.number, text::type_of(tree, &one.field));
            let label = text::cardinality(one.field.cardinality);
            format!("{label} {kind} {number} of {extendee}")
        };
        let was = describe(comparison.old, old, &comparison.old[old.extendee].name);
        let is = describe(comparison.new, new, &comparison.new[new.extendee].name);
        let same = comparison.new_message(old.extendee) == Some(new.extendee)
            && old.field.number == new.field.number
            && old.field.cardinality == new.field.cardinality
            && comparison.same_type(&old.field, &new.field);
        let message = format!("is {is}, and was {was}");
        (!same).then(|| {
            (
                new,
                Fact::new(&EXTENSION_CHANGED, message, was, is).breaks(ALL),
            )
        })
    });
    match (whole, changed) {
        (Some((subject, whole)), changed) => {
            let facts = changed.map(|(_, fact)| fact).into_iter().chain([whole]);
            Some((subject, facts.collect()))
        }
        (None, Some((new, fact))) => {
            let old = pair.was().map(|one| (one.file, &one.field.source));
            let is = Some((new.file, &new.field.source));
            Some((Subject::of(comparison, &*new.name, old, is), vec![fact]))
        }
        (None, None) => None,
    }
}
