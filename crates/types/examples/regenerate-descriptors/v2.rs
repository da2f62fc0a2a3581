//! Makes the descriptors of API v2 from the protos of the crate `data-plane-api`.

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

/// Manifest whose lock file has the crate. No other package here needs the crate, and it does not build alone.
const LOCK: &str = "../../interop/peers/trees/Cargo.toml";
/// Import roots in the crate.
const ROOTS: &[&str] = &[
    "data-plane-api",
    "xds",
    "googleapis",
    "protoc-gen-validate",
    "client_model",
    "opencensus-proto/src",
];

/// Returns the files of v2 and their imports that `base` lacks, without options. Validation rules are removed too: v2
/// is read as v3 and validated by the rules of v3.
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

/// Returns whether a file belongs to v2, by its folder: `envoy/type/percent.proto` does, `envoy/type/v3/percent.proto`
/// does not.
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
    /// In an order in which each file comes after its imports.
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
    // The default is the name in lowerCamelCase.
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
