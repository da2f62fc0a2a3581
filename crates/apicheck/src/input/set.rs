//! Descriptor sets, as `protoc --descriptor_set_out` and `buf build` write them.

use std::collections::HashMap;
use std::path::Path;

use prost::Message as _;
use prost::bytes::Bytes;
use prost_reflect::{DescriptorPool, DeserializeOptions, DynamicMessage, Value};
use prost_types::{FileDescriptorProto, FileDescriptorSet};

use super::Options;
use super::failure::{Failure, Unusable};
use super::listing::unreadable;
use super::modules::is_below;
use crate::model::{Name, Syntax, Tree};
use crate::parse::Draft;

const SET: &str = "google.protobuf.FileDescriptorSet";

/// Reads a set: binary, or JSON when the file is named so.
pub(super) fn load(path: &Path, options: &Options) -> Result<Tree, Failure> {
    let bytes = std::fs::read(path).map_err(|error| unreadable(path, &error))?;
    let bytes = match path.extension().is_some_and(|ending| ending == "json") {
        true => from_json(&bytes).map_err(|why| Unusable::BrokenSet {
            path: path.to_owned(),
            why,
        })?,
        false => bytes,
    };
    tree(&bytes, path, options)
}

/// The tree of an encoded set, shown as from the file `path`.
pub(super) fn tree(bytes: &[u8], path: &Path, options: &Options) -> Result<Tree, Failure> {
    let broken = |why: String| Unusable::BrokenSet {
        path: path.to_owned(),
        why,
    };
    let set = FileDescriptorSet::decode(bytes).map_err(|error| broken(error.to_string()))?;
    if set.file.is_empty() {
        return Err(broken("it holds no file".to_owned()).into());
    }
    let mut drafts = Vec::with_capacity(set.file.len());
    for (proto, more) in set.file.into_iter().zip(more_of(bytes).map_err(broken)?) {
        let name = proto.name().to_owned();
        let below = |paths: &[String]| paths.iter().any(|path| is_below(&name, path));
        let built_in = name.starts_with("google/protobuf/");
        drafts.push(Draft {
            target: !built_in
                && (options.paths.is_empty() || below(&options.paths))
                && !below(&options.excludes),
            root: Name::default(),
            syntax: syntax(&proto, more.edition).map_err(broken)?,
            options: more.options,
            display: format!("{}:{name}", path.display()).into(),
            text: None,
            proto,
        });
    }
    Tree::build(drafts).map_err(Failure::Mistakes)
}

/// The language level of a file. `EDITION_2023` is 1000, each edition one more.
fn syntax(proto: &FileDescriptorProto, edition: i32) -> Result<Syntax, String> {
    match (proto.syntax(), edition) {
        ("" | "proto2", _) => Ok(Syntax::Proto2),
        ("proto3", _) => Ok(Syntax::Proto3),
        ("editions", 1000 | 1001) => Ok(Syntax::Edition(edition - 1000 + 2023)),
        ("editions", other) => Err(format!(
            "{}: edition {other} of google.protobuf.Edition is not known, only 2023 and 2024",
            proto.name()
        )),
        (other, _) => Err(format!("{}: syntax {other:?} is not known", proto.name())),
    }
}

/// What of a file the types of `prost-types` do not hold.
#[derive(Debug, Default)]
struct More {
    /// As in `google.protobuf.Edition`; zero when it is not set.
    edition: i32,
    /// The bytes of all options by their path: a generic reading keeps the extensions.
    options: HashMap<Vec<i32>, Bytes>,
}

fn from_json(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let descriptor = descriptor()?;
    // Tools write options of extensions that nobody can know here; they are dropped, not refused.
    let options = DeserializeOptions::new().deny_unknown_fields(false);
    let set = DynamicMessage::deserialize_with_options(descriptor, &mut json, &options)
        .map_err(|error| error.to_string())?;
    Ok(set.encode_to_vec())
}

fn descriptor() -> Result<prost_reflect::MessageDescriptor, String> {
    let pool = DescriptorPool::global();
    pool.get_message_by_name(SET)
        .ok_or_else(|| format!("{SET} is unknown"))
}

/// What else a set says of each of its files.
fn more_of(bytes: &[u8]) -> Result<Vec<More>, String> {
    let set = DynamicMessage::decode(descriptor()?, bytes).map_err(|error| error.to_string())?;
    let Some(files) = set.get_field_by_name("file") else {
        return Ok(Vec::new());
    };
    let files = files.as_list().into_iter().flatten();
    let more = files.filter_map(Value::as_message).map(|file| {
        let mut more = More::default();
        let edition = file.get_field_by_name("edition");
        more.edition = edition
            .and_then(|edition| edition.as_enum_number())
            .unwrap_or(0);
        collect(file, &mut Vec::new(), &mut more.options);
        more
    });
    Ok(more.collect())
}

fn collect(message: &DynamicMessage, path: &mut Vec<i32>, options: &mut HashMap<Vec<i32>, Bytes>) {
    for (field, value) in message.fields() {
        path.push(field.number() as i32);
        match value {
            Value::Message(message) if field.name() == "options" => {
                options.insert(path.clone(), message.encode_to_vec().into());
            }
            Value::List(list) if field.name() != "location" => {
                for (index, element) in list.iter().enumerate() {
                    if let Value::Message(element) = element {
                        path.push(index as i32);
                        collect(element, path, options);
                        path.pop();
                    }
                }
            }
            _ => {}
        }
        path.pop();
    }
}
