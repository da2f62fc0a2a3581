//! A file of the model as text, in a formatting of its own: the same model gives the same text, and
//! reading the text gives the same model.
//!
//! Elements stand in the order of their source, comments around them; imports are those that are
//! used, sorted. Public imports stay. Not supported: proto2 groups, which
//! come out as plain message fields.

mod declaration;
mod layout;
mod names;
mod value;

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};

use crate::generate::{MIGRATE, Plan};
use crate::model::{File, FileId, ImportMode, Options, Span, Symbol, Syntax, Tree};
use layout::{apart, with_docs};
use names::Names;

/// The annotation that tells a message what it was.
const VERSIONING: &str = "udpa.annotations.versioning";

/// The annotation that tells how far a file is.
const STATUS: &str = "udpa.annotations.file_status";

/// Prints files of one tree, as a plan says.
#[derive(Debug)]
pub struct Printer<'a> {
    tree: &'a Tree,
    plan: &'a Plan,
    names: Names,
    /// The file that declares each extension.
    extensions: HashMap<&'a str, FileId>,
}

/// One file on its way to text.
struct Sheet<'a> {
    printer: &'a Printer<'a>,
    file: &'a File,
    /// The files that declare what is used.
    used: RefCell<BTreeSet<FileId>>,
}

impl<'a> Printer<'a> {
    /// A printer for a tree.
    #[must_use]
    pub fn new(tree: &'a Tree, plan: &'a Plan) -> Self {
        let extensions = tree.extensions.iter();
        Printer {
            tree,
            plan,
            names: Names::of(tree, plan),
            extensions: extensions.map(|one| (&*one.name, one.file)).collect(),
        }
    }

    /// The text of a file.
    #[must_use]
    pub fn file(&self, file: &File) -> String {
        let sheet = Sheet {
            printer: self,
            file,
            used: RefCell::default(),
        };
        let body = sheet.body();
        let options = sheet.file_options();
        let syntax = match file.syntax {
            Syntax::Proto2 => "syntax = \"proto2\";".to_owned(),
            Syntax::Proto3 => "syntax = \"proto3\";".to_owned(),
            Syntax::Edition(number) => format!("edition = \"{number}\";"),
        };
        let mut parts = vec![with_docs(&file.syntax_source, syntax)];
        if !file.package.is_empty() {
            let package = format!("package {};", self.plan.package(file));
            parts.push(with_docs(&file.package_source, package));
        }
        parts.push(sheet.imports());
        parts.push(apart(&options));
        parts.extend(body);
        parts.retain(|part| !part.is_empty());
        parts.join("\n\n") + "\n"
    }

    /// The text of one message, enum or service by its full name; empty when there is none.
    #[must_use]
    pub fn element(&self, name: &str) -> String {
        let tree = self.tree;
        let sheet = |file: FileId| Sheet {
            printer: self,
            file: &tree[file],
            used: RefCell::default(),
        };
        match tree.names.get(name) {
            Some(Symbol::Message(id)) => sheet(tree[*id].file).message(&tree[*id]),
            Some(Symbol::Enum(id)) => sheet(tree[*id].file).enumeration(&tree[*id]),
            Some(Symbol::Service(id)) => sheet(tree[*id].file).service(&tree[*id]),
            None => String::new(),
        }
    }
}

impl<'a> Sheet<'a> {
    fn tree(&self) -> &'a Tree {
        self.printer.tree
    }

    fn plan(&self) -> &'a Plan {
        self.printer.plan
    }

    fn package(&self) -> &'a str {
        self.printer.plan.package(self.file)
    }

    /// Whether deprecation and annotations of the file are carried out.
    fn moves(&self) -> bool {
        self.plan().carries_out(self.file.id)
    }

    fn uses(&self, file: FileId) {
        if file != self.file.id {
            self.used.borrow_mut().insert(file);
        }
    }

    /// A type by the name that `scope` can call it.
    fn type_name(&self, scope: &str, full: &str, file: FileId) -> String {
        self.uses(file);
        self.printer.names.short(scope, self.plan().type_name(full))
    }

    fn imports(&self) -> String {
        let mut lines: BTreeSet<String> = BTreeSet::new();
        let mut public = BTreeSet::new();
        for import in &self.file.imports {
            if import.mode == ImportMode::Public {
                public.insert(import.file);
                let path = self.plan().path(&self.tree()[import.file]);
                lines.insert(format!("import public \"{path}\";"));
            }
        }
        for file in self.used.borrow().difference(&public) {
            let path = self.plan().path(&self.tree()[*file]);
            lines.insert(format!("import \"{path}\";"));
        }
        lines.into_iter().collect::<Vec<_>>().join("\n")
    }

    fn file_options(&self) -> Vec<String> {
        let mut entries = self.options(self.package(), &self.file.options);
        let target = self.plan().target(self.file.id);
        let has_status = entries.iter().any(|(name, _)| name.contains(STATUS));
        if let Some(file) = self.printer.extensions.get(STATUS)
            && target.is_some()
            && !has_status
        {
            self.uses(*file);
            let name = self.printer.names.option(self.package(), STATUS);
            entries.push((format!("({name}).package_version_status"), String::new()));
        }
        let lines = entries.into_iter().map(|(name, value)| {
            let value = match target {
                Some(_) if name.contains(STATUS) => status(&name, &value, self.plan().status()),
                Some(target) if !name.starts_with('(') => {
                    moved_package(&value, &target.version.0, &target.version.1)
                }
                _ => value,
            };
            format!("option {name} = {value};")
        });
        lines.collect()
    }

    /// The options of an element, as names and values. What a major carries out is left out.
    fn options(&self, scope: &str, options: &Options) -> Vec<(String, String)> {
        let Some(message) = options.message() else {
            return Vec::new();
        };
        let mut entries = Vec::new();
        for (field, value) in message.fields() {
            entries.extend(value::entries(field.name(), &field.kind(), value));
        }
        for (extension, value) in message.extensions() {
            let full = extension.full_name();
            if self.moves() && (MIGRATE.contains(&full) || full == VERSIONING) {
                continue;
            }
            if let Some(file) = self.printer.extensions.get(full) {
                self.uses(*file);
            }
            let name = format!("({})", self.printer.names.option(scope, full));
            let found = value::entries(&name, &extension.kind(), value).into_iter();
            entries.extend(found.map(|(name, value)| (name, self.moved_text(full, value))));
        }
        entries
    }

    /// Texts in options that name what moves: types, and REST paths with the major.
    fn moved_text(&self, option: &str, value: String) -> String {
        let Some(target) = self.plan().target(self.file.id) else {
            return value;
        };
        if option == "google.api.http" {
            let major = |version: &str| version.trim_end_matches("alpha").to_owned();
            let (old, new) = (major(&target.version.0), major(&target.version.1));
            return value.replace(&format!("\"/{old}/"), &format!("\"/{new}/"));
        }
        match value
            .strip_prefix('"')
            .and_then(|text| text.strip_suffix('"'))
        {
            Some(text) => value::quoted(self.plan().type_name(text).as_bytes(), true),
            None => value,
        }
    }

    /// Messages, enums, services and extensions, in the order of their source.
    fn body(&self) -> Vec<String> {
        let tree = self.tree();
        let scope = self.package();
        let mut items: Vec<(Option<Span>, String)> = Vec::new();
        items.extend(self.nested(scope, &self.file.messages, &self.file.enums, None));
        for id in &self.file.services {
            items.push((tree[*id].source.span, self.service(&tree[*id])));
        }
        items.sort_by_key(|(span, _)| *span);
        items.into_iter().map(|(_, text)| text).collect()
    }
}

/// The status of a file that moves.
fn status(name: &str, value: &str, status: &str) -> String {
    const PART: &str = "package_version_status";
    if name.ends_with(PART) {
        return status.to_owned();
    }
    let all = ["ACTIVE", "FROZEN", "NEXT_MAJOR_VERSION_CANDIDATE"];
    let old = all.iter().map(|old| format!("{PART}: {old}"));
    let old = old.into_iter().find(|old| value.contains(old.as_str()));
    old.map_or(value.to_owned(), |old| {
        value.replace(&old, &format!("{PART}: {status}"))
    })
}

/// A language's package with another version: `…/v3;corev3`, `io.envoy.v3`.
fn moved_package(value: &str, old: &str, new: &str) -> String {
    let separators = ['.', '/', ';', '"'];
    value
        .split_inclusive(separators)
        .map(|part| {
            let end = part.trim_end_matches(separators);
            let rest = &part[end.len()..];
            match end.strip_suffix(old) {
                Some(base) => format!("{base}{new}{rest}"),
                None => part.to_owned(),
            }
        })
        .collect()
}
