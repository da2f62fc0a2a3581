//! Rule about the elements to which an option applies: `targets` of the field or extension that defines
//! the option.

use std::collections::HashMap;

use prost_reflect::{DynamicMessage, Value};

use super::Check;
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

/// Reports options at elements to which they do not apply.
pub(super) fn check_targets(check: &mut Check<'_>) {
    let tree = check.tree;
    let targets = declared(tree);
    if targets.is_empty() {
        return;
    }
    for file in &tree.files {
        check_target(
            check,
            &targets,
            file.id,
            1,
            &file.options,
            &file.sources.package,
        );
    }
    for message in &tree.messages {
        let file = message.file;
        check_target(check, &targets, file, 3, &message.options, &message.source);
        for options in &message.extension_options {
            check_target(check, &targets, file, 2, options, &message.source);
        }
        for field in &message.fields {
            check_target(check, &targets, file, 4, &field.options, &field.source);
        }
        for oneof in &message.oneofs {
            check_target(check, &targets, file, 5, &oneof.options, &oneof.source);
        }
    }
    for extension in &tree.extensions {
        let field = &extension.field;
        check_target(
            check,
            &targets,
            extension.file,
            4,
            &field.options,
            &field.source,
        );
    }
    for declared in &tree.enums {
        check_target(
            check,
            &targets,
            declared.file,
            6,
            &declared.options,
            &declared.source,
        );
        for value in &declared.values {
            check_target(
                check,
                &targets,
                declared.file,
                7,
                &value.options,
                &value.source,
            );
        }
    }
    for service in &tree.services {
        check_target(
            check,
            &targets,
            service.file,
            8,
            &service.options,
            &service.source,
        );
        for method in &service.methods {
            check_target(
                check,
                &targets,
                service.file,
                9,
                &method.options,
                &method.source,
            );
        }
    }
}

fn check_target(
    check: &mut Check<'_>,
    targets: &Targets,
    file: FileId,
    target: i32,
    options: &Options,
    source: &Source,
) {
    let Some(message) = options.message() else {
        return;
    };
    if check.tree[file].text.is_none() {
        return;
    }
    let mut wrong = Vec::new();
    collect(targets, target, message, &mut wrong);
    let name = |number: i32| TARGETS.get(number as usize).copied().unwrap_or_default();
    for option in wrong {
        let expected: Vec<_> = targets[&option]
            .iter()
            .map(|number| name(*number))
            .collect();
        let why = format!(
            "option {option} does not apply to a {}: expected one of: {}",
            name(target),
            expected.join(", ")
        );
        check.report(file, source, why, None);
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
