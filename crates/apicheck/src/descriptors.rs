//! A tree as a `google.protobuf.FileDescriptorSet`, for reflection: messages, enums and extensions, with all options.
//!
//! Names are resolved, and options keep their extensions, which the types of `prost` would drop. Services, comments and
//! reserved numbers are left out. A file of an edition is written as proto2, whose labels and groups express the same
//! encoding, apart from a presence that only writers see.

use prost::encoding::{WireType, encode_key, encode_varint};

use crate::model::{
    Cardinality, Enum, Extension, Field, File, ImportMode, Kind, Message, Options, Scalar, Syntax,
    Tree,
};

/// Returns the encoded `google.protobuf.FileDescriptorSet` of a tree, imports before their importers.
///
/// ```
/// use oxds_apicheck::descriptors::descriptor_set;
/// use oxds_apicheck::model::Tree;
///
/// let text = "syntax = \"proto3\"; package shop.v1; message Order { string id = 1; }";
/// let tree = Tree::parse([("shop/v1/order.proto", text)]).unwrap();
/// let pool = prost_reflect::DescriptorPool::decode(&*descriptor_set(&tree)).unwrap();
/// let order = pool.get_message_by_name("shop.v1.Order").unwrap();
/// assert_eq!(order.get_field(1).unwrap().name(), "id");
/// ```
#[must_use]
pub fn descriptor_set(tree: &Tree) -> Vec<u8> {
    let mut set = Vec::new();
    for file in &tree.files {
        put(1, &file_proto(tree, file), &mut set);
    }
    set
}

fn file_proto(tree: &Tree, file: &File) -> Vec<u8> {
    let mut out = Vec::new();
    text(1, &file.path, &mut out);
    if !file.package.is_empty() {
        text(2, &file.package, &mut out);
    }
    for (index, import) in file.imports.iter().enumerate() {
        text(3, &tree[import.file].path, &mut out);
        if import.mode == ImportMode::Public {
            number(10, index as u64, &mut out);
        }
    }
    for id in &file.messages {
        put(4, &message_proto(tree, &tree[*id], file.syntax), &mut out);
    }
    for id in &file.enums {
        put(5, &enum_proto(&tree[*id]), &mut out);
    }
    for extension in tree
        .extensions
        .iter()
        .filter(|one| one.file == file.id && one.parent.is_none())
    {
        put(7, &extension_proto(tree, extension), &mut out);
    }
    options(8, &file.options, &mut out);
    if file.syntax == Syntax::Proto3 {
        text(12, "proto3", &mut out);
    }
    out
}

fn message_proto(tree: &Tree, message: &Message, syntax: Syntax) -> Vec<u8> {
    let mut out = Vec::new();
    text(1, message.short_name(), &mut out);
    // proto3 `optional` fields have synthetic oneofs, which come after the others.
    let mut synthetic = Vec::new();
    for field in &message.fields {
        let is_optional = syntax == Syntax::Proto3
            && field.cardinality == Cardinality::Explicit
            && field.oneof.is_none()
            && matches!(field.kind, Kind::Scalar(_) | Kind::Enum(_));
        let oneof = if is_optional {
            synthetic.push(format!("_{}", field.name));
            Some(message.oneofs.len() + synthetic.len() - 1)
        } else {
            field.oneof
        };
        let mut proto = field_proto(tree, field);
        if let Some(oneof) = oneof {
            number(9, oneof as u64, &mut proto);
        }
        if is_optional {
            number(17, 1, &mut proto);
        }
        put(2, &proto, &mut out);
    }
    for id in &message.messages {
        put(3, &message_proto(tree, &tree[*id], syntax), &mut out);
    }
    for id in &message.enums {
        put(4, &enum_proto(&tree[*id]), &mut out);
    }
    for range in &message.extension_ranges {
        let mut proto = Vec::new();
        number(1, signed(range.first), &mut proto);
        // The end is not part of the range.
        number(2, signed(range.last.saturating_add(1)), &mut proto);
        put(5, &proto, &mut out);
    }
    let own = tree
        .extensions
        .iter()
        .filter(|one| one.parent == Some(message.id));
    for extension in own {
        put(6, &extension_proto(tree, extension), &mut out);
    }
    message_options(message, &mut out);
    for oneof in &message.oneofs {
        let mut proto = Vec::new();
        text(1, &oneof.name, &mut proto);
        options(2, &oneof.options, &mut proto);
        put(8, &proto, &mut out);
    }
    for name in synthetic {
        let mut proto = Vec::new();
        text(1, &name, &mut proto);
        put(8, &proto, &mut out);
    }
    out
}

fn message_options(message: &Message, out: &mut Vec<u8>) {
    let mut encoded = encoded(&message.options);
    if message.map_entry && !message.options.is_true("map_entry") {
        number(7, 1, &mut encoded);
    }
    if !encoded.is_empty() {
        put(7, &encoded, out);
    }
}

fn field_proto(tree: &Tree, field: &Field) -> Vec<u8> {
    let mut out = Vec::new();
    text(1, &field.name, &mut out);
    number(3, signed(field.number), &mut out);
    let label = match field.cardinality {
        Cardinality::Implicit | Cardinality::Explicit => 1,
        Cardinality::Required => 2,
        Cardinality::Repeated | Cardinality::Map => 3,
    };
    number(4, label, &mut out);
    let (code, name) = match field.kind {
        Kind::Scalar(scalar) => (scalar_code(scalar), None),
        Kind::Group(id) => (10, Some(&tree[id].name)),
        Kind::Message(id) => (11, Some(&tree[id].name)),
        Kind::Enum(id) => (14, Some(&tree[id].name)),
    };
    number(5, code, &mut out);
    if let Some(name) = name {
        text(6, &format!(".{name}"), &mut out);
    }
    if let Some(default) = &field.default {
        text(7, default, &mut out);
    }
    options(8, &field.options, &mut out);
    text(10, &field.json_name, &mut out);
    out
}

fn extension_proto(tree: &Tree, extension: &Extension) -> Vec<u8> {
    let mut out = field_proto(tree, &extension.field);
    text(2, &format!(".{}", tree[extension.extendee].name), &mut out);
    out
}

fn enum_proto(of: &Enum) -> Vec<u8> {
    let mut out = Vec::new();
    text(1, of.short_name(), &mut out);
    for value in &of.values {
        let mut proto = Vec::new();
        text(1, &value.name, &mut proto);
        number(2, signed(value.number), &mut proto);
        options(3, &value.options, &mut proto);
        put(2, &proto, &mut out);
    }
    options(3, &of.options, &mut out);
    out
}

/// Returns the number of a type in `google.protobuf.FieldDescriptorProto.Type`.
fn scalar_code(scalar: Scalar) -> u64 {
    match scalar {
        Scalar::Double => 1,
        Scalar::Float => 2,
        Scalar::Int64 => 3,
        Scalar::Uint64 => 4,
        Scalar::Int32 => 5,
        Scalar::Fixed64 => 6,
        Scalar::Fixed32 => 7,
        Scalar::Bool => 8,
        Scalar::String => 9,
        Scalar::Bytes => 12,
        Scalar::Uint32 => 13,
        Scalar::Sfixed32 => 15,
        Scalar::Sfixed64 => 16,
        Scalar::Sint32 => 17,
        Scalar::Sint64 => 18,
    }
}

fn encoded(options: &Options) -> Vec<u8> {
    options
        .message()
        .map(prost::Message::encode_to_vec)
        .unwrap_or_default()
}

fn options(field: u32, options: &Options, out: &mut Vec<u8>) {
    let encoded = encoded(options);
    if !encoded.is_empty() {
        put(field, &encoded, out);
    }
}

/// Returns a 32-bit number as a varint has it: negative ones are extended to 64 bits.
fn signed(value: i32) -> u64 {
    i64::from(value) as u64
}

fn number(field: u32, value: u64, out: &mut Vec<u8>) {
    encode_key(field, WireType::Varint, out);
    encode_varint(value, out);
}

fn text(field: u32, value: &str, out: &mut Vec<u8>) {
    put(field, value.as_bytes(), out);
}

fn put(field: u32, body: &[u8], out: &mut Vec<u8>) {
    encode_key(field, WireType::LengthDelimited, out);
    encode_varint(body.len() as u64, out);
    out.extend_from_slice(body);
}
