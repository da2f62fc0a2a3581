//! Building of messages, enums and services.

use std::collections::HashMap;

use prost::Message as _;
use prost_types::{
    DescriptorProto, EnumDescriptorProto, MessageOptions, MethodDescriptorProto,
    ServiceDescriptorProto,
};

use super::options::UNINTERPRETED;
use super::{Builder, clash, ranges, split};
use crate::model::{
    Enum, EnumId, EnumValue, FileId, Message, MessageId, Method, Name, NumberRange, Oneof, Options,
    Reserved, Service, ServiceId, Symbol, Syntax,
};
use crate::parse::names::{ExpectedSort, Meaning, join, synthetic};

/// Oneofs of a message.
#[derive(Debug, Default)]
pub(super) struct Oneofs {
    pub(super) written: Vec<Oneof>,
    /// Index in the descriptor to index in `written`.
    pub(super) index: HashMap<i32, usize>,
}

impl Builder<'_> {
    pub(super) fn message(
        &mut self,
        scope: &str,
        proto: &DescriptorProto,
        parent: Option<MessageId>,
    ) -> MessageId {
        let id = MessageId(self.ids.messages);
        self.ids.messages += 1;
        let name = join(scope, proto.name());
        let map_entry = proto
            .options
            .as_ref()
            .is_some_and(MessageOptions::map_entry);
        let options = if map_entry {
            Options::default()
        } else {
            self.options(
                7,
                &name,
                "google.protobuf.MessageOptions",
                split!(proto.options),
            )
        };
        let outer = self.features;
        self.features = outer.with(&options);
        if map_entry {
            // Map entries and their contents are always length-delimited, whatever the features
            // around them.
            self.features.delimited = false;
            self.map_entries.insert(id);
        }
        let messages = self.nested(&name, proto, id);
        let enums = self.each(4, &proto.enum_type, |s, e| {
            s.enumeration(&name, e, Some(id))
        });
        self.each(6, &proto.extension, |s, e| s.extension(&name, e, Some(id)));
        let oneofs = self.oneofs(&name, proto);
        let fields = self.each(2, &proto.field, |s, field| s.field(&name, field, &oneofs));
        let extension_options = self.extension_options(&name, proto);
        self.check_message(&name, proto, &options);
        self.features = outer;
        let message = Message {
            id,
            file: FileId(self.index as u32),
            parent,
            fields: fields.into_iter().flatten().collect(),
            oneofs: oneofs.written,
            messages,
            enums,
            reserved: Reserved {
                numbers: number_ranges(
                    proto
                        .reserved_range
                        .iter()
                        .map(|r| (r.start(), r.end().saturating_sub(1))),
                ),
                names: names(&proto.reserved_name),
                docs: self.cursor.statement_docs(&[9, 10]),
            },
            extensions_docs: self.cursor.statement_docs(&[5]),
            extension_ranges: number_ranges(
                proto
                    .extension_range
                    .iter()
                    .map(|r| (r.start(), r.end().saturating_sub(1))),
            ),
            extension_options,
            map_entry,
            options,
            source: self.cursor.source(),
            name: name.into(),
        };
        self.messages.push(message);
        id
    }

    /// Builds the nested messages, map entries included.
    fn nested(&mut self, name: &str, proto: &DescriptorProto, id: MessageId) -> Vec<MessageId> {
        let fields = proto.field.iter().zip(0..);
        let by_type: HashMap<&str, i32> = fields
            .filter_map(|(field, index)| Some((field.type_name.as_deref()?, index)))
            .collect();
        let own = self.cursor.path.clone();
        self.each(3, &proto.nested_type, |s, nested| {
            let options = nested.options.as_ref();
            let is_entry = options.is_some_and(MessageOptions::map_entry);
            let field = by_type.get(nested.name()).filter(|_| is_entry);
            s.cursor.map_field = field.map(|index| [&own[..], &[2, *index]].concat());
            let id = s.message(name, nested, Some(id));
            s.cursor.map_field = None;
            id
        })
    }

    /// Returns the options of each extension range.
    fn extension_options(&mut self, name: &str, proto: &DescriptorProto) -> Vec<Options> {
        self.each(5, &proto.extension_range, |s, range| {
            s.options(
                3,
                name,
                "google.protobuf.ExtensionRangeOptions",
                split!(range.options),
            )
        })
    }

    /// Reports violations of the current message that concern no other element.
    fn check_message(&mut self, name: &str, proto: &DescriptorProto, options: &Options) {
        let written = proto.options.iter().flat_map(|o| &o.uninterpreted_option);
        for (option, index) in written.zip(0..) {
            if matches!(&option.name[..], [part] if part.name_part == "map_entry") {
                let why = "map_entry is set by compilers: expected a field of type map<K, V>";
                self.cursor
                    .rule(&[7, UNINTERPRETED, index], format!("{name}: {why}"));
            }
        }
        clash::check_json_names(&mut self.cursor, name, proto, options, self.features.json);
        clash::check_reserved_names(&mut self.cursor, name, 10, &proto.reserved_name);
        ranges::check_message_ranges(&mut self.cursor, name, proto);
        if self.cursor.draft.syntax != Syntax::Proto3 || !self.cursor.is_text() {
            return;
        }
        if options.is_true("message_set_wire_format") {
            let why = "message_set_wire_format is not valid in proto3";
            self.cursor.rule(&[7], format!("{name}: {why}"));
        }
        if !proto.extension_range.is_empty() {
            let why = "extension ranges are not valid in proto3";
            self.cursor.rule(&[5], format!("{name}: {why}"));
        }
    }

    /// Builds the oneofs of the source, without the synthetic ones of proto3 `optional`.
    fn oneofs(&mut self, message: &str, proto: &DescriptorProto) -> Oneofs {
        let synthetic = synthetic(proto);
        let all = self.each(8, &proto.oneof_decl, |s, oneof| Oneof {
            name: oneof.name().into(),
            options: {
                let scope = join(message, oneof.name());
                s.options(
                    2,
                    &scope,
                    "google.protobuf.OneofOptions",
                    split!(oneof.options),
                )
            },
            source: s.cursor.source(),
        });
        let mut oneofs = Oneofs::default();
        for (index, oneof) in all.into_iter().enumerate() {
            let index = index as i32;
            if !synthetic.contains(&index) {
                oneofs.index.insert(index, oneofs.written.len());
                oneofs.written.push(oneof);
            }
        }
        oneofs
    }

    pub(super) fn enumeration(
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
            source: s.cursor.source(),
        });
        let options = self.options(
            3,
            &name,
            "google.protobuf.EnumOptions",
            split!(proto.options),
        );
        clash::check_enum_names(&mut self.cursor, &name, proto, &options);
        clash::check_reserved_names(&mut self.cursor, &name, 5, &proto.reserved_name);
        ranges::check_enum_ranges(&mut self.cursor, &name, proto);
        let declared = Enum {
            id,
            file: FileId(self.index as u32),
            parent,
            values,
            reserved: Reserved {
                numbers: number_ranges(proto.reserved_range.iter().map(|r| (r.start(), r.end()))),
                names: names(&proto.reserved_name),
                docs: self.cursor.statement_docs(&[4, 5]),
            },
            closed: self.features.with(&options).closed,
            options,
            source: self.cursor.source(),
            name: name.into(),
        };
        self.enums.push(declared);
        id
    }

    /// Builds a service.
    pub(super) fn service(&mut self, scope: &str, proto: &ServiceDescriptorProto) -> ServiceId {
        let id = ServiceId(self.ids.services);
        self.ids.services += 1;
        let name = join(scope, proto.name());
        clash::check_methods(&mut self.cursor, &name, proto);
        let methods = self.each(2, &proto.method, |s, one| s.method(&name, one));
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
            source: self.cursor.source(),
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
        let mut message = |tag, name| match self.resolve(&[tag], scope, name, ExpectedSort::Message)
        {
            Some(Meaning::Symbol(Symbol::Message(id))) => Some(id),
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
            source: self.cursor.source(),
        })
    }
}

fn number_ranges(ranges: impl Iterator<Item = (i32, i32)>) -> Vec<NumberRange> {
    ranges
        .map(|(first, last)| NumberRange { first, last })
        .collect()
}

fn names(names: &[String]) -> Vec<Name> {
    names.iter().map(|name| Name::from(name.as_str())).collect()
}
