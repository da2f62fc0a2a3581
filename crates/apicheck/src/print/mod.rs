//! Printing of a file of the model as text. The formatting is fixed: the same model gives the same
//! text, and parsing the text gives the same model.
//!
//! Elements keep their order, options and reservations come first, comments stay with their
//! elements. Imports are the used ones, sorted; public imports are kept.

mod comments;
mod declaration;
mod language;
mod layout;
mod message;
mod names;
mod references;
mod value;

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap, HashSet};

use prost_reflect::Value;

use crate::model::{
    Docs, File, FileId, ImportMode, Kind, MessageId, Options, Source, Span, Symbol, Syntax, Tree,
};
use crate::plan::{MIGRATE, Plan};
use comments::UnattachedComments;
use layout::{OptionText, apart, comment, commented, head_with};
use names::KnownNames;
use references::References;

/// Part of a file or block, with its source position.
type Item = (Option<Span>, String);

/// Annotation with the previous type of a message.
const VERSIONING: &str = "udpa.annotations.versioning";

/// Annotation with the status of a file.
const STATUS: &str = "udpa.annotations.file_status";

/// Part of that annotation that the move sets.
const STATUS_PART: &str = "package_version_status";

/// Printer for the files of one tree, following a plan.
#[derive(Debug)]
pub struct Printer<'a> {
    tree: &'a Tree,
    plan: &'a Plan,
    names: KnownNames,
    /// File that declares each extension.
    extensions: HashMap<&'a str, FileId>,
    /// Messages that are printed in their field: groups of proto2.
    groups: HashSet<MessageId>,
}

/// Output of one file.
struct FilePrinter<'a> {
    printer: &'a Printer<'a>,
    file: &'a File,
    /// Files that declare the used types and options.
    used: RefCell<BTreeSet<FileId>>,
    unattached: UnattachedComments,
}

impl<'a> Printer<'a> {
    /// Creates a printer for a tree.
    #[must_use]
    pub fn new(tree: &'a Tree, plan: &'a Plan) -> Self {
        let extensions = tree.extensions.iter();
        Printer {
            tree,
            plan,
            names: KnownNames::of(tree, plan),
            extensions: extensions.map(|one| (&*one.name, one.file)).collect(),
            groups: groups(tree),
        }
    }

    /// Returns the text of a file.
    #[must_use]
    pub fn file(&self, file: &File) -> String {
        let output = FilePrinter {
            printer: self,
            file,
            used: RefCell::default(),
            unattached: UnattachedComments::of(self.tree, file),
        };
        let body = output.body();
        let options = output.file_options();
        let syntax = match file.syntax {
            Syntax::Proto2 => "syntax = \"proto2\";".to_owned(),
            Syntax::Proto3 => "syntax = \"proto3\";".to_owned(),
            Syntax::Edition(number) => format!("edition = \"{number}\";"),
        };
        let mut parts = vec![output.documented(&file.sources.syntax, syntax)];
        if !file.package.is_empty() {
            let package = format!("package {};", self.plan.package(file));
            parts.push(output.documented(&file.sources.package, package));
        }
        parts.push(output.imports());
        parts.push(apart(&options));
        parts.extend(body);
        parts.retain(|part| !part.is_empty());
        parts.join("\n\n") + "\n"
    }

    /// Returns the text of a message, enum or service by its full name, or an empty text if it does
    /// not exist.
    #[must_use]
    pub fn element(&self, name: &str) -> String {
        let tree = self.tree;
        let printer_of = |file: FileId| FilePrinter {
            printer: self,
            file: &tree[file],
            used: RefCell::default(),
            unattached: UnattachedComments::default(),
        };
        match tree.names.get(name) {
            Some(Symbol::Message(id)) => printer_of(tree[*id].file).message(&tree[*id]),
            Some(Symbol::Enum(id)) => printer_of(tree[*id].file).enumeration(&tree[*id]),
            Some(Symbol::Service(id)) => printer_of(tree[*id].file).service(&tree[*id]),
            None => String::new(),
        }
    }
}

impl<'a> FilePrinter<'a> {
    fn tree(&self) -> &'a Tree {
        self.printer.tree
    }

    fn plan(&self) -> &'a Plan {
        self.printer.plan
    }

    fn package(&self) -> &'a str {
        self.printer.plan.package(self.file)
    }

    /// Returns whether deprecations and annotations of the file are applied.
    fn moves(&self) -> bool {
        self.plan().carries_out(self.file.id)
    }

    fn uses(&self, file: FileId) {
        if file != self.file.id {
            self.used.borrow_mut().insert(file);
        }
    }

    /// Returns the shortest name of a type in `scope`.
    fn type_name(&self, scope: &str, full: &str, file: FileId) -> String {
        self.uses(file);
        self.printer.names.short(scope, self.plan().type_name(full))
    }

    fn imports(&self) -> String {
        let import = |mode: &str, file: FileId| {
            let path = self.plan().path(&self.tree()[file]);
            let line = format!("import {mode}\"{path}\";");
            let mut written = self.file.imports.iter();
            match written.find(|import| import.file == file) {
                Some(import) => (line.clone(), self.documented(&import.source, line)),
                None => (line.clone(), line),
            }
        };
        let mut lines: BTreeSet<(String, String)> = BTreeSet::new();
        let mut public = BTreeSet::new();
        for one in &self.file.imports {
            if one.mode == ImportMode::Public {
                public.insert(one.file);
                lines.insert(import("public ", one.file));
            }
        }
        let used = self.used.borrow();
        lines.extend(used.difference(&public).map(|file| import("", *file)));
        let lines: Vec<String> = lines.into_iter().map(|(_, text)| text).collect();
        apart(&lines)
    }

    fn file_options(&self) -> Vec<String> {
        let mut entries = self.options(self.package(), &self.file.options);
        let target = self.plan().target(self.file.id);
        // The annotation may be set without the status: `work_in_progress`.
        let is_status = |name: &str, value: &str| {
            name.starts_with('(') && (name.ends_with(STATUS_PART) || value.contains(STATUS_PART))
        };
        let has_status = entries
            .iter()
            .any(|entry| is_status(&entry.name, &entry.value));
        if let Some(file) = self.printer.extensions.get(STATUS)
            && target.is_some()
            && !has_status
        {
            self.uses(*file);
            let name = self.printer.names.option(self.package(), STATUS);
            entries.push(OptionText {
                number: 0,
                name: format!("({name}).{STATUS_PART}"),
                value: String::new(),
            });
        }
        for OptionText { name, value, .. } in &mut entries {
            match target {
                Some(_) if is_status(name, value) => {
                    *value = status(name, value, self.plan().status());
                }
                Some(target) => {
                    let text = self.file.options.get(name).and_then(Value::as_str);
                    let moved = text.and_then(|text| {
                        language::moved(name, text, &self.file.package, &target.package)
                    });
                    if let Some(moved) = moved {
                        *value = value::quoted(moved.as_bytes(), true);
                    }
                }
                None => {}
            }
        }
        self.lines(entries, &self.file.options)
    }

    /// Returns the options of an element, without annotations that the next major applies.
    fn options(&self, scope: &str, options: &Options) -> Vec<OptionText> {
        let Some(message) = options.message() else {
            return Vec::new();
        };
        let mut entries = Vec::new();
        let mut add = |number: u32, found: Vec<(String, String)>| {
            entries.extend(found.into_iter().map(|(name, value)| OptionText {
                number,
                name,
                value,
            }));
        };
        for (field, value) in message.fields() {
            add(
                field.number(),
                value::entries(field.name(), &field.kind(), value),
            );
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
            let mut found = value::entries(&name, &extension.kind(), value);
            for (_, value) in &mut found {
                *value = self.moved_text(full, std::mem::take(value));
            }
            add(extension.number(), found);
        }
        entries
    }

    /// Prints the options of an element as statements.
    fn option_lines(&self, scope: &str, options: &Options) -> Vec<String> {
        self.lines(self.options(scope, options), options)
    }

    /// Prints options as statements, with their comments.
    fn lines(&self, entries: Vec<OptionText>, options: &Options) -> Vec<String> {
        let mut before = 0;
        let line = |OptionText {
                        number,
                        name,
                        value,
                    }: OptionText| {
            let line = format!("option {name} = {value};");
            // Statements for parts of one option share their comments.
            let is_first = std::mem::replace(&mut before, number) != number;
            let docs = options.docs().filter(|(of, _)| is_first && *of == number);
            let docs: Vec<Docs> = docs.map(|(_, docs)| docs.clone()).collect();
            self.with_all(&docs, line)
        };
        entries.into_iter().map(line).collect()
    }

    /// Updates option values that name moved types, and REST paths with the major.
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

    /// Prints messages, enums, services and extensions in source order.
    fn body(&self) -> Vec<String> {
        let tree = self.tree();
        let scope = self.package();
        let mut items = self.nested(scope, &self.file.messages, &self.file.enums, None);
        for id in &self.file.services {
            items.push((tree[*id].source.span, self.service(&tree[*id])));
        }
        let rest = self.unattached.rest();
        items.extend(
            rest.into_iter()
                .map(|one| (Some(one.span), self.free_comment(&one.text))),
        );
        in_order(items)
    }

    /// Orders the parts of a block, and adds the unattached comments of the block.
    fn in_order(&self, block: Option<Span>, mut items: Vec<Item>) -> Vec<String> {
        let unattached = self.unattached.take(block).into_iter();
        items.extend(unattached.map(|one| (Some(one.span), self.free_comment(&one.text))));
        in_order(items)
    }

    /// Prints a comment without an element.
    fn free_comment(&self, text: &str) -> String {
        comment(&self.references().text(text)).trim_end().to_owned()
    }

    /// Prints a statement with its comments and the comments inside its brackets.
    fn statement(&self, source: &Source, head: &str, options: &[OptionText]) -> String {
        let inside = self.unattached.take(source.span).into_iter();
        let inside: String = inside
            .map(|one| self.free_comment(&one.text) + "\n")
            .collect();
        self.documented(source, inside + &head_with(head, options) + ";")
    }

    /// Prints a declaration with its comments.
    fn documented(&self, source: &Source, text: String) -> String {
        match &source.docs {
            Some(docs) => commented(&self.references().docs(docs), &text),
            None => text,
        }
    }

    /// Prints a line with the comments of all statements that it replaces.
    fn with_all(&self, docs: &[Docs], text: String) -> String {
        let references = self.references();
        let around = docs.iter().rev();
        around.fold(text, |text, docs| commented(&references.docs(docs), &text))
    }

    fn references(&self) -> References<'a> {
        References {
            tree: self.tree(),
            plan: self.plan(),
        }
    }
}

fn in_order(mut items: Vec<Item>) -> Vec<String> {
    items.sort_by_key(|(span, _)| *span);
    items.into_iter().map(|(_, text)| text).collect()
}

/// Returns the messages of proto2 groups.
fn groups(tree: &Tree) -> HashSet<MessageId> {
    let fields = tree
        .messages
        .iter()
        .flat_map(|message| message.fields.iter().map(|field| (message.file, field)));
    let extensions = tree.extensions.iter().map(|one| (one.file, &one.field));
    let groups = fields
        .chain(extensions)
        .filter_map(|(file, field)| match field.kind {
            Kind::Group(id) if tree[file].syntax == Syntax::Proto2 => Some(id),
            _ => None,
        });
    groups.collect()
}

/// Returns the status value of a moved file.
fn status(name: &str, value: &str, status: &str) -> String {
    if name.ends_with(STATUS_PART) {
        return status.to_owned();
    }
    let all = ["ACTIVE", "FROZEN", "NEXT_MAJOR_VERSION_CANDIDATE"];
    let old = all.iter().map(|old| format!("{STATUS_PART}: {old}"));
    let old = old.into_iter().find(|old| value.contains(old.as_str()));
    old.map_or(value.to_owned(), |old| {
        value.replace(&old, &format!("{STATUS_PART}: {status}"))
    })
}
