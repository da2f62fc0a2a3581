//! Descriptor sets, as written by `protoc --descriptor_set_out` and `buf build`.

use std::collections::HashMap;
use std::path::Path;

use prost::Message as _;
use prost::bytes::Bytes;
use prost_reflect::{DescriptorPool, DeserializeOptions, DynamicMessage, Value};
use prost_types::{FileDescriptorProto, FileDescriptorSet};

use super::failure::{Failure, Unusable, not_regular, unreadable};
use super::source::LoadOptions;
use crate::model::{Name, Syntax, Tree};
use crate::parse::Draft;
use crate::paths::is_below;

const SET: &str = "google.protobuf.FileDescriptorSet";

/// Reads a set: JSON if the file name ends with `.json`, otherwise binary.
pub(super) fn load(path: &Path, options: &LoadOptions) -> Result<Tree, Failure> {
    if std::fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return Err(not_regular(path).into());
    }
    let bytes = std::fs::read(path).map_err(|error| unreadable(path, &error))?;
    let bytes = if path.extension().is_some_and(|ending| ending == "json") {
        from_json(&bytes).map_err(|why| Unusable::BrokenSet {
            path: path.to_owned(),
            why,
        })?
    } else {
        bytes
    };
    tree(&bytes, path, options)
}

/// Builds the tree of an encoded set. `path` is used for display and errors.
pub(super) fn tree(bytes: &[u8], path: &Path, options: &LoadOptions) -> Result<Tree, Failure> {
    let broken = |why: String| Unusable::BrokenSet {
        path: path.to_owned(),
        why,
    };
    let set = FileDescriptorSet::decode(bytes).map_err(|error| broken(error.to_string()))?;
    if set.file.is_empty() {
        return Err(broken("it contains no file".to_owned()).into());
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
            is_built_in: false,
            proto,
        });
    }
    Tree::build(drafts).map_err(Failure::Compile)
}

/// Returns the language level of a file. `EDITION_2023` has the number 1000, and each later edition
/// the next number.
fn syntax(proto: &FileDescriptorProto, edition: i32) -> Result<Syntax, String> {
    match (proto.syntax(), edition) {
        ("" | "proto2", _) => Ok(Syntax::Proto2),
        ("proto3", _) => Ok(Syntax::Proto3),
        ("editions", 1000 | 1001) => Ok(Syntax::Edition(edition - 1000 + 2023)),
        ("editions", other) => Err(format!(
            "{}: unknown edition {other} of google.protobuf.Edition: expected 2023 or 2024",
            proto.name()
        )),
        (other, _) => Err(format!("{}: unknown syntax {other:?}", proto.name())),
    }
}

/// Data of a file that the types of `prost-types` lack.
#[derive(Debug, Default)]
struct More {
    /// Number in `google.protobuf.Edition`; zero if unset.
    edition: i32,
    /// Encoded options by path. The generic decoder keeps their extensions.
    options: HashMap<Vec<i32>, Bytes>,
}

fn from_json(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let descriptor = descriptor()?;
    // Files can have options of extensions that are unknown here; they are dropped.
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

/// Reads the additional data of each file of a set.
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
