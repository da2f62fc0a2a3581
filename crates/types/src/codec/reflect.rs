//! Documents of messages of any descriptors, such as those of a tree of protos: YAML, JSON, text format, binary.
//!
//! A document is one message: with `@type` (an `Any`), or bare, if its type is given. A list has several. Files of
//! resources of the API are read by [`decode`](super::decode), which also validates them.

use std::sync::Arc;

use prost::Message as _;
use prost_reflect::text_format::FormatOptions;
use prost_reflect::{
    DescriptorError, DescriptorPool, DynamicMessage, MessageDescriptor, ReflectMessage as _,
};
use serde::de::{Deserialize, DeserializeSeed, Deserializer, IntoDeserializer};
use thiserror::Error;

use super::document::{
    json_position, json_reason, yaml_documents, yaml_options, yaml_position, yaml_reason,
};
use super::encode::EncodeError;
use super::position::locate;
use super::protobuf::{declared_message, position};
use super::reflect_view::{AnyView, MessageView};
use super::resource::Format;
use super::tree::TYPE;
use super::value::Buffered;
use crate::Position;
use crate::depth::{MAX_BRACKETS, MAX_DEPTH, brackets, on_stack_for};
use crate::discovery::Any;
use crate::path::{FieldPath, Step, steps_of};
use crate::resource_type::TYPE_URL_PREFIX;

const ANY: &str = "google.protobuf.Any";

/// A message that a file contains.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// The message.
    pub message: DynamicMessage,
    /// Type URL, if the file states it: `@type`, or the `Any` around the message.
    pub type_url: Option<String>,
    source: Source,
}

/// Origin of a message, for positions.
#[derive(Debug, Clone, Default, PartialEq)]
struct Source {
    /// Text of the document in YAML or JSON; empty for other formats.
    text: Arc<str>,
    /// Lines of the file before the document.
    line: u32,
    /// Index of the message, if the document is a list.
    item: Option<usize>,
}

impl Document {
    /// Returns a document that no file has.
    #[must_use]
    pub fn new(message: DynamicMessage, type_url: Option<String>) -> Document {
        Document {
            message,
            type_url,
            source: Source::default(),
        }
    }

    /// Returns the position of a field in the file, by its path such as `items[0].by_name["a"]`; `None` in text format
    /// and binary. A field without a line of its own has the position of the value around it.
    #[must_use]
    pub fn position(&self, path: &str) -> Option<Position> {
        let Source { text, line, item } = &self.source;
        let item = item.map(Step::Index);
        let mut steps = FieldPath::default();
        item.into_iter()
            .chain(steps_of(path)?)
            .for_each(|step| steps.push(step));
        let mut position = locate(text, &steps)?;
        position.line += line;
        Some(position)
    }
}

/// A file that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}{reason}", self.position.map(|at| format!("{at}: ")).unwrap_or_default())]
#[non_exhaustive]
pub struct DocumentError {
    /// Line and column, if the parser knows them.
    pub position: Option<Position>,
    /// The error.
    pub reason: String,
}

impl From<String> for DocumentError {
    fn from(reason: String) -> DocumentError {
        DocumentError {
            position: None,
            reason,
        }
    }
}

/// Returns the pool of an encoded `FileDescriptorSet`, with `google.protobuf.Any` if the set lacks it.
///
/// # Errors
/// The descriptors contradict each other.
pub fn descriptor_pool(set: &[u8]) -> Result<DescriptorPool, DescriptorError> {
    let mut pool = DescriptorPool::decode(set)?;
    let global = DescriptorPool::global();
    let any = global.get_message_by_name(ANY).map(|any| any.parent_file());
    if let Some(file) = any.filter(|_| pool.get_message_by_name(ANY).is_none()) {
        pool.add_file_descriptor_proto(file.file_descriptor_proto().clone())?;
    }
    Ok(pool)
}

/// Reads the messages of a file. `message` is the full name of the messages that do not state their types.
///
/// # Errors
/// The file is malformed, does not fit its descriptors, or has a message of unknown type.
pub fn read_documents(
    pool: &DescriptorPool,
    format: Format,
    bytes: &[u8],
    message: Option<&str>,
) -> Result<Vec<Document>, DocumentError> {
    let reader = Reader { pool, message };
    if format == Format::Binary {
        return Ok(vec![reader.binary(bytes)?]);
    }
    let text = std::str::from_utf8(bytes).map_err(|_| "not UTF-8: expected text".to_owned())?;
    let levels = match format {
        Format::Yaml => MAX_DEPTH,
        _ => brackets(bytes),
    };
    if levels > MAX_BRACKETS {
        return Err(format!("nested more than {MAX_BRACKETS} levels deep").into());
    }
    on_stack_for(levels, || match format {
        Format::Yaml => {
            let mut documents = Vec::new();
            for (line, text) in yaml_documents(text) {
                let mut read = reader.shaped(text, yaml_value, yaml_message);
                for document in read.iter_mut().flatten() {
                    document.source.line = line as u32;
                }
                documents.extend(read.map_err(|mut error| {
                    if let Some(position) = &mut error.position {
                        position.line += line as u32;
                    }
                    error
                })?);
            }
            Ok(documents)
        }
        Format::Json => reader.shaped(text, json_value, json_message),
        Format::Text | Format::Binary => Ok(vec![reader.text(text)?]),
    })
}

/// Writes messages as a file that [`read_documents`] reads.
///
/// # Errors
/// The format cannot represent a message, or not several messages in one file.
pub fn write_documents(documents: &[Document], format: Format) -> Result<Vec<u8>, EncodeError> {
    // The documents were read, so they are not deeper than the limit.
    on_stack_for(MAX_DEPTH, || write(documents, format))
}

fn write(documents: &[Document], format: Format) -> Result<Vec<u8>, EncodeError> {
    let unwritable = |error: &dyn std::fmt::Display| EncodeError::Unwritable(error.to_string());
    match (format, documents) {
        (Format::Yaml, _) => {
            let mut out = String::new();
            for document in documents {
                if documents.len() > 1 {
                    out.push_str("---\n");
                }
                serde_saphyr::to_fmt_writer(&mut out, &View(document))
                    .map_err(|e| unwritable(&e))?;
            }
            Ok(out.into_bytes())
        }
        (Format::Json, _) => {
            let views: Vec<_> = documents.iter().map(View).collect();
            let written = match &views[..] {
                [one] => serde_json::to_vec_pretty(one),
                views => serde_json::to_vec_pretty(views),
            };
            let mut out = written.map_err(|error| unwritable(&error))?;
            out.push(b'\n');
            Ok(out)
        }
        (Format::Text, [document]) => {
            let options = FormatOptions::new().pretty(true).expand_any(true);
            let name = document.message.descriptor();
            let head = format!("# proto-message: {}\n", name.full_name());
            let (head, message) = match any(document)? {
                Some(any) => (String::new(), any),
                None => (head, document.message.clone()),
            };
            Ok(format!("{head}{}\n", message.to_text_format_with_options(&options)).into_bytes())
        }
        (Format::Binary, [document]) => Ok(match any(document)? {
            Some(any) => any.encode_to_vec(),
            None => document.message.encode_to_vec(),
        }),
        (Format::Text | Format::Binary, _) => {
            Err(unwritable(&"several messages: expected YAML or JSON"))
        }
    }
}

/// Returns the `Any` that holds a message, if its type is part of the file.
fn any(document: &Document) -> Result<Option<DynamicMessage>, EncodeError> {
    let Some(type_url) = &document.type_url else {
        return Ok(None);
    };
    let descriptor = document.message.descriptor();
    let pool = descriptor.parent_pool();
    let descriptor = pool
        .get_message_by_name(ANY)
        .ok_or_else(|| EncodeError::UnknownType(ANY.to_owned()))?;
    let mut any = DynamicMessage::new(descriptor);
    let content = Any {
        type_url: type_url.clone(),
        value: document.message.encode_to_vec().into(),
    };
    any.transcode_from(&content)
        .map_err(|error| EncodeError::Unwritable(error.to_string()))?;
    Ok(Some(any))
}

struct View<'a>(&'a Document);

impl serde::Serialize for View<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Document {
            message, type_url, ..
        } = self.0;
        match type_url {
            Some(type_url) => AnyView { type_url, message }.serialize(serializer),
            None => MessageView(message).serialize(serializer),
        }
    }
}

struct Reader<'a> {
    pool: &'a DescriptorPool,
    message: Option<&'a str>,
}

type ReadAs<T> = Result<T, DocumentError>;

impl Reader<'_> {
    /// Reads a document of one message or a list.
    fn shaped(
        &self,
        text: &str,
        value: fn(&str) -> ReadAs<Buffered>,
        message: fn(&str, MessageDescriptor) -> ReadAs<DynamicMessage>,
    ) -> ReadAs<Vec<Document>> {
        let list = match value(text)? {
            Buffered::Null => return Ok(Vec::new()),
            Buffered::List(list) => list,
            one => {
                let (descriptor, typed) = self.descriptor_of(&one)?;
                let mut document = self.opened(message(text, descriptor)?, typed)?;
                document.source.text = text.into();
                return Ok(vec![document]);
            }
        };
        let text: Arc<str> = text.into();
        let item = |(index, item): (usize, Buffered)| {
            let read = || {
                let (descriptor, typed) = self.descriptor_of(&item)?;
                let item = item.into_deserializer();
                let message = DynamicMessage::deserialize(descriptor, item);
                let message = message.map_err(|error: serde_json::Error| error.to_string())?;
                let mut document = self.opened(message, typed)?;
                document.source.text = text.clone();
                document.source.item = Some(index);
                Ok(document)
            };
            read().map_err(|error: DocumentError| format!("[{index}]: {error}").into())
        };
        list.into_iter().enumerate().map(item).collect()
    }

    /// Returns the descriptor with which a value is read, and whether the value states its type.
    fn descriptor_of(&self, value: &Buffered) -> ReadAs<(MessageDescriptor, bool)> {
        let typed =
            matches!(value, Buffered::Map(entries) if entries.iter().any(|(key, _)| key == TYPE));
        let name = match (typed, self.message) {
            (true, _) => ANY,
            (false, Some(name)) => name,
            (false, None) => {
                return Err("missing `@type`: expected it, or the type of the file"
                    .to_owned()
                    .into());
            }
        };
        Ok((self.find(name)?, typed))
    }

    fn find(&self, name: &str) -> ReadAs<MessageDescriptor> {
        let found = self.pool.get_message_by_name(name);
        found.ok_or_else(|| {
            format!("unknown message type `{name}`: expected one of the descriptors").into()
        })
    }

    /// Opens the `Any` of a message that states its type.
    fn opened(&self, message: DynamicMessage, typed: bool) -> ReadAs<Document> {
        if !typed {
            return Ok(Document::new(message, None));
        }
        let any: Any = message.transcode_to().map_err(|error| error.to_string())?;
        let name = any.type_url.rsplit('/').next().unwrap_or_default();
        if let Some(expected) = self.message.filter(|expected| *expected != name) {
            return Err(format!("message type `{name}`: expected {expected}").into());
        }
        let message = self.decoded(name, &any.value)?;
        Ok(Document::new(message, Some(any.type_url)))
    }

    fn decoded(&self, name: &str, bytes: &[u8]) -> ReadAs<DynamicMessage> {
        let message = DynamicMessage::decode(self.find(name)?, bytes);
        message.map_err(|error| format!("malformed {name}: {error}").into())
    }

    fn text(&self, text: &str) -> ReadAs<Document> {
        let name = declared_message(text).or(self.message);
        let name = name.ok_or_else(|| {
            "missing type: expected `[type.googleapis.com/NAME] { … }`, a comment `# proto-message: NAME`, or the type of the file"
                .to_owned()
        })?;
        let message = DynamicMessage::parse_text_format(self.find(name)?, text);
        let message = message.map_err(|error| DocumentError {
            position: position(&error, text),
            reason: error.to_string(),
        })?;
        self.opened(message, name == ANY)
    }

    fn binary(&self, bytes: &[u8]) -> ReadAs<Document> {
        let any = Any::decode(bytes).ok();
        if let Some(any) = any.filter(|any| any.type_url.starts_with(TYPE_URL_PREFIX)) {
            let mut message = DynamicMessage::new(self.find(ANY)?);
            message
                .transcode_from(&any)
                .map_err(|error| error.to_string())?;
            return self.opened(message, true);
        }
        let name = self
            .message
            .ok_or_else(|| "missing type: expected an Any, or the type of the file".to_owned())?;
        Ok(Document::new(self.decoded(name, bytes)?, None))
    }
}

/// Reads a message with this descriptor.
struct Seed(MessageDescriptor);

impl<'de> DeserializeSeed<'de> for Seed {
    type Value = DynamicMessage;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        DynamicMessage::deserialize(self.0, deserializer)
    }
}

fn yaml_value(text: &str) -> ReadAs<Buffered> {
    let options = yaml_options(text.len());
    serde_saphyr::with_deserializer_from_str_with_options(text, options, |yaml| {
        Buffered::deserialize(yaml)
    })
    .map_err(|error| yaml_error(&error, text))
}

fn yaml_message(text: &str, descriptor: MessageDescriptor) -> ReadAs<DynamicMessage> {
    let options = yaml_options(text.len());
    serde_saphyr::with_deserializer_from_str_with_options(text, options, |yaml| {
        Seed(descriptor).deserialize(yaml)
    })
    .map_err(|error| yaml_error(&error, text))
}

fn yaml_error(error: &serde_saphyr::Error, text: &str) -> DocumentError {
    DocumentError {
        position: error.location().map(yaml_position),
        reason: yaml_reason(error, text.len()).to_string(),
    }
}

fn json_value(text: &str) -> ReadAs<Buffered> {
    json(text, std::marker::PhantomData::<Buffered>)
}

fn json_message(text: &str, descriptor: MessageDescriptor) -> ReadAs<DynamicMessage> {
    json(text, Seed(descriptor))
}

fn json<'de, T: DeserializeSeed<'de>>(text: &'de str, seed: T) -> ReadAs<T::Value> {
    let mut json = serde_json::Deserializer::from_str(text);
    json.disable_recursion_limit();
    let read = seed.deserialize(&mut json);
    read.and_then(|value| json.end().map(|()| value))
        .map_err(|error| DocumentError {
            position: json_position(&error),
            reason: json_reason(&error).to_string(),
        })
}
