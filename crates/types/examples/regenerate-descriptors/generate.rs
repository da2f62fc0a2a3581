//! Makes the descriptor file of `oxds-types` from the locked `envoy-types`.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use prost_reflect::prost::Message as _;
use prost_reflect::prost_types::field_descriptor_proto::{Label, Type};
use prost_reflect::prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorProto};

/// Number of the field `FileDescriptorSet.file`.
const FILE: u64 = 1;
/// `FileDescriptorProto.source_code_info`: comments and positions, 80 % of the data.
const SOURCE_CODE_INFO: u64 = 9;
const VARINT: u64 = 0;
const LENGTH_DELIMITED: u64 = 2;

/// Returns the descriptor set of `envoy-types`, without source information, and the messages of [`TYPED_STRUCTS`].
pub(crate) fn generate() -> Result<Vec<u8>, Box<dyn Error>> {
    let source = source(&here("Cargo.toml"), "envoy-types")?;
    let set = fs::read(source.join("src/generated/types.bin"))?;
    let mut set = strip(&set).ok_or("types.bin is not a FileDescriptorSet")?;
    for (path, package) in TYPED_STRUCTS {
        put_field(&mut set, FILE, &typed_struct(path, package).encode_to_vec());
    }
    Ok(set)
}

/// Files with a message `TypedStruct`, which no file of the API imports: it is in an `Any`, in place of the
/// configuration of an extension (gRFC A39, `xds/type/v3/typed_struct.proto`).
const TYPED_STRUCTS: [(&str, &str); 2] = [
    ("xds/type/v3/typed_struct.proto", "xds.type.v3"),
    ("udpa/type/v1/typed_struct.proto", "udpa.type.v1"),
];

fn typed_struct(path: &str, package: &str) -> FileDescriptorProto {
    let field = |name: &str, number, ty: Type, type_name: Option<&str>| FieldDescriptorProto {
        name: Some(name.to_owned()),
        number: Some(number),
        label: Some(Label::Optional.into()),
        r#type: Some(ty.into()),
        type_name: type_name.map(str::to_owned),
        ..FieldDescriptorProto::default()
    };
    let message = DescriptorProto {
        name: Some("TypedStruct".to_owned()),
        field: vec![
            field("type_url", 1, Type::String, None),
            field("value", 2, Type::Message, Some(".google.protobuf.Struct")),
        ],
        ..DescriptorProto::default()
    };
    FileDescriptorProto {
        name: Some(path.to_owned()),
        package: Some(package.to_owned()),
        dependency: vec!["google/protobuf/struct.proto".to_owned()],
        message_type: vec![message],
        syntax: Some("proto3".to_owned()),
        ..FileDescriptorProto::default()
    }
}

/// Returns the path to a file of this package.
pub(crate) fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Returns the folder with the source of a package, as locked beside the manifest.
pub(crate) fn source(manifest: &Path, package: &str) -> Result<PathBuf, Box<dyn Error>> {
    let rustc = run(Command::new("rustc").arg("-vV"))?;
    let host = rustc
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .ok_or("rustc -vV names no host")?;
    // For the host only: the packages of other platforms may not have been fetched.
    let metadata = run(
        Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
            .args([
                "metadata",
                "--format-version=1",
                "--locked",
                "--filter-platform",
                host,
            ])
            .arg("--manifest-path")
            .arg(manifest),
    )?;
    let metadata: serde_json::Value = serde_json::from_str(&metadata)?;
    let manifest = metadata["packages"]
        .as_array()
        .and_then(|packages| packages.iter().find(|p| p["name"] == package))
        .and_then(|package| package["manifest_path"].as_str())
        .ok_or_else(|| format!("cargo metadata lists no {package}"))?;
    Ok(Path::new(manifest)
        .parent()
        .ok_or("a manifest has a folder")?
        .to_owned())
}

fn run(command: &mut Command) -> Result<String, Box<dyn Error>> {
    let output = command.output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// Removes the source information from the encoded set. Decoding into types would lose the extensions in the options
/// (`validate.rules`, …), which the types do not have.
fn strip(set: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    for file in fields(set)? {
        if file.number != FILE {
            return None;
        }
        let kept = fields(file.body)?
            .into_iter()
            .filter(|f| f.number != SOURCE_CODE_INFO);
        let body: Vec<u8> = kept.flat_map(|f| f.whole).copied().collect();
        put_field(&mut out, FILE, &body);
    }
    Some(out)
}

struct Field<'a> {
    number: u64,
    /// Key, length and body of the field.
    whole: &'a [u8],
    /// Body of a length-delimited field; empty for a varint.
    body: &'a [u8],
}

/// Splits a message into its fields. Only varints and length-delimited fields are supported; the two messages have no
/// others.
fn fields(mut input: &[u8]) -> Option<Vec<Field<'_>>> {
    let mut fields = Vec::new();
    while !input.is_empty() {
        let start = input;
        let key = varint(&mut input)?;
        let len = match key & 7 {
            VARINT => varint(&mut input).map(|_| 0)?,
            LENGTH_DELIMITED => usize::try_from(varint(&mut input)?).ok()?,
            _ => return None,
        };
        let (body, rest) = input.split_at_checked(len)?;
        input = rest;
        let whole = &start[..start.len() - rest.len()];
        fields.push(Field {
            number: key >> 3,
            whole,
            body,
        });
    }
    Some(fields)
}

fn varint(input: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = input.split_first()?;
        *input = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

fn put_field(out: &mut Vec<u8>, number: u64, body: &[u8]) {
    put_varint(out, number << 3 | LENGTH_DELIMITED);
    put_varint(out, body.len() as u64);
    out.extend(body);
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
