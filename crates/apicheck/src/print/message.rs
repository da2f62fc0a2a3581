//! Printing of messages, fields and groups.

use std::collections::BTreeSet;

use super::declaration::{LAST_FIELD, ranges, short};
use super::layout::{OptionText, block, head_with};
use super::{FilePrinter, Item, VERSIONING, value};
use crate::model::{
    Cardinality, EnumId, Field, Kind, Message, MessageId, NumberRange, Options, Scalar, Source,
    Syntax, json_name,
};

impl FilePrinter<'_> {
    /// Prints the declarations of a file or a message: messages, enums, extensions.
    pub(super) fn nested(
        &self,
        scope: &str,
        messages: &[MessageId],
        enums: &[EnumId],
        parent: Option<MessageId>,
    ) -> Vec<Item> {
        let tree = self.tree();
        let mut items = Vec::new();
        for id in messages {
            let message = &tree[*id];
            if message.map_entry || self.printer.groups.contains(id) {
                continue;
            }
            if self.plan().keeps_message(message) {
                items.push((message.source.span, self.message(message)));
            } else {
                self.unattached.take(message.source.span);
            }
        }
        for id in enums {
            let of = &tree[*id];
            if self.plan().keeps_enum(of) {
                items.push((of.source.span, self.enumeration(of)));
            } else {
                self.unattached.take(of.source.span);
            }
        }
        for extension in &tree.extensions {
            if extension.file == self.file.id && extension.parent == parent {
                items.push((
                    extension.field.source.span,
                    self.extension(scope, extension),
                ));
            }
        }
        items
    }

    pub(super) fn message(&self, message: &Message) -> String {
        let name = short(self.plan().type_name(&message.name));
        let text = block(&format!("message {name}"), &self.inside(message));
        self.documented(&message.source, text)
    }

    /// Prints the contents of the braces of a message or group.
    fn inside(&self, message: &Message) -> Vec<String> {
        let scope = self.plan().type_name(&message.name);
        let mut head = self.option_lines(scope, &message.options);
        head.extend(self.previous_type(scope, message));
        head.extend(self.reserved(message));
        head.extend(self.extensions(scope, message));
        let mut items = self.nested(scope, &message.messages, &message.enums, Some(message.id));
        items.extend(self.fields(scope, message));
        head.extend(self.in_order(message.source.span, items));
        head
    }

    /// Prints the extension ranges: one statement for all ranges with the same options.
    fn extensions(&self, scope: &str, message: &Message) -> Vec<String> {
        let mut groups: Vec<(&Options, Vec<NumberRange>)> = Vec::new();
        for (range, options) in message
            .extension_ranges
            .iter()
            .zip(&message.extension_options)
        {
            match groups.iter_mut().find(|(known, _)| *known == options) {
                Some((_, ranges)) => ranges.push(*range),
                None => groups.push((options, vec![*range])),
            }
        }
        let statements = groups
            .into_iter()
            .enumerate()
            .map(|(index, (options, own))| {
                let head = format!("extensions {}", ranges(&own, LAST_FIELD));
                let line = head_with(&head, &self.options(scope, options)) + ";";
                // All comments stand before the first statement.
                let docs = if index == 0 {
                    &message.extensions_docs[..]
                } else {
                    &[]
                };
                self.with_all(docs, line)
            });
        statements.collect()
    }

    /// Prints the annotation with the previous type of a message that moves.
    fn previous_type(&self, scope: &str, message: &Message) -> Option<String> {
        let file = self.printer.extensions.get(VERSIONING)?;
        if !self.moves() {
            return None;
        }
        self.uses(*file);
        let name = self.printer.names.option(scope, VERSIONING);
        let earlier = value::quoted(message.name.as_bytes(), true);
        Some(format!(
            "option ({name}).previous_message_type = {earlier};"
        ))
    }

    /// Prints the reservations: existing ones and those of removed fields.
    fn reserved(&self, message: &Message) -> Vec<String> {
        let dropped = || {
            let fields = message.fields.iter();
            fields.filter(|field| !self.plan().keeps_field(message, field))
        };
        let mut numbers = message.reserved.numbers.clone();
        numbers.extend(dropped().map(|field| NumberRange {
            first: field.number,
            last: field.number,
        }));
        let old = message.reserved.names.iter().map(|name| &**name);
        let names = old.chain(dropped().map(|field| &*field.name)).collect();
        self.reserved_lines(&numbers, &names, LAST_FIELD, &message.reserved.docs)
    }

    /// Prints the fields. Members of a oneof are printed together, at the position of the first
    /// one.
    fn fields(&self, scope: &str, message: &Message) -> Vec<Item> {
        let keeps = |field: &&Field| self.plan().keeps_field(message, field);
        let (kept, dropped): (Vec<&Field>, Vec<&Field>) = message.fields.iter().partition(keeps);
        for field in dropped {
            self.unattached.take(field.source.span);
        }
        let mut items = Vec::new();
        let mut done: BTreeSet<&str> = BTreeSet::new();
        for field in &kept {
            let Some(oneof) = self.plan().oneof(message, field) else {
                items.push((field.source.span, self.field(scope, message, field, false)));
                continue;
            };
            if done.insert(oneof) {
                let members = kept
                    .iter()
                    .filter(|other| self.plan().oneof(message, other) == Some(oneof));
                items.push((
                    field.source.span,
                    self.oneof(scope, message, oneof, members),
                ));
            }
        }
        items
    }

    fn oneof<'f>(
        &self,
        scope: &str,
        message: &Message,
        name: &str,
        members: impl Iterator<Item = &'f &'f Field>,
    ) -> String {
        let declared = message.oneofs.iter().find(|oneof| &*oneof.name == name);
        let items: Vec<Item> = members
            .map(|field| (field.source.span, self.field(scope, message, field, true)))
            .collect();
        let head = format!("oneof {name}");
        let Some(oneof) = declared else {
            return block(&head, &self.in_order(None, items));
        };
        let mut parts = self.option_lines(scope, &oneof.options);
        parts.extend(self.in_order(oneof.source.span, items));
        self.documented(&oneof.source, block(&head, &parts))
    }

    fn field(&self, scope: &str, message: &Message, field: &Field, in_oneof: bool) -> String {
        let name = self.plan().field_name(message, field);
        let json = (name == &*field.name).then_some(&*field.json_name);
        self.field_named(scope, field, name, json, in_oneof)
    }

    pub(super) fn field_named(
        &self,
        scope: &str,
        field: &Field,
        name: &str,
        json: Option<&str>,
        in_oneof: bool,
    ) -> String {
        let label = if in_oneof { "" } else { self.label(field) };
        let mut options = self.options(scope, &field.options);
        let mut add = |name: &str, value: String| {
            options.push(OptionText {
                number: 0,
                name: name.to_owned(),
                value,
            });
        };
        if let Some(json) = json.filter(|json| *json != json_name(name)) {
            add("json_name", value::quoted(json.as_bytes(), true));
        }
        if let Some(default) = &field.default {
            let text = match field.kind {
                Kind::Scalar(Scalar::String) => value::quoted(default.as_bytes(), true),
                // Descriptors contain bytes in escaped form.
                Kind::Scalar(Scalar::Bytes) => format!("\"{default}\""),
                _ => default.to_string(),
            };
            add("default", text);
        }
        if let Kind::Group(id) = field.kind
            && self.printer.groups.contains(&id)
        {
            let message = &self.tree()[id];
            let group = short(self.plan().type_name(&message.name));
            let head = format!("{label}group {group} = {}", field.number);
            let text = block(&head_with(&head, &options), &self.inside(message));
            // The comments belong to the message, or to the field in descriptor sets of some
            // compilers.
            let has_docs = |source: &&Source| source.docs.is_some();
            let source = Some(&message.source).filter(has_docs);
            return self.documented(source.unwrap_or(&field.source), text);
        }
        let kind = match self.tree().map_entry(field) {
            Some((key, value)) => format!(
                "map<{}, {}>",
                self.kind(scope, key.kind),
                self.kind(scope, value.kind)
            ),
            None => self.kind(scope, field.kind),
        };
        let head = format!("{label}{kind} {name} = {}", field.number);
        self.statement(&field.source, &head, &options)
    }

    fn label(&self, field: &Field) -> &'static str {
        let message = matches!(field.kind, Kind::Message(_) | Kind::Group(_));
        match (field.cardinality, self.file.syntax) {
            (Cardinality::Repeated, _) => "repeated ",
            (Cardinality::Required, Syntax::Proto2) => "required ",
            (Cardinality::Explicit, Syntax::Proto2) => "optional ",
            (Cardinality::Explicit, Syntax::Proto3) if !message => "optional ",
            _ => "",
        }
    }

    fn kind(&self, scope: &str, kind: Kind) -> String {
        let tree = self.tree();
        match kind {
            Kind::Scalar(scalar) => scalar.keyword().to_owned(),
            Kind::Message(id) | Kind::Group(id) => {
                self.type_name(scope, &tree[id].name, tree[id].file)
            }
            Kind::Enum(id) => self.type_name(scope, &tree[id].name, tree[id].file),
        }
    }
}
