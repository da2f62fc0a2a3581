//! The elements of one file, names resolved and options read.

use std::collections::HashMap;

use prost::Message as _;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, MethodDescriptorProto,
    ServiceDescriptorProto, UninterpretedOption,
};

use super::Draft;
use super::error::{Error, Reason};
use super::names::{Ids, Names, Thing, Wanted, join};
use super::options::{Context, Schema};
use super::source::Sources;
use crate::model::{
    Cardinality, Enum, EnumId, EnumValue, Extension, Field, File, FileId, Import, ImportMode, Kind,
    Message, MessageId, Method, Name, Oneof, Options, Range, Scalar, Service, ServiceId, Source,
    Symbol, Syntax, Tree,
};

/// What one file adds to a tree.
#[derive(Debug)]
pub(super) struct Parts {
    file: File,
    messages: Vec<Message>,
    enums: Vec<Enum>,
    services: Vec<Service>,
    extensions: Vec<Extension>,
}

impl Parts {
    /// Files must be appended in their order: ids are indices.
    pub(super) fn append_to(mut self, tree: &mut Tree) {
        tree.files.push(self.file);
        tree.messages.append(&mut self.messages);
        tree.enums.append(&mut self.enums);
        tree.services.append(&mut self.services);
        tree.extensions.append(&mut self.extensions);
    }
}

/// Builds `drafts[index]`.
pub(super) fn build(
    drafts: &[Draft],
    index: usize,
    names: &Names,
    schema: &Schema,
) -> (Parts, Vec<Error>) {
    let draft = &drafts[index];
    let mut builder = Builder {
        draft,
        index,
        sources: Sources::of(draft),
        names,
        schema,
        syntax: match draft.proto.syntax() {
            "proto3" => Syntax::Proto3,
            _ => Syntax::Proto2,
        },
        path: Vec::new(),
        ids: names.first_ids(index),
        messages: Vec::new(),
        enums: Vec::new(),
        services: Vec::new(),
        extensions: Vec::new(),
        errors: Vec::new(),
    };
    let file = builder.file();
    let Builder {
        mut messages,
        mut enums,
        services,
        extensions,
        errors,
        ..
    } = builder;
    // Parents end after what they hold, and began before.
    messages.sort_by_key(|message| message.id);
    enums.sort_by_key(|declared| declared.id);
    let parts = Parts {
        file,
        messages,
        enums,
        services,
        extensions,
    };
    (parts, errors)
}

struct Builder<'a> {
    draft: &'a Draft,
    index: usize,
    sources: Sources<'a>,
    names: &'a Names,
    schema: &'a Schema,
    syntax: Syntax,
    /// The path of the element at hand in the descriptor.
    path: Vec<i32>,
    /// The ids that come next.
    ids: Ids,
    messages: Vec<Message>,
    enums: Vec<Enum>,
    services: Vec<Service>,
    extensions: Vec<Extension>,
    errors: Vec<Error>,
}

/// `options.uninterpreted_option`, and the rest encoded, of any kind of options.
macro_rules! split {
    ($options:expr) => {
        $options.as_ref().map(|options| {
            (
                options.uninterpreted_option.as_slice(),
                options.encode_to_vec(),
            )
        })
    };
}

impl<'a> Builder<'a> {
    fn file(&mut self) -> File {
        let draft = self.draft;
        let proto = &draft.proto;
        let package = proto.package();
        let messages = self.each(4, &proto.message_type, |s, m| s.message(package, m, None));
        let enums = self.each(5, &proto.enum_type, |s, e| s.enumeration(package, e, None));
        let services = self.each(6, &proto.service, |s, service| s.service(package, service));
        self.each(7, &proto.extension, |s, e| s.extension(package, e, None));
        let options = self.options(
            8,
            package,
            "google.protobuf.FileOptions",
            split!(proto.options),
        );
        File {
            id: FileId(self.index as u32),
            path: proto.name().into(),
            display: draft.display.clone(),
            target: draft.target,
            package: package.into(),
            syntax: self.syntax,
            imports: self.imports(),
            options,
            messages,
            enums,
            services,
            text: draft.text.clone(),
            package_source: self.sources.source(&[2], &[2]),
            syntax_source: self.sources.source(&[12], &[12]),
            option_sources: self.option_sources(),
        }
    }

    fn imports(&self) -> Vec<Import> {
        let proto = &self.draft.proto;
        let import = |(index, path): (usize, &String)| {
            let index = index as i32;
            Some(Import {
                file: FileId(self.names.file_index(path)? as u32),
                mode: match () {
                    () if proto.public_dependency.contains(&index) => ImportMode::Public,
                    () if proto.weak_dependency.contains(&index) => ImportMode::Weak,
                    () => ImportMode::Plain,
                },
                source: self.sources.source(&[3, index], &[3, index]),
            })
        };
        proto
            .dependency
            .iter()
            .enumerate()
            .filter_map(import)
            .collect()
    }

    fn option_sources(&self) -> Vec<(Vec<i32>, Source)> {
        let proto = &self.draft.proto;
        let options = proto.options.iter().flat_map(|o| &o.uninterpreted_option);
        let source = |(index, option): (usize, &UninterpretedOption)| {
            let context = self.context(proto.package());
            let path = self
                .schema
                .path(context, "google.protobuf.FileOptions", option);
            let at = [8, 999, index as i32];
            (path, self.sources.source(&at, &at))
        };
        options.enumerate().map(source).collect()
    }

    /// Builds what a list of the descriptor holds; `tag` is the number of the list.
    fn each<T, U>(&mut self, tag: i32, list: &[T], build: impl Fn(&mut Self, &T) -> U) -> Vec<U> {
        let mut built = Vec::with_capacity(list.len());
        for (index, element) in list.iter().enumerate() {
            self.path.extend([tag, index as i32]);
            built.push(build(self, element));
            self.path.truncate(self.path.len() - 2);
        }
        built
    }

    fn message(
        &mut self,
        scope: &str,
        proto: &DescriptorProto,
        parent: Option<MessageId>,
    ) -> MessageId {
        let id = MessageId(self.ids.messages);
        self.ids.messages += 1;
        let name = join(scope, proto.name());
        let written = written_oneofs(proto);
        let messages = self.each(3, &proto.nested_type, |s, m| s.message(&name, m, Some(id)));
        let enums = self.each(4, &proto.enum_type, |s, e| {
            s.enumeration(&name, e, Some(id))
        });
        self.each(6, &proto.extension, |s, e| s.extension(&name, e, Some(id)));
        let fields = self.each(2, &proto.field, |s, field| s.field(&name, field, &written));
        let oneofs = self.each(8, &proto.oneof_decl, |s, oneof| Oneof {
            name: oneof.name().into(),
            options: {
                let scope = join(&name, oneof.name());
                s.options(
                    2,
                    &scope,
                    "google.protobuf.OneofOptions",
                    split!(oneof.options),
                )
            },
            source: s.source(),
        });
        let map_entry = proto
            .options
            .as_ref()
            .is_some_and(prost_types::MessageOptions::map_entry);
        let options = match map_entry {
            true => Options::default(),
            false => self.options(
                7,
                &name,
                "google.protobuf.MessageOptions",
                split!(proto.options),
            ),
        };
        let message = Message {
            id,
            file: FileId(self.index as u32),
            parent,
            fields: fields.into_iter().flatten().collect(),
            oneofs: oneofs
                .into_iter()
                .enumerate()
                .filter(|(index, _)| written.contains_key(&(*index as i32)))
                .map(|(_, oneof)| oneof)
                .collect(),
            messages,
            enums,
            reserved: ranges(
                proto
                    .reserved_range
                    .iter()
                    .map(|r| (r.start(), r.end() - 1)),
            ),
            reserved_names: names(&proto.reserved_name),
            extension_ranges: ranges(
                proto
                    .extension_range
                    .iter()
                    .map(|r| (r.start(), r.end() - 1)),
            ),
            map_entry,
            options,
            source: self.source(),
            name: name.into(),
        };
        self.messages.push(message);
        id
    }

    /// None when its type is not known, which is reported.
    fn field(
        &mut self,
        scope: &str,
        proto: &FieldDescriptorProto,
        oneofs: &HashMap<i32, usize>,
    ) -> Option<Field> {
        let full = join(scope, proto.name());
        let options = self.options(
            8,
            &full,
            "google.protobuf.FieldOptions",
            split!(proto.options),
        );
        let kind = self.kind(scope, proto)?;
        let oneof = proto
            .oneof_index
            .and_then(|index| oneofs.get(&index).copied());
        let cardinality = self.cardinality(scope, proto, kind);
        Some(Field {
            name: proto.name().into(),
            number: proto.number(),
            json_name: match &proto.json_name {
                Some(json_name) => json_name.as_str().into(),
                None => json_name(proto.name()).into(),
            },
            packed: cardinality == Cardinality::Repeated && self.is_packed(kind, &options),
            kind,
            cardinality,
            oneof,
            default: proto.default_value.as_deref().map(Name::from),
            options,
            source: self.source(),
        })
    }

    fn cardinality(&self, scope: &str, proto: &FieldDescriptorProto, kind: Kind) -> Cardinality {
        let is_message = matches!(kind, Kind::Message(_) | Kind::Group(_));
        match proto.label() {
            // The entry of a map lies in the message of the field, under a name made of the field's.
            Label::Repeated if self.is_map(scope, proto) => Cardinality::Map,
            Label::Repeated => Cardinality::Repeated,
            Label::Required => Cardinality::Required,
            Label::Optional
                if is_message
                    || self.syntax == Syntax::Proto2
                    || proto.oneof_index.is_some()
                    || proto.proto3_optional() =>
            {
                Cardinality::Explicit
            }
            Label::Optional => Cardinality::Implicit,
        }
    }

    fn is_map(&self, scope: &str, proto: &FieldDescriptorProto) -> bool {
        let name = proto.type_name();
        let short = name.rsplit('.').next().unwrap_or(name);
        let nested = self.messages.iter().rev();
        proto.type_name.is_some()
            && nested
                .take_while(|message| message.name.starts_with(scope))
                .any(|message| message.map_entry && *message.name == *join(scope, short))
    }

    fn is_packed(&self, kind: Kind, options: &Options) -> bool {
        let packable = match kind {
            Kind::Scalar(scalar) => !matches!(scalar, Scalar::String | Scalar::Bytes),
            Kind::Enum(_) => true,
            Kind::Message(_) | Kind::Group(_) => false,
        };
        let asked = options
            .get("packed")
            .and_then(prost_reflect::Value::as_bool);
        packable && asked.unwrap_or(self.syntax == Syntax::Proto3)
    }

    fn kind(&mut self, scope: &str, proto: &FieldDescriptorProto) -> Option<Kind> {
        let Some(name) = &proto.type_name else {
            let scalar = scalar(proto.r#type());
            if scalar.is_none() {
                let reason = Reason::Rule(format!("{} has no type", join(scope, proto.name())));
                self.report(&[], reason);
            }
            return scalar.map(Kind::Scalar);
        };
        match self.resolve(&[6], scope, name, Wanted::Type)? {
            Thing::Symbol(Symbol::Message(id)) if proto.r#type == Some(Type::Group as i32) => {
                Some(Kind::Group(id))
            }
            Thing::Symbol(Symbol::Message(id)) => Some(Kind::Message(id)),
            Thing::Symbol(Symbol::Enum(id)) => Some(Kind::Enum(id)),
            _ => None,
        }
    }

    fn extension(&mut self, scope: &str, proto: &FieldDescriptorProto, parent: Option<MessageId>) {
        let extendee = self.resolve(&[2], scope, proto.extendee(), Wanted::Message);
        let field = self.field(scope, proto, &HashMap::new());
        if let (Some(Thing::Symbol(Symbol::Message(extendee))), Some(field)) = (extendee, field) {
            self.extensions.push(Extension {
                file: FileId(self.index as u32),
                parent,
                name: join(scope, proto.name()).into(),
                extendee,
                field,
            });
        }
    }

    fn enumeration(
        &mut self,
        scope: &str,
        proto: &EnumDescriptorProto,
        parent: Option<MessageId>,
    ) -> EnumId {
        let id = EnumId(self.ids.enums);
        self.ids.enums += 1;
        let name = join(scope, proto.name());
        let values = self.each(2, &proto.value, |s, value| EnumValue {
            name: value.name().into(),
            number: value.number(),
            options: {
                let scope = join(scope, value.name());
                s.options(
                    3,
                    &scope,
                    "google.protobuf.EnumValueOptions",
                    split!(value.options),
                )
            },
            source: s.source(),
        });
        let options = self.options(
            3,
            &name,
            "google.protobuf.EnumOptions",
            split!(proto.options),
        );
        let declared = Enum {
            id,
            file: FileId(self.index as u32),
            parent,
            values,
            reserved: ranges(proto.reserved_range.iter().map(|r| (r.start(), r.end()))),
            reserved_names: names(&proto.reserved_name),
            closed: self.syntax == Syntax::Proto2,
            options,
            source: self.source(),
            name: name.into(),
        };
        self.enums.push(declared);
        id
    }

    fn service(&mut self, scope: &str, proto: &ServiceDescriptorProto) -> ServiceId {
        let id = ServiceId(self.ids.services);
        self.ids.services += 1;
        let name = join(scope, proto.name());
        let methods = self.each(2, &proto.method, |s, method| s.method(&name, method));
        let options = self.options(
            3,
            &name,
            "google.protobuf.ServiceOptions",
            split!(proto.options),
        );
        let service = Service {
            id,
            file: FileId(self.index as u32),
            methods: methods.into_iter().flatten().collect(),
            options,
            source: self.source(),
            name: name.into(),
        };
        self.services.push(service);
        id
    }

    fn method(&mut self, scope: &str, proto: &MethodDescriptorProto) -> Option<Method> {
        let full = join(scope, proto.name());
        let options = self.options(
            4,
            &full,
            "google.protobuf.MethodOptions",
            split!(proto.options),
        );
        let mut message = |tag, name| match self.resolve(&[tag], scope, name, Wanted::Message) {
            Some(Thing::Symbol(Symbol::Message(id))) => Some(id),
            _ => None,
        };
        let (input, output) = (
            message(2, proto.input_type()),
            message(3, proto.output_type()),
        );
        Some(Method {
            name: proto.name().into(),
            input: input?,
            output: output?,
            client_streaming: proto.client_streaming(),
            server_streaming: proto.server_streaming(),
            options,
            source: self.source(),
        })
    }

    /// The options of the element at hand; `tag` is the number of its field `options`.
    fn options(
        &mut self,
        tag: i32,
        scope: &str,
        sort: &str,
        options: Option<(&[UninterpretedOption], Vec<u8>)>,
    ) -> Options {
        self.path.push(tag);
        let kept = self.draft.options.get(&self.path);
        let (uninterpreted, standard) = options.unwrap_or_default();
        let encoded = match kept {
            Some(kept) => kept,
            // A text has nothing but options that are not interpreted yet.
            None if self.draft.text.is_some() => &[][..],
            None => &standard,
        };
        let context = self.context(scope);
        let (options, errors) = self.schema.read(context, sort, encoded, uninterpreted);
        for (index, reason) in errors {
            self.report(&[999, index as i32], reason);
        }
        self.path.pop();
        options
    }

    fn context<'b>(&self, scope: &'b str) -> Context<'b>
    where
        'a: 'b,
    {
        Context {
            names: self.names,
            file: self.index,
            scope,
        }
    }

    /// What a name means, or a report at the field `tag` of the element at hand.
    fn resolve(&mut self, tag: &[i32], scope: &str, name: &str, wanted: Wanted) -> Option<Thing> {
        match self.names.resolve(self.index, scope, name, wanted) {
            Ok((thing, _)) => Some(thing),
            Err(reason) => {
                self.report(tag, reason);
                None
            }
        }
    }

    fn report(&mut self, below: &[i32], reason: Reason) {
        let path = [&self.path[..], below].concat();
        let span = self
            .sources
            .span(&path)
            .or_else(|| self.sources.span(&self.path));
        self.errors.push(Error::new(self.draft, span, reason));
    }

    /// The element at hand: every declaration has its name as field 1.
    fn source(&self) -> Source {
        let name = [&self.path[..], &[1]].concat();
        self.sources.source(&self.path, &name)
    }
}

/// The oneofs that somebody wrote, and their index among these; `optional` of proto3 makes up others.
fn written_oneofs(proto: &DescriptorProto) -> HashMap<i32, usize> {
    let made_up = |oneof: i32| {
        let mut fields = proto.field.iter();
        fields.any(|field| field.oneof_index == Some(oneof) && field.proto3_optional())
    };
    let all = 0..proto.oneof_decl.len() as i32;
    let written = all.filter(|oneof| !made_up(*oneof));
    written
        .enumerate()
        .map(|(index, oneof)| (oneof, index))
        .collect()
}

fn ranges(ranges: impl Iterator<Item = (i32, i32)>) -> Vec<Range> {
    ranges.map(|(first, last)| Range { first, last }).collect()
}

fn names(names: &[String]) -> Vec<Name> {
    names.iter().map(|name| Name::from(name.as_str())).collect()
}

/// `foo_bar` to `fooBar`, as the compiler derives it.
fn json_name(name: &str) -> String {
    let mut json = String::with_capacity(name.len());
    let mut upper = false;
    for c in name.chars() {
        match c {
            '_' => upper = true,
            _ if std::mem::take(&mut upper) => json.push(c.to_ascii_uppercase()),
            _ => json.push(c),
        }
    }
    json
}

fn scalar(kind: Type) -> Option<Scalar> {
    Some(match kind {
        Type::Double => Scalar::Double,
        Type::Float => Scalar::Float,
        Type::Int64 => Scalar::Int64,
        Type::Uint64 => Scalar::Uint64,
        Type::Int32 => Scalar::Int32,
        Type::Fixed64 => Scalar::Fixed64,
        Type::Fixed32 => Scalar::Fixed32,
        Type::Bool => Scalar::Bool,
        Type::String => Scalar::String,
        Type::Bytes => Scalar::Bytes,
        Type::Uint32 => Scalar::Uint32,
        Type::Sfixed32 => Scalar::Sfixed32,
        Type::Sfixed64 => Scalar::Sfixed64,
        Type::Sint32 => Scalar::Sint32,
        Type::Sint64 => Scalar::Sint64,
        Type::Group | Type::Message | Type::Enum => return None,
    })
}
