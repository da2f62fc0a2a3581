//! Rules about extensions.

use std::collections::HashMap;

use super::{Check, is_lite};
use crate::model::{Cardinality, Extension, Kind, Source, Syntax};

impl Check<'_> {
    pub(super) fn extensions(&mut self) {
        let mut taken: HashMap<_, &Source> = HashMap::new();
        for extension in &self.tree.extensions {
            let number = extension.field.number;
            let extendee = &self.tree[extension.extendee];
            if !extendee
                .extension_ranges
                .iter()
                .any(|range| range.contains(number))
            {
                let why = format!(
                    "{}: {} does not leave number {number} to extensions",
                    extension.name, extendee.name
                );
                self.report(extension.file, &extension.field.source, why, None);
            }
            self.extension(extension);
            let key = (extension.extendee, number);
            if taken.insert(key, &extension.field.source).is_some() {
                let why = format!(
                    "{}: another extension of {} has number {number}",
                    extension.name, extendee.name
                );
                self.report(extension.file, &extension.field.source, why, None);
            }
        }
    }

    /// Reports an extension whose file or type does not fit its extendee.
    fn extension(&mut self, extension: &Extension) {
        let tree = self.tree;
        let (file, extendee) = (&tree[extension.file], &tree[extension.extendee]);
        if file.text.is_none() {
            return;
        }
        let mut wrong = Vec::new();
        let is_options =
            extendee.name.starts_with("google.protobuf.") && extendee.name.ends_with("Options");
        if file.syntax == Syntax::Proto3 && !is_options {
            wrong.push(format!(
                "in proto3 only options can be extended, not {}",
                extendee.name
            ));
        }
        let is_set = extendee.options.is_true("message_set_wire_format");
        let fits = matches!(
            (extension.field.kind, extension.field.cardinality),
            (Kind::Message(_), Cardinality::Explicit)
        );
        if is_set && !fits {
            wrong.push(format!(
                "an extension of the message set {} must be an optional message",
                extendee.name
            ));
        }
        if is_lite(file) && !is_lite(&tree[extendee.file]) {
            wrong.push(format!(
                "a file with optimize_for = LITE_RUNTIME cannot extend {}, which has not",
                extendee.name
            ));
        }
        for why in wrong {
            let why = format!("{}: {why}", extension.name);
            self.report(extension.file, &extension.field.source, why, None);
        }
        self.field(extension.file, &extension.name, &extension.field);
        self.declared(extension);
    }
}
