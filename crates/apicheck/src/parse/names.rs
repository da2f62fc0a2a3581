//! Table of all declarations, and name resolution.
//!
//! Rule of the language ("Packages and Name Resolution"): the innermost scope is searched first.
//! The first scope that contains the *first part* of the name decides, even if it lacks the rest. A
//! scope contains the declarations of the file, of its imports and of their public imports, and the
//! parts of the packages of those files.

use std::collections::{HashMap, HashSet};

use prost_types::{DescriptorProto, EnumDescriptorProto, FieldDescriptorProto};

use super::draft::Draft;
use super::error::{Error, Reason, Undefined};
use super::source::Sources;
use crate::finding::Location;
use crate::model::{EnumId, MessageId, Name, ServiceId, Span, Symbol};

/// Meaning of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    Symbol(Symbol),
    Extension,
    /// Declaration that uses the name but that no reference can mean.
    Other,
}

#[derive(Debug, Clone)]
struct DeclaredName {
    meaning: Meaning,
    file: usize,
    path: Box<[i32]>,
}

/// Table of all names, and the names that each file sees.
#[derive(Debug)]
pub(super) struct NameTable {
    table: HashMap<Name, DeclaredName>,
    files: Vec<FileNames>,
    paths: HashMap<String, usize>,
}

#[derive(Debug)]
struct FileNames {
    path: String,
    /// Files whose declarations are visible.
    visible: HashSet<usize>,
    /// Every prefix of the packages of the visible files.
    packages: HashSet<String>,
    /// Ids of the first elements of the file.
    ids: Ids,
}

/// Next free ids. They are assigned by walking all files in order; a message gets its id before its
/// children.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Ids {
    pub(super) messages: u32,
    pub(super) enums: u32,
    pub(super) services: u32,
}

impl NameTable {
    /// Enters every declaration, and reports duplicate names.
    pub(super) fn declare(drafts: &[Draft]) -> (Self, Vec<Error>) {
        let mut declaring = Declaring {
            drafts,
            file: 0,
            table: HashMap::new(),
            ids: Ids::default(),
            path: Vec::new(),
            errors: Vec::new(),
        };
        let mut first_ids = Vec::with_capacity(drafts.len());
        for index in 0..drafts.len() {
            first_ids.push(declaring.ids);
            declaring.file = index;
            declaring.file();
        }
        declaring.packages();
        let names = Self {
            table: declaring.table,
            files: visibility(drafts, first_ids),
            paths: drafts
                .iter()
                .enumerate()
                .map(|(index, draft)| (draft.proto.name().to_owned(), index))
                .collect(),
        };
        (names, declaring.errors)
    }

    /// Returns the table for the tree.
    pub(super) fn into_symbols(self) -> HashMap<Name, Symbol> {
        let symbols = self.table.into_iter();
        symbols
            .filter_map(|(name, entry)| match entry.meaning {
                Meaning::Symbol(symbol) => Some((name, symbol)),
                _ => None,
            })
            .collect()
    }

    /// Returns the ids of the first elements of a file.
    pub(super) fn first_ids(&self, file: usize) -> Ids {
        self.files[file].ids
    }

    /// Returns the index of the file with that path.
    pub(super) fn file_index(&self, path: &str) -> Option<usize> {
        self.paths.get(path).copied()
    }

    /// Resolves `name` in `scope` of `file`. Returns its meaning and full name, if it is of the
    /// `wanted` sort.
    pub(super) fn resolve(
        &self,
        file: usize,
        scope: &str,
        name: &str,
        wanted: ExpectedSort,
    ) -> Result<(Meaning, Name), Reason> {
        if let Some(full) = name.strip_prefix('.') {
            return match self.visible(file, full) {
                Some((full, meaning)) if wanted.accepts(meaning) => Ok((meaning, full)),
                Some(_) => Err(wanted.not_it(name)),
                None => Err(self.undefined(file, "", full, None)),
            };
        }
        let (first, whole) = match name.split_once('.') {
            Some((first, _)) => (first, false),
            None => (name, true),
        };
        let mut wrong_sort = false;
        for scope in scopes(scope) {
            let candidate = join(scope, first);
            if whole {
                match self.visible(file, &candidate) {
                    Some((full, meaning)) if wanted.accepts(meaning) => return Ok((meaning, full)),
                    // A declaration of another sort does not hide declarations in outer scopes.
                    Some(_) => wrong_sort = true,
                    None => {}
                }
            // Protobuf language guide, "Packages and Name Resolution": the first part decides, even if
            // the rest is missing.
            } else if self.holds_names(file, &candidate) {
                let full = join(scope, name);
                return match self.visible(file, &full) {
                    Some((full, meaning)) if wanted.accepts(meaning) => Ok((meaning, full)),
                    Some(_) => Err(wanted.not_it(name)),
                    None => Err(self.undefined(file, scope, name, Some(full))),
                };
            }
        }
        if wrong_sort {
            Err(wanted.not_it(name))
        } else {
            Err(self.undefined(file, scope, name, None))
        }
    }

    fn visible(&self, file: usize, full: &str) -> Option<(Name, Meaning)> {
        let (name, entry) = self.table.get_key_value(full)?;
        let seen = self.files[file].visible.contains(&entry.file);
        seen.then(|| (name.clone(), entry.meaning))
    }

    /// Returns whether other names can lie in it, so that it decides the meaning of a name with
    /// dots.
    fn holds_names(&self, file: usize, full: &str) -> bool {
        self.files[file].packages.contains(full)
            || matches!(self.visible(file, full), Some((_, Meaning::Symbol(_))))
    }

    fn undefined(&self, file: usize, scope: &str, name: &str, taken_for: Option<String>) -> Reason {
        let declared = scopes(scope).find_map(|scope| self.table.get(&*join(scope, name)));
        let import = declared
            .filter(|entry| !self.files[file].visible.contains(&entry.file))
            .map(|entry| self.files[entry.file].path.clone());
        Reason::Undefined(Undefined {
            name: name.to_owned(),
            taken_for: taken_for.filter(|full| full != name),
            import,
        })
    }
}

/// Sort of declaration that a reference requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ExpectedSort {
    Type,
    Message,
    Extension,
}

impl ExpectedSort {
    fn accepts(self, meaning: Meaning) -> bool {
        match self {
            Self::Type => matches!(
                meaning,
                Meaning::Symbol(Symbol::Message(_) | Symbol::Enum(_))
            ),
            Self::Message => matches!(meaning, Meaning::Symbol(Symbol::Message(_))),
            Self::Extension => meaning == Meaning::Extension,
        }
    }

    fn not_it(self, name: &str) -> Reason {
        Reason::WrongSort {
            name: name.to_owned(),
            wanted: match self {
                Self::Type => "a message or an enum",
                Self::Message => "a message",
                Self::Extension => "an extension",
            },
        }
    }
}

/// Iterates over a scope and its outer scopes: `a.b.c`, `a.b`, `a`, and the root.
fn scopes(innermost: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(innermost), |scope| match scope.rsplit_once('.') {
        Some((outer, _)) => Some(outer),
        None => (!scope.is_empty()).then_some(""),
    })
}

/// Returns the full name of `name` in `scope`.
pub(super) fn join(scope: &str, name: &str) -> String {
    match scope {
        "" => name.to_owned(),
        _ => format!("{scope}.{name}"),
    }
}

/// Returns the indexes of the synthetic oneofs that proto3 `optional` creates.
pub(super) fn synthetic(message: &DescriptorProto) -> HashSet<i32> {
    let optional = message.field.iter().filter(|field| field.proto3_optional());
    optional.filter_map(|field| field.oneof_index).collect()
}

fn visibility(drafts: &[Draft], first_ids: Vec<Ids>) -> Vec<FileNames> {
    let index: HashMap<&str, usize> = drafts
        .iter()
        .enumerate()
        .map(|(index, draft)| (draft.proto.name(), index))
        .collect();
    // Imports come first, so their public imports are known when an importer needs them.
    let mut passed_on: Vec<Vec<usize>> = Vec::with_capacity(drafts.len());
    let mut files = Vec::with_capacity(drafts.len());
    for (own, (draft, ids)) in drafts.iter().zip(first_ids).enumerate() {
        let mut visible = HashSet::from([own]);
        let mut public = vec![own];
        for (position, path) in draft.proto.dependency.iter().enumerate() {
            let Some(&import) = index.get(path.as_str()) else {
                continue;
            };
            visible.extend(&passed_on[import]);
            if draft.proto.public_dependency.contains(&(position as i32)) {
                public.extend(&passed_on[import]);
            }
        }
        passed_on.push(public);
        let packages = visible.iter().flat_map(|file| {
            scopes(drafts[*file].proto.package()).filter(|package| !package.is_empty())
        });
        files.push(FileNames {
            path: draft.proto.name().to_owned(),
            packages: packages.map(str::to_owned).collect(),
            visible,
            ids,
        });
    }
    files
}

/// Walk that assigns names and ids.
struct Declaring<'a> {
    drafts: &'a [Draft],
    file: usize,
    table: HashMap<Name, DeclaredName>,
    ids: Ids,
    path: Vec<i32>,
    errors: Vec<Error>,
}

impl<'a> Declaring<'a> {
    fn file(&mut self) {
        let proto = &self.drafts[self.file].proto;
        let package = proto.package().to_owned();
        for (index, message) in proto.message_type.iter().enumerate() {
            self.at(&[4, index as i32], |s| s.message(&package, message));
        }
        for (index, declared) in proto.enum_type.iter().enumerate() {
            self.at(&[5, index as i32], |s| s.enumeration(&package, declared));
        }
        for (index, service) in proto.service.iter().enumerate() {
            let id = ServiceId(self.ids.services);
            self.ids.services += 1;
            let name = join(&package, service.name());
            self.at(&[6, index as i32], |s| {
                s.enter(name, Meaning::Symbol(Symbol::Service(id)));
            });
        }
        for (index, extension) in proto.extension.iter().enumerate() {
            self.at(&[7, index as i32], |s| s.extension(&package, extension));
        }
    }

    /// Reports declarations with the name of a package or of a part of it.
    fn packages(&mut self) {
        let mut known = HashSet::new();
        for (index, draft) in self.drafts.iter().enumerate() {
            for package in scopes(draft.proto.package()).filter(|package| !package.is_empty()) {
                let Some(entry) = self.table.get(package).filter(|_| known.insert(package)) else {
                    continue;
                };
                let statement = Sources::of(draft).span(&[2]);
                let (declaring, declared) = self.place(entry.file, &entry.path);
                let at = |draft: &Draft, span| Location {
                    path: draft.display.to_string(),
                    span,
                };
                let reason = Reason::Duplicate(package.to_owned());
                // The later file has the error, as in a compiler.
                let error = if entry.file < index {
                    Error::new(draft, statement, reason).with_other(at(declaring, declared))
                } else {
                    Error::new(declaring, declared, reason).with_other(at(draft, statement))
                };
                self.errors.push(error);
            }
        }
    }

    /// Returns the file and the position of a declaration.
    fn place(&self, file: usize, path: &[i32]) -> (&'a Draft, Option<Span>) {
        let draft = &self.drafts[file];
        let sources = Sources::of(draft);
        let name = [path, &[1]].concat();
        // A declaration that the compiler adds has no position, but the one around it has one.
        let mut around = (0..=path.len()).rev().step_by(2);
        let span = sources.span(&name);
        let span = span.or_else(|| around.find_map(|end| sources.span(&path[..end])));
        (draft, span)
    }

    fn message(&mut self, scope: &str, message: &DescriptorProto) {
        let name = join(scope, message.name());
        let id = MessageId(self.ids.messages);
        self.ids.messages += 1;
        self.enter(name.clone(), Meaning::Symbol(Symbol::Message(id)));
        for (index, nested) in message.nested_type.iter().enumerate() {
            self.at(&[3, index as i32], |s| s.message(&name, nested));
        }
        for (index, declared) in message.enum_type.iter().enumerate() {
            self.at(&[4, index as i32], |s| s.enumeration(&name, declared));
        }
        for (index, extension) in message.extension.iter().enumerate() {
            self.at(&[6, index as i32], |s| s.extension(&name, extension));
        }
        for (index, field) in message.field.iter().enumerate() {
            self.at(&[2, index as i32], |s| {
                s.enter(join(&name, field.name()), Meaning::Other);
            });
        }
        let synthetic = synthetic(message);
        for (index, oneof) in (0..).zip(&message.oneof_decl) {
            if !synthetic.contains(&index) {
                self.at(&[8, index], |s| {
                    s.enter(join(&name, oneof.name()), Meaning::Other);
                });
            }
        }
    }

    fn enumeration(&mut self, scope: &str, declared: &EnumDescriptorProto) {
        let id = EnumId(self.ids.enums);
        self.ids.enums += 1;
        self.enter(
            join(scope, declared.name()),
            Meaning::Symbol(Symbol::Enum(id)),
        );
        for (index, value) in declared.value.iter().enumerate() {
            // Enum values are siblings of their enum, as in C++.
            self.at(&[2, index as i32], |s| {
                s.enter(join(scope, value.name()), Meaning::Other);
            });
        }
    }

    fn extension(&mut self, scope: &str, extension: &FieldDescriptorProto) {
        self.enter(join(scope, extension.name()), Meaning::Extension);
    }

    fn at(&mut self, path: &[i32], then: impl FnOnce(&mut Self)) {
        self.path.extend_from_slice(path);
        then(self);
        self.path.truncate(self.path.len() - path.len());
    }

    fn enter(&mut self, name: String, meaning: Meaning) {
        if let Some(first) = self.table.get(name.as_str()) {
            let (draft, span) = self.place(self.file, &self.path);
            let (first_draft, first_span) = self.place(first.file, &first.path);
            let other = Location {
                path: first_draft.display.to_string(),
                span: first_span,
            };
            let error = Error::new(draft, span, Reason::Duplicate(name)).with_other(other);
            self.errors.push(error);
            return;
        }
        let entry = DeclaredName {
            meaning,
            file: self.file,
            path: self.path.as_slice().into(),
        };
        self.table.insert(name.into(), entry);
    }
}
