//! Reading of options: finds the extensions of `google.protobuf.*Options` that the files declare,
//! and converts `name = value` into option messages.

use std::collections::HashSet;

use prost::Message as _;
use prost_reflect::{
    DescriptorPool, DynamicMessage, ExtensionDescriptor, FieldDescriptor, Kind, MessageDescriptor,
    ReflectMessage, Value,
};
use prost_types::uninterpreted_option::NamePart;
use prost_types::{DescriptorProto, FileDescriptorProto, UninterpretedOption};

use super::draft::Draft;
use super::error::{Error, Reason};
use super::names::{ExpectedSort, NameTable, join};
use super::{aggregate, features, limits};
use crate::model::{Options, Syntax};

/// Field number of `uninterpreted_option` in all options messages.
const UNINTERPRETED: u32 = 999;

/// Name of that field.
const UNINTERPRETED_NAME: &str = "uninterpreted_option";

/// File with the options messages. A tree may contain a newer one than the one that is built in.
const DESCRIPTOR: &str = "google/protobuf/descriptor.proto";

/// Pool of all options.
#[derive(Debug)]
pub(super) struct Schema {
    pool: DescriptorPool,
}

/// Position of an option, which determines the meaning of its name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) names: &'a NameTable,
    pub(super) file: usize,
    pub(super) scope: &'a str,
}

impl Schema {
    /// Builds the option descriptors, with the extensions that the files declare.
    pub(super) fn of(drafts: &[Draft], names: &NameTable) -> (Self, Vec<Error>) {
        let own = drafts
            .iter()
            .position(|draft| draft.proto.name() == DESCRIPTOR && !draft.is_built_in);
        let mut pool = own
            .and_then(|own| with_own_descriptor(&drafts[own], own, names))
            .unwrap_or_else(DescriptorPool::global);
        let mut errors = Vec::new();
        for index in declaring(drafts, names) {
            let draft = &drafts[index];
            if pool.get_file_by_name(draft.proto.name()).is_some() {
                continue;
            }
            let Some(without_options) = without_options(draft, index, names) else {
                // Its unresolved names are reported elsewhere.
                continue;
            };
            // A pool that rejected a file can still have extensions of it. Goes on with the pool before.
            let mut with_file = pool.clone();
            match with_file.add_file_descriptor_proto(without_options) {
                Ok(()) => pool = with_file,
                Err(error) => {
                    let reason = Reason::Rule(error.to_string());
                    errors.push(Error::new(draft, None, reason));
                }
            }
        }
        (Self { pool }, errors)
    }

    /// Reads options of the message type `sort` (`google.protobuf.FieldOptions`): encoded ones and
    /// uninterpreted ones. Reports `(index of the option, reason)`.
    pub(super) fn read(
        &self,
        context: Context<'_>,
        sort: &str,
        encoded: &[u8],
        options: &[UninterpretedOption],
    ) -> (Options, Vec<(usize, Reason)>) {
        if encoded.is_empty() && options.is_empty() {
            return (Options::default(), Vec::new());
        }
        let Some(descriptor) = self.pool.get_message_by_name(sort) else {
            return (Options::default(), Vec::new());
        };
        let mut message = DynamicMessage::new(descriptor);
        let mut errors = Vec::new();
        if let Err(error) = message.merge(encoded) {
            errors.push((
                0,
                Reason::Option {
                    name: sort.to_owned(),
                    why: error.to_string(),
                },
            ));
        }
        message.clear_field_by_number(UNINTERPRETED);
        features::adapt_utf8_validation(&mut message);
        for (index, option) in options.iter().enumerate() {
            if let Err(reason) = self.set(context, &mut message, option) {
                errors.push((index, reason));
            }
        }
        let options = match message.encoded_len() {
            0 => Options::default(),
            _ => Options::new(message),
        };
        (options, errors)
    }

    /// Returns the field numbers along the name of an option.
    pub(super) fn path(
        &self,
        context: Context<'_>,
        sort: &str,
        option: &UninterpretedOption,
    ) -> Vec<i32> {
        let mut at = self.pool.get_message_by_name(sort);
        let mut path = Vec::new();
        for part in &option.name {
            let Some(Ok(field)) = at.map(|at| self.part(context, &at, part)) else {
                break;
            };
            path.push(field.number() as i32);
            at = field.kind().as_message().cloned();
        }
        path
    }

    fn set(
        &self,
        context: Context<'_>,
        options: &mut DynamicMessage,
        option: &UninterpretedOption,
    ) -> Result<(), Reason> {
        let wrong = |why: String| Reason::Option {
            name: spelled(&option.name),
            why,
        };
        let Some((last, outer)) = option.name.split_last() else {
            return Ok(());
        };
        if outer.len() >= limits::LEVELS {
            let why = format!("name has more than {} parts", limits::LEVELS);
            return Err(Reason::Option {
                name: spelled(&option.name[..3]) + "…",
                why,
            });
        }
        let mut at = options;
        for part in outer {
            let field = self.part(context, &at.descriptor(), part).map_err(wrong)?;
            at = match field.get_mut(at) {
                Value::Message(message) => message,
                _ => return Err(wrong(format!("{} is not a message", part.name_part))),
            };
        }
        let field = self.part(context, &at.descriptor(), last).map_err(wrong)?;
        let value = value(&field.kind(), option).map_err(wrong)?;
        if field.is_list() {
            if let Value::List(list) = field.get_mut(at) {
                list.push(value);
            }
            return Ok(());
        }
        if field.is_set(at) {
            return Err(wrong("set twice".to_owned()));
        }
        *field.get_mut(at) = value;
        Ok(())
    }

    fn part(
        &self,
        context: Context<'_>,
        message: &MessageDescriptor,
        part: &NamePart,
    ) -> Result<Part, String> {
        if part.name_part == UNINTERPRETED_NAME && !part.is_extension {
            return Err("the name is reserved for compilers".to_owned());
        }
        if !part.is_extension {
            let field = message.get_field_by_name(&part.name_part);
            return field
                .map(Part::Field)
                .ok_or_else(|| format!("{} has no field {}", message.full_name(), part.name_part));
        }
        let Context { names, file, scope } = context;
        let (_, name) = names
            .resolve(file, scope, &part.name_part, ExpectedSort::Extension)
            .map_err(|reason| reason.to_string())?;
        let extension = self.pool.get_extension_by_name(&name);
        match extension.filter(|extension| extension.containing_message() == *message) {
            Some(extension) => Ok(Part::Extension(extension)),
            None => Err(format!("{name} does not extend {}", message.full_name())),
        }
    }
}

/// Part of an option name.
enum Part {
    Field(FieldDescriptor),
    Extension(ExtensionDescriptor),
}

impl Part {
    fn number(&self) -> u32 {
        match self {
            Self::Field(field) => field.number(),
            Self::Extension(extension) => extension.number(),
        }
    }

    fn kind(&self) -> Kind {
        match self {
            Self::Field(field) => field.kind(),
            Self::Extension(extension) => extension.kind(),
        }
    }

    fn is_list(&self) -> bool {
        match self {
            Self::Field(field) => field.is_list(),
            Self::Extension(extension) => extension.is_list(),
        }
    }

    fn is_set(&self, message: &DynamicMessage) -> bool {
        match self {
            Self::Field(field) => message.has_field(field),
            Self::Extension(extension) => message.has_extension(extension),
        }
    }

    fn get_mut<'a>(&self, message: &'a mut DynamicMessage) -> &'a mut Value {
        match self {
            Self::Field(field) => message.get_field_mut(field),
            Self::Extension(extension) => message.get_extension_mut(extension),
        }
    }
}

/// Formats an option name: `(validate.rules).string.min_len`.
fn spelled(name: &[NamePart]) -> String {
    let parts = name.iter().map(|part| {
        if part.is_extension {
            format!("({})", part.name_part)
        } else {
            part.name_part.clone()
        }
    });
    parts.collect::<Vec<_>>().join(".")
}

/// Reads the value of an option whose field is of `kind`.
fn value(kind: &Kind, option: &UninterpretedOption) -> Result<Value, String> {
    let wants = |what: &str| format!("invalid value: expected {what}");
    let range = |what: &str| wants(&format!("{what} in range"));
    Ok(match kind {
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => {
            let number = integer(option).ok_or_else(|| wants("an integer"))?;
            Value::I32(number.try_into().map_err(|_| range("an int32"))?)
        }
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => {
            let number = integer(option).ok_or_else(|| wants("an integer"))?;
            Value::I64(number.try_into().map_err(|_| range("an int64"))?)
        }
        Kind::Uint32 | Kind::Fixed32 => {
            let number = integer(option).ok_or_else(|| wants("an integer"))?;
            Value::U32(number.try_into().map_err(|_| range("a uint32"))?)
        }
        Kind::Uint64 | Kind::Fixed64 => {
            let number = integer(option).ok_or_else(|| wants("an integer"))?;
            Value::U64(number.try_into().map_err(|_| range("a uint64"))?)
        }
        Kind::Float => Value::F32(float(option).ok_or_else(|| wants("a number"))? as f32),
        Kind::Double => Value::F64(float(option).ok_or_else(|| wants("a number"))?),
        Kind::Bool => match option.identifier_value.as_deref() {
            Some("true") => Value::Bool(true),
            Some("false") => Value::Bool(false),
            _ => return Err(wants("true or false")),
        },
        Kind::String => {
            let bytes = option
                .string_value
                .clone()
                .ok_or_else(|| wants("a string"))?;
            Value::String(String::from_utf8(bytes).map_err(|_| wants("a string in UTF-8"))?)
        }
        Kind::Bytes => Value::Bytes(
            option
                .string_value
                .clone()
                .ok_or_else(|| wants("a string"))?
                .into(),
        ),
        Kind::Enum(descriptor) => {
            let name = option.identifier_value.as_deref();
            let name = name.ok_or_else(|| wants("the name of an enum value"))?;
            let value = descriptor.get_value_by_name(name);
            let value =
                value.ok_or_else(|| format!("{} has no value {name}", descriptor.full_name()))?;
            Value::EnumNumber(value.number())
        }
        Kind::Message(descriptor) => {
            let text = option.aggregate_value.as_deref();
            let text = text.ok_or_else(|| wants("a message: { ... }"))?;
            if limits::is_deep(text) {
                return Err(format!("value has more than {} levels", limits::LEVELS));
            }
            let text = aggregate::with_colons(text);
            let message = DynamicMessage::parse_text_format(descriptor.clone(), &text);
            Value::Message(message.map_err(|error| error.to_string())?)
        }
    })
}

fn integer(option: &UninterpretedOption) -> Option<i128> {
    let positive = option.positive_int_value.map(i128::from);
    positive.or(option.negative_int_value.map(i128::from))
}

fn float(option: &UninterpretedOption) -> Option<f64> {
    let word = || match option.identifier_value.as_deref()? {
        "inf" => Some(f64::INFINITY),
        "nan" => Some(f64::NAN),
        _ => None,
    };
    option
        .double_value
        .or_else(|| integer(option).map(|number| number as f64))
        .or_else(word)
}

/// Returns a pool with the options messages of the tree's own `descriptor.proto`, or `None` if they
/// are not usable.
fn with_own_descriptor(draft: &Draft, index: usize, names: &NameTable) -> Option<DescriptorPool> {
    let mut pool = DescriptorPool::new();
    let own = without_options(draft, index, names)?;
    pool.add_file_descriptor_proto(own).ok()?;
    // Without this message, no options can be read.
    pool.get_message_by_name("google.protobuf.FieldOptions")
        .map(|_| pool)
}

/// Returns the files that extend options, and their imports, imports first.
fn declaring(drafts: &[Draft], names: &NameTable) -> Vec<usize> {
    let mut wanted = HashSet::new();
    for (index, draft) in drafts.iter().enumerate() {
        let package = draft.proto.package();
        let top = draft
            .proto
            .extension
            .iter()
            .map(|e| (package.to_owned(), e));
        let nested = draft.proto.message_type.iter().flat_map(|message| {
            let scope = join(package, message.name());
            message.extension.iter().map(move |e| (scope.clone(), e))
        });
        let extends_options = top.chain(nested).any(|(scope, extension)| {
            let extendee =
                names.resolve(index, &scope, extension.extendee(), ExpectedSort::Message);
            extendee.is_ok_and(|(_, name)| {
                name.starts_with("google.protobuf.") && name.ends_with("Options")
            })
        });
        if extends_options {
            wanted.insert(draft.proto.name());
        }
    }
    // In reverse order, importers come before their imports.
    for draft in drafts.iter().rev() {
        if wanted.contains(draft.proto.name()) {
            wanted.extend(draft.proto.dependency.iter().map(String::as_str));
        }
    }
    let all = drafts.iter().enumerate();
    all.filter(|(_, draft)| wanted.contains(draft.proto.name()))
        .map(|(index, _)| index)
        .collect()
}

/// Returns the types of a file without options and source positions, with full names.
fn without_options(draft: &Draft, index: usize, names: &NameTable) -> Option<FileDescriptorProto> {
    let mut proto = FileDescriptorProto {
        // The pool does not support editions. For reading options, proto2 is close enough.
        syntax: Some("proto3".to_owned()).filter(|_| draft.syntax == Syntax::Proto3),
        options: None,
        source_code_info: None,
        service: Vec::new(),
        ..draft.proto.clone()
    };
    let package = proto.package().to_owned();
    for declared in &mut proto.enum_type {
        strip_enum(declared);
    }
    for message in &mut proto.message_type {
        strip_message(message, &package, index, names)?;
    }
    for extension in &mut proto.extension {
        strip_field(extension, &package, index, names)?;
    }
    Some(proto)
}

fn strip_message(
    message: &mut DescriptorProto,
    scope: &str,
    file: usize,
    names: &NameTable,
) -> Option<()> {
    let name = join(scope, message.name());
    if let Some(options) = message.options.take() {
        message.options = options
            .map_entry
            .is_some()
            .then(|| prost_types::MessageOptions {
                map_entry: options.map_entry,
                ..Default::default()
            });
    }
    for field in message.field.iter_mut().chain(&mut message.extension) {
        strip_field(field, &name, file, names)?;
    }
    for range in &mut message.extension_range {
        range.options = None;
    }
    for oneof in &mut message.oneof_decl {
        oneof.options = None;
    }
    for declared in &mut message.enum_type {
        strip_enum(declared);
    }
    for nested in &mut message.nested_type {
        strip_message(nested, &name, file, names)?;
    }
    Some(())
}

fn strip_field(
    field: &mut prost_types::FieldDescriptorProto,
    scope: &str,
    file: usize,
    names: &NameTable,
) -> Option<()> {
    field.options = None;
    for (name, wanted) in [
        (&mut field.type_name, ExpectedSort::Type),
        (&mut field.extendee, ExpectedSort::Message),
    ] {
        if let Some(name) = name {
            let (_, full) = names.resolve(file, scope, name, wanted).ok()?;
            *name = format!(".{full}");
        }
    }
    Some(())
}

fn strip_enum(declared: &mut prost_types::EnumDescriptorProto) {
    // `allow_alias` decides whether the pool accepts the values.
    if let Some(options) = &mut declared.options {
        options
            .uninterpreted_option
            .retain(|option| spelled(&option.name) == "allow_alias");
    }
    for value in &mut declared.value {
        value.options = None;
    }
}
