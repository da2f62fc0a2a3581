//! Semantic checks after name resolution, which concern several elements.
//!
//! Rules about one element alone are checked where it is built, see `element`.

mod declarations;
mod extensions;
mod fields;
mod targets;

use std::collections::HashMap;

use prost_reflect::Value;

use self::targets::misplaced;
use super::error::{Error, Reason};
use crate::finding::Location;
use crate::model::{Enum, File, FileId, FileSpan, Message, NumberRange, Source, Tree};

/// Returns every error in the elements of the tree.
pub(super) fn all(tree: &Tree) -> Vec<Error> {
    let mut check = Check {
        tree,
        errors: Vec::new(),
    };
    for file in &tree.files {
        check.imports(file);
    }
    for message in &tree.messages {
        check.message(message);
        check.fields_of(message);
        check.declarations(message);
    }
    for declared in &tree.enums {
        check.enumeration(declared);
    }
    check.extensions();
    for one in misplaced(tree) {
        check.report(one.file, one.source, one.why, None);
    }
    check.errors
}

struct Check<'a> {
    tree: &'a Tree,
    errors: Vec<Error>,
}

impl Check<'_> {
    fn message(&mut self, message: &Message) {
        let ranges = message
            .reserved
            .numbers
            .iter()
            .chain(&message.extension_ranges);
        self.ranges(message.file, &message.source, &message.name, ranges);
        let mut numbers: HashMap<i32, &Source> = HashMap::new();
        for field in &message.fields {
            let (number, name) = (field.number, &field.name);
            if let Some(first) = numbers.insert(number, &field.source) {
                let why = format!("{}: number {number} of {name} is taken", message.name);
                self.report(message.file, &field.source, why, Some(first));
            }
            if message.reserves(number) {
                let why = format!("{}: number {number} of {name} is reserved", message.name);
                self.report(message.file, &field.source, why, None);
            }
            if message.reserved.names.contains(name) {
                let why = format!("{}: the name {name} is reserved", message.name);
                self.report(message.file, &field.source, why, None);
            }
            if message
                .extension_ranges
                .iter()
                .any(|range| range.contains(number))
            {
                let why = format!(
                    "{}: number {number} of {name} is for extensions",
                    message.name
                );
                self.report(message.file, &field.source, why, None);
            }
        }
    }

    /// Reports ranges that end before they start.
    fn ranges<'r>(
        &mut self,
        file: FileId,
        source: &Source,
        name: &str,
        ranges: impl Iterator<Item = &'r NumberRange>,
    ) {
        for NumberRange { first, last } in ranges.filter(|range| range.last < range.first) {
            let why = format!("{name}: the range {first} to {last} ends before it begins");
            self.report(file, source, why, None);
        }
    }

    fn enumeration(&mut self, declared: &Enum) {
        let ranges = declared.reserved.numbers.iter();
        self.ranges(declared.file, &declared.source, &declared.name, ranges);
        let aliases = declared.options.is_true("allow_alias");
        let mut numbers: HashMap<i32, &Source> = HashMap::new();
        for value in &declared.values {
            let (number, name) = (value.number, &value.name);
            let taken = numbers.insert(number, &value.source).filter(|_| !aliases);
            if let Some(first) = taken {
                let why = format!("{}: number {number} of {name} is taken", declared.name);
                self.report(declared.file, &value.source, why, Some(first));
            }
            if declared
                .reserved
                .numbers
                .iter()
                .any(|range| range.contains(number))
            {
                let why = format!("{}: number {number} of {name} is reserved", declared.name);
                self.report(declared.file, &value.source, why, None);
            }
            if declared.reserved.names.contains(name) {
                let why = format!("{}: the name {name} is reserved", declared.name);
                self.report(declared.file, &value.source, why, None);
            }
        }
        match declared.values.first() {
            None => {
                let why = format!("{} has no value", declared.name);
                self.report(declared.file, &declared.source, why, None);
            }
            Some(first) if !declared.closed && first.number != 0 => {
                let why = format!(
                    "{}: the first value of an open enum must be zero",
                    declared.name
                );
                self.report(declared.file, &first.source, why, None);
            }
            Some(_) => {}
        }
    }

    /// Reports imports of files for the lite runtime by files for the full one.
    fn imports(&mut self, file: &File) {
        if file.text.is_none() || is_lite(file) {
            return;
        }
        for import in &file.imports {
            let imported = &self.tree[import.file];
            if is_lite(imported) {
                let why = format!(
                    "import {:?} has optimize_for = LITE_RUNTIME, but this file does not",
                    imported.path
                );
                self.report(file.id, &import.source, why, None);
            }
        }
    }

    fn report(&mut self, file: FileId, source: &Source, why: String, other: Option<&Source>) {
        let at = |source: &Source| {
            let span = source.name.or(source.span);
            Location::of(self.tree, FileSpan { file, span })
        };
        self.errors.push(Error {
            at: at(source),
            reason: Reason::Rule(why),
            other: other.map(at),
            text: self.tree[file].text.clone(),
        });
    }
}

/// Returns whether a file is for the lite runtime.
fn is_lite(file: &File) -> bool {
    let optimized = file.options.get("optimize_for");
    optimized.and_then(Value::as_enum_number) == Some(3)
}
