//! Messages, enums, services and extensions as text.

use std::collections::BTreeSet;

use super::layout::{block, statement, with_docs};
use super::{Sheet, VERSIONING, value};
use crate::model::{
    Cardinality, Enum, EnumId, Extension, Field, Kind, Message, MessageId, Method, Range, Scalar,
    Service, Span, Syntax, json_name,
};

type Item = (Option<Span>, String);

/// The last number of a field, and of an enum value: written as `max`.
const LAST_FIELD: i32 = 536_870_911;

impl Sheet<'_> {
    /// What is declared in a file or a message: messages, enums, extensions.
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
            if !message.map_entry && self.plan().keeps_message(message) {
                items.push((message.source.span, self.message(message)));
            }
        }
        for id in enums {
            let of = &tree[*id];
            if self.plan().keeps_enum(of) {
                items.push((of.source.span, self.enumeration(of)));
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
        let scope = self.plan().type_name(&message.name).to_owned();
        let mut items = self.message_options(&scope, message);
        items.extend(self.reserved(message));
        if !message.extension_ranges.is_empty() {
            items.push(format!(
                "extensions {};",
                ranges(&message.extension_ranges, LAST_FIELD)
            ));
        }
        let mut inside = self.nested(&scope, &message.messages, &message.enums, Some(message.id));
        inside.extend(self.fields(&scope, message));
        inside.sort_by_key(|(span, _)| *span);
        items.extend(inside.into_iter().map(|(_, text)| text));
        let head = format!("message {}", short(&scope));
        with_docs(&message.source, block(&head, &items))
    }

    /// A message that moves says what it was.
    fn message_options(&self, scope: &str, message: &Message) -> Vec<String> {
        let mut entries = self.options(scope, &message.options);
        if self.moves()
            && let Some(file) = self.printer.extensions.get(VERSIONING)
        {
            self.uses(*file);
            let name = self.printer.names.option(scope, VERSIONING);
            let was = value::quoted(message.name.as_bytes(), true);
            entries.push((format!("({name}).previous_message_type"), was));
        }
        let lines = entries.into_iter();
        lines
            .map(|(name, value)| format!("option {name} = {value};"))
            .collect()
    }

    /// What must not be used: as before, and what is dropped now.
    fn reserved(&self, message: &Message) -> Vec<String> {
        let dropped = || {
            let fields = message.fields.iter();
            fields.filter(|field| !self.plan().keeps_field(message, field))
        };
        let mut numbers = message.reserved.clone();
        numbers.extend(dropped().map(|field| Range {
            first: field.number,
            last: field.number,
        }));
        let old = message.reserved_names.iter().map(|name| &**name);
        let names = old.chain(dropped().map(|field| &*field.name)).collect();
        self.reserved_lines(&numbers, &names, LAST_FIELD)
    }

    /// The fields, those of a oneof together where its first one stands.
    fn fields(&self, scope: &str, message: &Message) -> Vec<Item> {
        let kept: Vec<&Field> = message
            .fields
            .iter()
            .filter(|field| self.plan().keeps_field(message, field))
            .collect();
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
        let mut items: Vec<String> = Vec::new();
        if let Some(oneof) = declared {
            let options = self.options(scope, &oneof.options).into_iter();
            items.extend(options.map(|(name, value)| format!("option {name} = {value};")));
        }
        items.extend(members.map(|field| self.field(scope, message, field, true)));
        let text = block(&format!("oneof {name}"), &items);
        match declared {
            Some(oneof) => with_docs(&oneof.source, text),
            None => text,
        }
    }

    fn field(&self, scope: &str, message: &Message, field: &Field, in_oneof: bool) -> String {
        let name = self.plan().field_name(message, field);
        let json = (name == &*field.name).then_some(&*field.json_name);
        self.field_named(scope, field, name, json, in_oneof)
    }

    fn field_named(
        &self,
        scope: &str,
        field: &Field,
        name: &str,
        json: Option<&str>,
        in_oneof: bool,
    ) -> String {
        let kind = match self.tree().map_entry(field) {
            Some((key, value)) => format!(
                "map<{}, {}>",
                self.kind(scope, key.kind),
                self.kind(scope, value.kind)
            ),
            None => self.kind(scope, field.kind),
        };
        let label = if in_oneof { "" } else { self.label(field) };
        let mut options = self.options(scope, &field.options);
        if let Some(json) = json.filter(|json| *json != json_name(name)) {
            options.push(("json_name".to_owned(), value::quoted(json.as_bytes(), true)));
        }
        if let Some(default) = &field.default {
            let text = match field.kind {
                Kind::Scalar(Scalar::String) => value::quoted(default.as_bytes(), true),
                // Descriptors hold bytes escaped already.
                Kind::Scalar(Scalar::Bytes) => format!("\"{default}\""),
                _ => default.to_string(),
            };
            options.push(("default".to_owned(), text));
        }
        let head = format!("{label}{kind} {name} = {}", field.number);
        with_docs(&field.source, statement(&head, &options))
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

    pub(super) fn enumeration(&self, of: &Enum) -> String {
        let scope = self.plan().type_name(&of.name).to_owned();
        let options = self.options(&scope, &of.options).into_iter();
        let mut items: Vec<String> = options
            .map(|(name, value)| format!("option {name} = {value};"))
            .collect();
        let plan = self.plan();
        let dropped = || {
            of.values
                .iter()
                .filter(|value| !plan.keeps_value(of, value))
        };
        let mut numbers = of.reserved.clone();
        numbers.extend(dropped().map(|value| Range {
            first: value.number,
            last: value.number,
        }));
        let old = of.reserved_names.iter().map(|name| &**name);
        let names = old.chain(dropped().map(|value| &*value.name)).collect();
        items.extend(self.reserved_lines(&numbers, &names, i32::MAX));
        for value in of.values.iter().filter(|value| plan.keeps_value(of, value)) {
            let options = self.options(&scope, &value.options);
            let head = format!("{} = {}", plan.value_name(of, value), value.number);
            items.push(with_docs(&value.source, statement(&head, &options)));
        }
        let head = format!("enum {}", short(&scope));
        with_docs(&of.source, block(&head, &items))
    }

    pub(super) fn service(&self, service: &Service) -> String {
        let scope = format!("{}.{}", self.package(), short(&service.name));
        let options = self.options(&scope, &service.options).into_iter();
        let mut items: Vec<String> = options
            .map(|(name, value)| format!("option {name} = {value};"))
            .collect();
        items.extend(
            service
                .methods
                .iter()
                .map(|method| self.method(&scope, method)),
        );
        let head = format!("service {}", short(&service.name));
        with_docs(&service.source, block(&head, &items))
    }

    fn method(&self, scope: &str, method: &Method) -> String {
        let side = |id: MessageId, streams: bool| {
            let message = &self.tree()[id];
            let name = self.type_name(scope, &message.name, message.file);
            format!("{}{name}", if streams { "stream " } else { "" })
        };
        let head = format!(
            "rpc {}({}) returns ({})",
            method.name,
            side(method.input, method.client_streaming),
            side(method.output, method.server_streaming)
        );
        let options = self.options(scope, &method.options).into_iter();
        let items: Vec<String> = options
            .map(|(name, value)| format!("option {name} = {value};"))
            .collect();
        with_docs(&method.source, block(&head, &items))
    }

    /// The `reserved` statements for numbers and names.
    fn reserved_lines(&self, numbers: &[Range], names: &BTreeSet<&str>, last: i32) -> Vec<String> {
        let mut lines = Vec::new();
        if !numbers.is_empty() {
            lines.push(format!("reserved {};", ranges(numbers, last)));
        }
        if !names.is_empty() {
            let quote = match self.file.syntax {
                Syntax::Edition(_) => "",
                Syntax::Proto2 | Syntax::Proto3 => "\"",
            };
            let names: Vec<String> = names
                .iter()
                .map(|name| format!("{quote}{name}{quote}"))
                .collect();
            lines.push(format!("reserved {};", names.join(", ")));
        }
        lines
    }

    fn extension(&self, scope: &str, extension: &Extension) -> String {
        let extendee = &self.tree()[extension.extendee];
        let head = format!(
            "extend {}",
            self.type_name(scope, &extendee.name, extendee.file)
        );
        let field = &extension.field;
        let text = self.field_named(scope, field, &field.name, Some(&field.json_name), false);
        block(&head, &[text])
    }
}

fn short(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

fn ranges(ranges: &[Range], last: i32) -> String {
    let mut sorted = ranges.to_vec();
    sorted.sort();
    sorted.dedup();
    let texts: Vec<String> = sorted
        .iter()
        .map(|range| match range {
            range if range.last >= last && range.first < last => format!("{} to max", range.first),
            range if range.first == range.last => range.first.to_string(),
            range => format!("{} to {}", range.first, range.last),
        })
        .collect();
    texts.join(", ")
}
