//! The plan of a next major or a promotion: new paths, packages and names. The printer follows it.

use std::collections::HashMap;

use prost_reflect::{DynamicMessage, Value};

use crate::model::{Enum, EnumValue, Field, File, FileId, Message, Name, Options, Tree};

/// New paths and names of files and types. The empty plan changes nothing.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    step: Step,
    files: HashMap<FileId, Move>,
    types: HashMap<Name, String>,
}

/// Change that is applied to moved files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Step {
    /// Deprecated elements are removed and annotations are applied.
    #[default]
    NextMajor,
    /// Files and types are renamed, nothing else.
    Promotion,
}

/// New path and package of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Move {
    pub(crate) path: String,
    pub(crate) package: String,
    /// Old and new version segment: `v3`, `v4alpha`.
    pub(crate) version: (String, String),
}

impl Plan {
    /// Creates a plan that moves files to new paths and packages, with all types that stay.
    pub(crate) fn cut(
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
        // Each enclosing message may have a new name.
        let mut full = package.to_string();
        let mut renamed = target.package.clone();
        for part in local.split('.') {
            full = format!("{full}.{part}");
            renamed = format!("{renamed}.{}", self.new_name(tree, &full).unwrap_or(part));
        }
        self.types.insert(name.clone(), renamed);
    }

    /// Returns whether deprecations and annotations of a file are applied.
    pub(crate) fn carries_out(&self, file: FileId) -> bool {
        self.step == Step::NextMajor && self.files.contains_key(&file)
    }

    /// Returns the `package_version_status` of moved files.
    pub(crate) fn status(&self) -> &'static str {
        match self.step {
            Step::NextMajor => "NEXT_MAJOR_VERSION_CANDIDATE",
            Step::Promotion => "ACTIVE",
        }
    }

    fn new_name<'a>(&self, tree: &'a Tree, full: &str) -> Option<&'a str> {
        (self.step == Step::NextMajor).then(|| new_name(tree, full))?
    }

    /// Returns the new path and package of a file, or `None` if it stays.
    pub(crate) fn target(&self, file: FileId) -> Option<&Move> {
        self.files.get(&file)
    }

    /// Returns the path of a file after the move.
    pub(crate) fn path<'a>(&'a self, file: &'a File) -> &'a str {
        self.target(file.id)
            .map_or(&file.path, |target| &target.path)
    }

    /// Returns the package of a file after the move.
    pub(crate) fn package<'a>(&'a self, file: &'a File) -> &'a str {
        self.target(file.id)
            .map_or(&file.package, |target| &target.package)
    }

    /// Returns the full name of a type after the move.
    pub(crate) fn type_name<'a>(&'a self, name: &'a str) -> &'a str {
        self.types.get(name).map_or(name, String::as_str)
    }

    /// Returns the new names of all types in moved files.
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

    /// Returns whether a value stays. The first value of an enum always stays, because proto3 needs
    /// a zero.
    pub(crate) fn keeps_value(&self, of: &Enum, value: &EnumValue) -> bool {
        value.number == 0 || !(self.carries_out(of.file) && value.options.deprecated())
    }

    /// Returns the name of a field after the move.
    pub(crate) fn field_name<'a>(&self, message: &Message, field: &'a Field) -> &'a str {
        self.renamed(message.file, &field.options, FIELD_MIGRATE)
            .unwrap_or(&field.name)
    }

    /// Returns the oneof of a field after the move.
    pub(crate) fn oneof<'a>(&self, message: &'a Message, field: &'a Field) -> Option<&'a str> {
        // `oneof_promotion` is applied in the next major (V-29, V-39).
        if self.carries_out(message.file)
            && let Some(oneof) = text_of(&field.options, FIELD_MIGRATE, "oneof_promotion")
        {
            return Some(oneof);
        }
        Some(&message.oneofs.get(field.oneof?)?.name)
    }

    /// Returns the name of a value after the move.
    pub(crate) fn value_name<'a>(&self, of: &Enum, value: &'a EnumValue) -> &'a str {
        // proto3 requires a zero value: a removed one is renamed instead (V-39).
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
/// Name of the zero value of an enum after its removal.
const UNAVAILABLE: &str = "DEPRECATED_AND_UNAVAILABLE_DO_NOT_USE";

/// Annotations that are applied, and therefore not copied.
pub(crate) const MIGRATE: &[&str] = &[
    FIELD_MIGRATE,
    "udpa.annotations.message_migrate",
    "udpa.annotations.enum_migrate",
    "udpa.annotations.enum_value_migrate",
    "udpa.annotations.file_migrate",
];

/// Returns the new short name that a message or enum requests.
fn new_name<'a>(tree: &'a Tree, full: &str) -> Option<&'a str> {
    let (options, option) = match (tree.message(full), tree.enumeration(full)) {
        (Some(message), _) => (&message.options, "udpa.annotations.message_migrate"),
        (None, Some(of)) => (&of.options, "udpa.annotations.enum_migrate"),
        (None, None) => return None,
    };
    text_of(options, option, "rename")
}

/// Returns a text of an annotation, or `None` if it is unset or empty.
pub(crate) fn text_of<'a>(options: &'a Options, option: &str, part: &str) -> Option<&'a str> {
    let annotation: &DynamicMessage = options.extension(option)?.as_message()?;
    annotation
        .fields()
        .find(|(field, _)| field.name() == part)
        .and_then(|(_, value)| Value::as_str(value))
        .filter(|text| !text.is_empty())
}
