//! Encoding of elements as canonical nodes. `docs/api-hash.md` has the table of tags.

use super::node::CanonicalNode;
use super::options;
use crate::model::{
    Enum, Extension, Field, File, Kind, Message, MessageId, Method, Name, NumberRange, Options,
    Service, Syntax, Tree, json_name,
};

/// Encoder of the elements of a tree.
#[derive(Debug, Clone, Copy)]
pub(super) struct Encoder<'a> {
    pub(super) tree: &'a Tree,
    /// Full name of the file option with the version, which is not encoded.
    pub(super) version_option: &'a str,
    /// Whether options are encoded.
    pub(super) options: bool,
}

/// Encoded element: `(tag, full name, bytes)`, in sort order.
pub(super) type Element = (u32, Name, Vec<u8>);

/// Tags of the parts of a file.
const PACKAGE: u32 = 1;
pub(super) const MESSAGE: u32 = 2;
pub(super) const ENUM: u32 = 3;
const SERVICE: u32 = 4;
const EXTENSION: u32 = 5;
const OPTIONS: u32 = 6;
const UTF8: u32 = 7;
const JSON: u32 = 8;

impl Encoder<'_> {
    /// Encodes the options of a file, and the features that apply to all of it.
    pub(super) fn file(&self, file: &File) -> Vec<u8> {
        // VERIFY and ALLOW; the proto2 defaults are NONE and LEGACY_BEST_EFFORT.
        let (utf8, json) = match file.syntax {
            Syntax::Proto2 => (3, 2),
            Syntax::Proto3 | Syntax::Edition(_) => (2, 1),
        };
        let mut node = CanonicalNode::default();
        node.text(PACKAGE, &file.package);
        node.optional(OPTIONS, &self.options(&file.options));
        node.number(
            UTF8,
            options::file_feature(&file.options, 4).unwrap_or(utf8),
        );
        node.number(
            JSON,
            options::file_feature(&file.options, 6).unwrap_or(json),
        );
        node.finish()
    }

    /// Encodes the elements of a file, nested ones included, sorted by tag and full name.
    pub(super) fn elements(&self, file: &File, extensions: &[&Extension]) -> Vec<Element> {
        let tree = self.tree;
        let messages = messages_of(tree, &file.messages);
        let nested = messages.iter().flat_map(|id| &tree[*id].enums);
        let mut all: Vec<Element> = Vec::new();
        all.extend(file.enums.iter().chain(nested).map(|id| {
            let of = &tree[*id];
            (ENUM, of.name.clone(), self.enumeration(of))
        }));
        all.extend(messages.iter().map(|id| {
            let of = &tree[*id];
            (MESSAGE, of.name.clone(), self.message(of))
        }));
        all.extend(file.services.iter().map(|id| {
            let of = &tree[*id];
            (SERVICE, of.name.clone(), self.service(of))
        }));
        all.extend(
            extensions
                .iter()
                .map(|of| (EXTENSION, of.name.clone(), self.extension(of))),
        );
        all.sort_unstable();
        all
    }

    pub(super) fn message(&self, message: &Message) -> Vec<u8> {
        let mut node = CanonicalNode::default();
        node.text(1, &message.name);
        let mut fields: Vec<&Field> = message.fields.iter().collect();
        fields.sort_unstable_by_key(|field| field.number);
        node.all(
            2,
            fields
                .into_iter()
                .map(|field| self.field(Some(message), field)),
        );
        let mut oneofs: Vec<Vec<u8>> = message
            .oneofs
            .iter()
            .map(|oneof| {
                let mut node = CanonicalNode::default();
                node.text(1, &oneof.name);
                node.optional(2, &self.options(&oneof.options));
                node.finish()
            })
            .collect();
        oneofs.sort_unstable();
        node.all(3, oneofs);
        node.all(4, ranges(&message.reserved.numbers));
        node.all(5, names(&message.reserved.names));
        node.all(6, ranges(&message.extension_ranges));
        node.optional(7, &self.options(&message.options));
        node.finish()
    }

    fn field(&self, message: Option<&Message>, field: &Field) -> Vec<u8> {
        let mut node = CanonicalNode::default();
        node.number(1, field.number);
        node.text(2, &field.name);
        // An explicit JSON name equal to the default does not count (V-24).
        if *field.json_name != *json_name(&field.name) {
            node.text(3, &field.json_name);
        }
        match self.tree.map_entry(field) {
            Some((key, value)) => {
                node.optional(11, &self.kind(key.kind));
                node.optional(12, &self.kind(value.kind));
            }
            None => node.optional(4, &self.kind(field.kind)),
        }
        node.number(5, field.cardinality as i32);
        node.flag(6, field.packed);
        if let Some(oneof) = field.oneof.and_then(|index| message?.oneofs.get(index)) {
            node.text(7, &oneof.name);
        }
        if let Some(default) = &field.default {
            node.text(8, default);
        }
        node.optional(9, &self.options(&field.options));
        node.finish()
    }

    fn kind(&self, kind: Kind) -> Vec<u8> {
        let mut node = CanonicalNode::default();
        match kind {
            Kind::Scalar(scalar) => node.text(1, scalar.keyword()),
            Kind::Message(id) => node.text(2, &self.tree[id].name),
            Kind::Group(id) => node.text(3, &self.tree[id].name),
            Kind::Enum(id) => node.text(4, &self.tree[id].name),
        }
        node.finish()
    }

    pub(super) fn enumeration(&self, of: &Enum) -> Vec<u8> {
        let mut node = CanonicalNode::default();
        node.text(1, &of.name);
        let mut values: Vec<_> = of.values.iter().collect();
        values.sort_unstable_by(|a, b| (a.number, &a.name).cmp(&(b.number, &b.name)));
        node.all(
            2,
            values.into_iter().map(|value| {
                let mut node = CanonicalNode::default();
                node.number(1, value.number);
                node.text(2, &value.name);
                node.optional(3, &self.options(&value.options));
                node.finish()
            }),
        );
        node.all(3, ranges(&of.reserved.numbers));
        node.all(4, names(&of.reserved.names));
        node.flag(5, of.closed);
        node.optional(6, &self.options(&of.options));
        node.finish()
    }

    pub(super) fn service(&self, service: &Service) -> Vec<u8> {
        let mut node = CanonicalNode::default();
        node.text(1, &service.name);
        let mut methods: Vec<&Method> = service.methods.iter().collect();
        methods.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        node.all(
            2,
            methods.into_iter().map(|method| {
                let mut node = CanonicalNode::default();
                node.text(1, &method.name);
                node.text(2, &self.tree[method.input].name);
                node.text(3, &self.tree[method.output].name);
                node.flag(4, method.client_streaming);
                node.flag(5, method.server_streaming);
                node.optional(6, &self.options(&method.options));
                node.finish()
            }),
        );
        node.optional(3, &self.options(&service.options));
        node.finish()
    }

    pub(super) fn extension(&self, extension: &Extension) -> Vec<u8> {
        let mut node = CanonicalNode::default();
        node.text(1, &extension.name);
        node.text(2, &self.tree[extension.extendee].name);
        node.bytes(3, &self.field(None, &extension.field));
        node.finish()
    }

    fn options(&self, options: &Options) -> Vec<u8> {
        if self.options {
            options::canonical(options, self.version_option)
        } else {
            Vec::new()
        }
    }
}

/// Encodes ranges, merged and sorted.
fn ranges(ranges: &[NumberRange]) -> Vec<Vec<u8>> {
    let mut sorted = ranges.to_vec();
    sorted.sort_unstable();
    let mut merged: Vec<NumberRange> = Vec::with_capacity(sorted.len());
    for range in sorted {
        match merged.last_mut() {
            Some(last) if range.first <= last.last.saturating_add(1) => {
                last.last = last.last.max(range.last);
            }
            _ => merged.push(range),
        }
    }
    let node = |range: NumberRange| {
        let mut node = CanonicalNode::default();
        node.number(1, range.first);
        node.number(2, range.last);
        node.finish()
    };
    merged.into_iter().map(node).collect()
}

fn names(names: &[Name]) -> Vec<Vec<u8>> {
    let mut sorted: Vec<Vec<u8>> = names.iter().map(|name| name.as_bytes().to_vec()).collect();
    sorted.sort_unstable();
    sorted.dedup();
    sorted
}

/// Returns messages with all their nested messages, except map entries.
pub(super) fn messages_of(tree: &Tree, top: &[MessageId]) -> Vec<MessageId> {
    let mut all = Vec::new();
    let mut left: Vec<MessageId> = top.to_vec();
    while let Some(id) = left.pop() {
        if !tree[id].map_entry {
            all.push(id);
            left.extend(&tree[id].messages);
        }
    }
    all
}
