//! Rule about the elements to which an option applies: `targets` of the field or extension that defines
//! the option.

use std::collections::HashMap;

use prost_reflect::{DynamicMessage, Value};

use crate::model::{Field, FileId, Options, Source, Tree};

/// Values of `google.protobuf.FieldOptions.OptionTargetType`, as names for people. The index is the
/// number.
const TARGETS: &[&str] = &[
    "unknown",
    "file",
    "extension range",
    "message",
    "field",
    "oneof",
    "enum",
    "enum value",
    "service",
    "method",
];

/// Targets by the full name of the field or extension.
type Targets = HashMap<String, Vec<i32>>;

/// An option at an element to which it does not apply.
pub(super) struct Misplaced<'t> {
    pub(super) file: FileId,
    pub(super) source: &'t Source,
    /// The option, and the elements to which it applies.
    pub(super) why: String,
}

/// Returns the options at elements to which they do not apply.
pub(super) fn misplaced(tree: &Tree) -> Vec<Misplaced<'_>> {
    let targets = declared(tree);
    let mut finder = MisplacedFinder {
        tree,
        targets: &targets,
        misplaced: Vec::new(),
    };
    if !targets.is_empty() {
        finder.look_at_all();
    }
    finder.misplaced
}

/// Walk over a tree that collects misplaced options.
struct MisplacedFinder<'t, 'd> {
    tree: &'t Tree,
    targets: &'d Targets,
    misplaced: Vec<Misplaced<'t>>,
}

impl<'t> MisplacedFinder<'t, '_> {
    fn look_at_all(&mut self) {
        for file in &self.tree.files {
            self.look(file.id, 1, &file.options, &file.sources.package);
        }
        for message in &self.tree.messages {
            let file = message.file;
            self.look(file, 3, &message.options, &message.source);
            for options in &message.extension_options {
                self.look(file, 2, options, &message.source);
            }
            for field in &message.fields {
                self.look(file, 4, &field.options, &field.source);
            }
            for oneof in &message.oneofs {
                self.look(file, 5, &oneof.options, &oneof.source);
            }
        }
        for extension in &self.tree.extensions {
            let field = &extension.field;
            self.look(extension.file, 4, &field.options, &field.source);
        }
        for declared in &self.tree.enums {
            self.look(declared.file, 6, &declared.options, &declared.source);
            for value in &declared.values {
                self.look(declared.file, 7, &value.options, &value.source);
            }
        }
        for service in &self.tree.services {
            self.look(service.file, 8, &service.options, &service.source);
            for method in &service.methods {
                self.look(service.file, 9, &method.options, &method.source);
            }
        }
    }

    fn look(&mut self, file: FileId, target: i32, options: &Options, source: &'t Source) {
        let Some(message) = options.message() else {
            return;
        };
        if self.tree[file].text.is_none() {
            return;
        }
        let mut wrong = Vec::new();
        collect(self.targets, target, message, &mut wrong);
        let name = |number: i32| TARGETS.get(number as usize).copied().unwrap_or_default();
        for option in wrong {
            let expected: Vec<_> = self.targets[&option]
                .iter()
                .map(|number| name(*number))
                .collect();
            let why = format!(
                "option {option} does not apply to a {}: expected one of: {}",
                name(target),
                expected.join(", ")
            );
            self.misplaced.push(Misplaced { file, source, why });
        }
    }
}

/// Returns the targets of the fields and extensions that have some.
fn declared(tree: &Tree) -> Targets {
    let mut targets = HashMap::new();
    let mut add = |name: String, field: &Field| {
        let list = field.options.get("targets").and_then(Value::as_list);
        let list: Vec<i32> = list
            .into_iter()
            .flatten()
            .filter_map(Value::as_enum_number)
            .collect();
        if !list.is_empty() {
            targets.insert(name, list);
        }
    };
    for extension in &tree.extensions {
        add(extension.name.to_string(), &extension.field);
    }
    for message in &tree.messages {
        // Features are checked where the options are read.
        if &*message.name == "google.protobuf.FeatureSet" {
            continue;
        }
        for field in message
            .fields
            .iter()
            .filter(|field| field.options.message().is_some())
        {
            add(format!("{}.{}", message.name, field.name), field);
        }
    }
    targets
}

/// Collects the options inside `message` that do not apply to the target.
fn collect(targets: &Targets, target: i32, message: &DynamicMessage, wrong: &mut Vec<String>) {
    let fields = message
        .fields()
        .map(|(field, value)| (field.full_name().to_owned(), value));
    let extensions = message.extensions();
    let extensions = extensions.map(|(extension, value)| (extension.full_name().to_owned(), value));
    for (name, value) in fields.chain(extensions) {
        if targets
            .get(&name)
            .is_some_and(|list| !list.contains(&target))
        {
            wrong.push(name);
        }
        let messages: Vec<&DynamicMessage> = match value {
            Value::Message(message) => vec![message],
            Value::List(list) => list.iter().filter_map(Value::as_message).collect(),
            Value::Map(map) => map.values().filter_map(Value::as_message).collect(),
            _ => Vec::new(),
        };
        for message in messages {
            collect(targets, target, message, wrong);
        }
    }
}
