//! Our messages against the released `.proto` files: name, number, type and label of every field and every enum value.
//!
//! Ours are read from their source, where `prost`'s attributes have it all.

use std::collections::BTreeMap;
use std::path::Path;

use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, EnumDescriptorProto, FileDescriptorProto};
use syn::{Fields, Item, ItemEnum, ItemStruct};

use super::Scenario;
use super::shared::equal;
use crate::{Context, Fallible};

/// The released files, below the folder of the peers.
const RELEASED: [&str; 3] = ["rpc.proto", "kv.proto", "auth.proto"];

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![Scenario::new(
        "etcd_messages_agree_with_the_released_protos".to_owned(),
        messages,
    )]
}

async fn messages(cx: Context) -> Fallible {
    let mut released = Released::default();
    for file in RELEASED {
        let source = std::fs::read_to_string(cx.programs.etcd.protos.join(file))
            .map_err(|error| format!("{file}: {error}"))?;
        released.add(&protox_parse::parse(file, &source)?);
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/types/src/etcd");
    let mut ours = Ours::default();
    for entry in std::fs::read_dir(&folder)? {
        let source = std::fs::read_to_string(entry?.path())?;
        ours.add(&syn::parse_file(&source)?.items)?;
    }

    let mut faults = Vec::new();
    let mut compared = 0;
    for (message, fields) in &ours.messages {
        let Some(released) = released.messages.get(message) else {
            faults.push(format!("{message}: not released"));
            continue;
        };
        for field in fields {
            compared += 1;
            match released.get(&field.number) {
                Some(other) if field.agrees_with(other) => {}
                other => faults.push(format!("{message}: {field:?}, released {other:?}")),
            }
        }
    }
    for (name, values) in &ours.enums {
        let found = released.enums.get(name);
        for (value, number) in values {
            compared += 1;
            if found.and_then(|found| found.get(value)) != Some(number) {
                faults.push(format!("{name}: {value} = {number}, released {found:?}"));
            }
        }
    }
    equal("faults", faults, Vec::new())?;
    // Should the attributes change their form, nothing would be compared.
    if ours.messages.len() >= 34 && ours.enums.len() == 5 && compared >= 120 {
        Ok(())
    } else {
        let (messages, enums) = (ours.messages.len(), ours.enums.len());
        Err(format!("only {messages} messages, {enums} enums, {compared} fields").into())
    }
}

/// Name, number and type of a field. Names are compared without case and underscores, as `dbSize` and `db_size` or `ID`
/// and `id`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Field {
    name: String,
    number: i32,
    is_repeated: bool,
    /// A scalar type as protobuf names it, or the last part of the name of a message or an enum.
    r#type: String,
}

impl Field {
    fn agrees_with(&self, released: &Self) -> bool {
        // The variants of our unions have no `request_` and `response_` in front.
        released.name.contains(&self.name)
            && self.is_repeated == released.is_repeated
            && self.r#type == released.r#type
    }
}

fn plain(name: &str) -> String {
    let name = name.trim_start_matches("r#").replace('_', "");
    name.to_lowercase()
}

#[derive(Default)]
struct Released {
    messages: BTreeMap<String, BTreeMap<i32, Field>>,
    enums: BTreeMap<String, BTreeMap<String, i32>>,
}

impl Released {
    fn add(&mut self, file: &FileDescriptorProto) {
        for message in &file.message_type {
            self.add_message(message);
        }
        for r#enum in &file.enum_type {
            self.add_enum(r#enum);
        }
    }

    fn add_message(&mut self, message: &DescriptorProto) {
        let fields = message.field.iter().map(|field| {
            // The types of names are not resolved.
            let named = field.type_name().rsplit('.').next().unwrap_or_default();
            let r#type = match named {
                "" => scalar(field.r#type()).to_owned(),
                named => named.to_owned(),
            };
            let field = Field {
                name: plain(field.name()),
                number: field.number(),
                is_repeated: field.label() == Label::Repeated,
                r#type,
            };
            (field.number, field)
        });
        self.messages
            .insert(message.name().to_owned(), fields.collect());
        for r#enum in &message.enum_type {
            self.add_enum(r#enum);
        }
        for nested in &message.nested_type {
            self.add_message(nested);
        }
    }

    fn add_enum(&mut self, r#enum: &EnumDescriptorProto) {
        let values = r#enum.value.iter();
        let values = values.map(|value| (plain(value.name()), value.number()));
        self.enums
            .insert(r#enum.name().to_owned(), values.collect());
    }
}

fn scalar(r#type: Type) -> &'static str {
    match r#type {
        Type::Int64 => "int64",
        Type::Uint64 => "uint64",
        Type::Int32 => "int32",
        Type::Uint32 => "uint32",
        Type::Bool => "bool",
        Type::String => "string",
        Type::Bytes => "bytes",
        _ => "a type that etcd's API does not use",
    }
}

#[derive(Default)]
struct Ours {
    messages: BTreeMap<String, Vec<Field>>,
    enums: BTreeMap<String, BTreeMap<String, i32>>,
}

impl Ours {
    fn add(&mut self, items: &[Item]) -> Fallible {
        let unions: BTreeMap<_, _> = items
            .iter()
            .filter_map(|item| match item {
                Item::Enum(item) if derives(&item.attrs, "Oneof") => {
                    Some((item.ident.to_string(), item))
                }
                _ => None,
            })
            .collect();
        for item in items {
            match item {
                Item::Struct(item) if derives(&item.attrs, "Message") => {
                    let fields = fields(item, &unions)?;
                    self.messages.insert(item.ident.to_string(), fields);
                }
                Item::Enum(item) if derives(&item.attrs, "Enumeration") => {
                    self.enums.insert(item.ident.to_string(), values(item)?);
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn derives(attributes: &[syn::Attribute], name: &str) -> bool {
    attributes.iter().any(|attribute| {
        let list = attribute.meta.require_list();
        attribute.path().is_ident("derive")
            && list.is_ok_and(|list| list.tokens.to_string().contains(name))
    })
}

fn values(item: &ItemEnum) -> Fallible<BTreeMap<String, i32>> {
    let value = |variant: &syn::Variant| {
        let Some((_, syn::Expr::Lit(literal))) = &variant.discriminant else {
            return Err(format!("{}::{} has no number", item.ident, variant.ident).into());
        };
        let syn::Lit::Int(number) = &literal.lit else {
            return Err(format!("{}::{} has no number", item.ident, variant.ident).into());
        };
        Ok((plain(&variant.ident.to_string()), number.base10_parse()?))
    };
    item.variants.iter().map(value).collect()
}

fn fields(item: &ItemStruct, unions: &BTreeMap<String, &ItemEnum>) -> Fallible<Vec<Field>> {
    let mut found = Vec::new();
    for field in &item.fields {
        let name = field
            .ident
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default();
        let attribute = Attribute::read(&field.attrs)?;
        match &attribute.union {
            None => found.push(attribute.field(&name, &field.ty)?),
            Some(union) => {
                let union = unions
                    .get(union)
                    .ok_or_else(|| format!("no union {union}"))?;
                for variant in &union.variants {
                    let Fields::Unnamed(content) = &variant.fields else {
                        return Err(format!("{} has no content", variant.ident).into());
                    };
                    let Some(content) = content.unnamed.first() else {
                        return Err(format!("{} has no content", variant.ident).into());
                    };
                    let name = variant.ident.to_string();
                    found.push(Attribute::read(&variant.attrs)?.field(&name, &content.ty)?);
                }
            }
        }
    }
    Ok(found)
}

/// The words of `#[prost(…)]`.
struct Attribute {
    kind: String,
    is_repeated: bool,
    number: Option<i32>,
    union: Option<String>,
}

impl Attribute {
    fn read(attributes: &[syn::Attribute]) -> Fallible<Self> {
        let prost = attributes
            .iter()
            .find(|attribute| attribute.path().is_ident("prost"));
        let prost = prost.ok_or("a field has no attribute of prost")?;
        let text = prost.meta.require_list()?.tokens.to_string();
        let mut words = text.split(',').map(str::trim);
        let first = words.next().unwrap_or_default();
        let (kind, named) = first.split_once('=').unwrap_or((first, ""));
        let (kind, named) = (kind.trim(), named.trim().trim_matches('"'));
        let mut read = Self {
            kind: match kind {
                "enumeration" => named.to_owned(),
                kind => kind.to_owned(),
            },
            is_repeated: false,
            number: None,
            union: (kind == "oneof").then(|| named.to_owned()),
        };
        for word in words {
            match word.split_once('=') {
                None => read.is_repeated |= word == "repeated",
                Some((key, value)) if key.trim() == "tag" => {
                    read.number = Some(value.trim().trim_matches('"').parse()?);
                }
                Some(_) => {}
            }
        }
        Ok(read)
    }

    fn field(&self, name: &str, r#type: &syn::Type) -> Fallible<Field> {
        let r#type = match self.kind.as_str() {
            "message" => innermost(r#type).ok_or_else(|| format!("{name} has no type"))?,
            kind => kind.to_owned(),
        };
        Ok(Field {
            name: plain(name),
            number: self.number.ok_or_else(|| format!("{name} has no tag"))?,
            is_repeated: self.is_repeated,
            r#type,
        })
    }
}

/// Returns the name of the innermost type, as `Event` in `Vec<Event>`.
fn innermost(r#type: &syn::Type) -> Option<String> {
    let syn::Type::Path(path) = r#type else {
        return None;
    };
    let last = path.path.segments.last()?;
    let syn::PathArguments::AngleBracketed(arguments) = &last.arguments else {
        return Some(last.ident.to_string());
    };
    match arguments.args.first()? {
        syn::GenericArgument::Type(inner) => innermost(inner),
        _ => None,
    }
}
