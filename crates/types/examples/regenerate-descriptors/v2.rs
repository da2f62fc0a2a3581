//! The v2 API as descriptors, from the protos of the crate `data-plane-api`.

use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use prost::Message as _;
use prost_reflect::DescriptorPool;
use prost_reflect::prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FieldOptions, FileDescriptorProto,
    FileDescriptorSet, MessageOptions,
};

use super::generate::{here, source};

/// Its neighbour locks the crate: nothing else here needs it, and it does not build by itself.
const LOCK: &str = "../../interop/peers/trees/Cargo.toml";
/// Where the crate keeps what its protos import.
const ROOTS: &[&str] = &[
    "data-plane-api",
    "xds",
    "googleapis",
    "protoc-gen-validate",
    "client_model",
    "opencensus-proto/src",
];

/// The files of v2 and what they import, as far as `base` lacks them, without what only
/// generators of code want to know. The rules in the options go, too: v2 is read as v3, whose
/// rules hold.
pub(crate) fn generate(base: &DescriptorPool) -> Result<Vec<u8>, Box<dyn Error>> {
    let source = source(&here(LOCK), "data-plane-api")?;
    let mut files = Files {
        source: &source,
        pool: base.clone(),
        added: Vec::new(),
        seen: BTreeSet::new(),
    };
    let root = source.join(ROOTS[0]);
    for path in protos(&root.join("envoy"))? {
        let name = path
            .strip_prefix(&root)?
            .to_str()
            .ok_or("a name that is not UTF-8")?;
        if is_v2(name) {
            files.add(name)?;
        }
    }
    let file = files
        .added
        .iter()
        .filter_map(|name| files.pool.get_file_by_name(name))
        .map(|file| stripped(file.file_descriptor_proto()))
        .collect();
    Ok(FileDescriptorSet { file }.encode_to_vec())
}

/// By the folder: `envoy/type/percent.proto` is of v2, `envoy/type/v3/percent.proto` is not.
fn is_v2(name: &str) -> bool {
    let later = |folder: &str| folder.starts_with("v3") || folder.starts_with("v4");
    !name.split('/').any(later) && !name.starts_with("envoy/annotations/")
}

fn protos(folder: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(protos(&path)?);
        } else if path
            .extension()
            .is_some_and(|extension| extension == "proto")
        {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

struct Files<'a> {
    source: &'a Path,
    pool: DescriptorPool,
    /// In an order in which each comes after what it imports.
    added: Vec<String>,
    seen: BTreeSet<String>,
}

impl Files<'_> {
    fn add(&mut self, name: &str) -> Result<(), Box<dyn Error>> {
        let known = self.pool.get_file_by_name(name).is_some();
        if known || !self.seen.insert(name.to_owned()) {
            return Ok(());
        }
        let mut paths = ROOTS.iter().map(|root| self.source.join(root).join(name));
        let path = paths.find(|path| path.exists());
        let text = fs::read_to_string(path.ok_or_else(|| format!("no {name}"))?)?;
        let file = protox_parse::parse(name, &text)?;
        for import in &file.dependency {
            self.add(import)?;
        }
        self.pool.add_file_descriptor_proto(file)?;
        self.added.push(name.to_owned());
        Ok(())
    }
}

fn stripped(file: &FileDescriptorProto) -> FileDescriptorProto {
    let mut file = file.clone();
    file.source_code_info = None;
    file.options = None;
    file.message_type.iter_mut().for_each(strip_message);
    file.enum_type.iter_mut().for_each(strip_enum);
    for service in &mut file.service {
        service.options = None;
        service.method.iter_mut().for_each(|m| m.options = None);
    }
    file
}

fn strip_message(message: &mut DescriptorProto) {
    if !message
        .options
        .as_ref()
        .is_some_and(MessageOptions::map_entry)
    {
        message.options = None;
    }
    message.field.iter_mut().for_each(strip_field);
    message
        .oneof_decl
        .iter_mut()
        .for_each(|oneof| oneof.options = None);
    message.nested_type.iter_mut().for_each(strip_message);
    message.enum_type.iter_mut().for_each(strip_enum);
}

fn strip_field(field: &mut FieldDescriptorProto) {
    // By default it is the name in camel case.
    field.json_name = None;
    field.options = field
        .options
        .as_ref()
        .filter(|options| options.packed.is_some())
        .map(|options| FieldOptions {
            packed: options.packed,
            ..FieldOptions::default()
        });
}

fn strip_enum(of: &mut EnumDescriptorProto) {
    of.options = None;
    of.value.iter_mut().for_each(|value| value.options = None);
}
