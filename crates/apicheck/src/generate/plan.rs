//! What becomes of each file and type in the next major: the plan that the printer follows.

use std::collections::HashMap;

use prost_reflect::{DynamicMessage, Value};

use crate::model::{Enum, EnumValue, Field, File, FileId, Message, Name, Options, Tree};

/// Where files and types go. The empty plan leaves everything as it is.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    step: Step,
    files: HashMap<FileId, Move>,
    types: HashMap<Name, String>,
}

/// What is done to the files that move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Step {
    /// Deprecation and annotations are carried out.
    #[default]
    NextMajor,
    /// They get another name and nothing else.
    Promotion,
}

/// The new place of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Move {
    pub(crate) path: String,
    pub(crate) package: String,
    /// The version segment it had, and the one it gets: `v3`, `v4alpha`.
    pub(crate) version: (String, String),
}

impl Plan {
    /// Cuts files: each goes to a new path and package, and with it every type that stays.
    pub(super) fn cut(
        tree: &Tree,
        step: Step,
        files: impl IntoIterator<Item = (FileId, Move)>,
    ) -> Plan {
        let mut plan = Plan {
            step,
            files: files.into_iter().collect(),
            types: HashMap::new(),
        };
        for message in &tree.messages {
            plan.name_type(tree, message.file, &message.name);
        }
        for of in &tree.enums {
            plan.name_type(tree, of.file, &of.name);
        }
        plan
    }

    fn name_type(&mut self, tree: &Tree, file: FileId, name: &Name) {
        let Some(target) = self.files.get(&file) else {
            return;
        };
        let package = &tree[file].package;
        let Some(local) = name
            .strip_prefix(&**package)
            .and_then(|rest| rest.strip_prefix('.'))
        else {
            return;
        };
        // Each enclosing message may have a new name of its own.
        let mut full = package.to_string();
        let mut renamed = target.package.clone();
        for part in local.split('.') {
            full = format!("{full}.{part}");
            renamed = format!("{renamed}.{}", self.new_name(tree, &full).unwrap_or(part));
        }
        self.types.insert(name.clone(), renamed);
    }

    /// Whether deprecation and annotations of a file are carried out.
    pub(crate) fn carries_out(&self, file: FileId) -> bool {
        self.step == Step::NextMajor && self.files.contains_key(&file)
    }

    /// The status of a file that moves.
    pub(crate) fn status(&self) -> &'static str {
        match self.step {
            Step::NextMajor => "NEXT_MAJOR_VERSION_CANDIDATE",
            Step::Promotion => "ACTIVE",
        }
    }

    fn new_name<'a>(&self, tree: &'a Tree, full: &str) -> Option<&'a str> {
        (self.step == Step::NextMajor).then(|| new_name(tree, full))?
    }

    /// The new place of a file; none when it stays.
    pub(crate) fn target(&self, file: FileId) -> Option<&Move> {
        self.files.get(&file)
    }

    /// The path of a file afterwards.
    pub(crate) fn path<'a>(&'a self, file: &'a File) -> &'a str {
        self.target(file.id)
            .map_or(&file.path, |target| &target.path)
    }

    /// The package of a file afterwards.
    pub(crate) fn package<'a>(&'a self, file: &'a File) -> &'a str {
        self.target(file.id)
            .map_or(&file.package, |target| &target.package)
    }

    /// The full name of a type afterwards.
    pub(crate) fn type_name<'a>(&'a self, name: &'a str) -> &'a str {
        self.types.get(name).map_or(name, String::as_str)
    }

    /// The types of the files that move, as they are called afterwards.
    pub(crate) fn new_types(&self) -> impl Iterator<Item = &str> {
        self.types.values().map(String::as_str)
    }

    pub(crate) fn keeps_message(&self, message: &Message) -> bool {
        !(self.carries_out(message.file) && message.options.deprecated())
    }

    pub(crate) fn keeps_enum(&self, of: &Enum) -> bool {
        !(self.carries_out(of.file) && of.options.deprecated())
    }

    pub(crate) fn keeps_field(&self, message: &Message, field: &Field) -> bool {
        !(self.carries_out(message.file) && field.options.deprecated())
    }

    /// The first value of an enum cannot go: proto3 needs a zero.
    pub(crate) fn keeps_value(&self, of: &Enum, value: &EnumValue) -> bool {
        value.number == 0 || !(self.carries_out(of.file) && value.options.deprecated())
    }

    /// The name of a field afterwards.
    pub(crate) fn field_name<'a>(&self, message: &Message, field: &'a Field) -> &'a str {
        self.renamed(message.file, &field.options, FIELD_MIGRATE)
            .unwrap_or(&field.name)
    }

    /// The oneof of a field afterwards.
    pub(crate) fn oneof<'a>(&self, message: &'a Message, field: &'a Field) -> Option<&'a str> {
        if self.carries_out(message.file)
            && let Some(oneof) = text_of(&field.options, FIELD_MIGRATE, "oneof_promotion")
        {
            return Some(oneof);
        }
        Some(&message.oneofs.get(field.oneof?)?.name)
    }

    /// The name of a value afterwards.
    pub(crate) fn value_name<'a>(&self, of: &Enum, value: &'a EnumValue) -> &'a str {
        if self.carries_out(of.file) && value.number == 0 && value.options.deprecated() {
            return UNAVAILABLE;
        }
        self.renamed(
            of.file,
            &value.options,
            "udpa.annotations.enum_value_migrate",
        )
        .unwrap_or(&value.name)
    }

    fn renamed<'a>(&self, file: FileId, options: &'a Options, option: &str) -> Option<&'a str> {
        self.files
            .contains_key(&file)
            .then(|| text_of(options, option, "rename"))?
    }
}

const FIELD_MIGRATE: &str = "udpa.annotations.field_migrate";
/// What the zero of an enum is called when its meaning is gone.
const UNAVAILABLE: &str = "DEPRECATED_AND_UNAVAILABLE_DO_NOT_USE";

/// The annotations that are carried out, and not carried over.
pub(crate) const MIGRATE: &[&str] = &[
    FIELD_MIGRATE,
    "udpa.annotations.message_migrate",
    "udpa.annotations.enum_migrate",
    "udpa.annotations.enum_value_migrate",
    "udpa.annotations.file_migrate",
];

/// The new short name that a message or enum asks for.
fn new_name<'a>(tree: &'a Tree, full: &str) -> Option<&'a str> {
    let (options, option) = match (tree.message(full), tree.enumeration(full)) {
        (Some(message), _) => (&message.options, "udpa.annotations.message_migrate"),
        (None, Some(of)) => (&of.options, "udpa.annotations.enum_migrate"),
        (None, None) => return None,
    };
    text_of(options, option, "rename")
}

/// A text in an annotation; none when it is not set or empty.
pub(super) fn text_of<'a>(options: &'a Options, option: &str, part: &str) -> Option<&'a str> {
    let annotation: &DynamicMessage = options.extension(option)?.as_message()?;
    annotation
        .fields()
        .find(|(field, _)| field.name() == part)
        .and_then(|(_, value)| Value::as_str(value))
        .filter(|text| !text.is_empty())
}
