//! Building of messages and enums.

use std::collections::HashMap;

use prost::Message as _;
use prost_types::{DescriptorProto, EnumDescriptorProto};

use super::{Builder, split};
use crate::model::{
    Enum, EnumId, EnumValue, FileId, Message, MessageId, Name, NumberRange, Oneof, Options,
};
use crate::parse::names::{join, synthetic};

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
        let outer = self.features;
        self.features = outer.with(&options);
        if map_entry {
            // Map entries and their contents are always length-delimited, whatever the features
            // around them.
            self.features.delimited = false;
            self.map_entries.insert(id);
        }
        let messages = self.each(3, &proto.nested_type, |s, m| s.message(&name, m, Some(id)));
        let enums = self.each(4, &proto.enum_type, |s, e| {
            s.enumeration(&name, e, Some(id))
        });
        self.each(6, &proto.extension, |s, e| s.extension(&name, e, Some(id)));
        let oneofs = self.oneofs(&name, proto);
        let fields = self.each(2, &proto.field, |s, field| s.field(&name, field, &oneofs));
        self.features = outer;
        let message = Message {
            id,
            file: FileId(self.index as u32),
            parent,
            fields: fields.into_iter().flatten().collect(),
            oneofs: oneofs.written,
            messages,
            enums,
            reserved: ranges(
                proto
                    .reserved_range
                    .iter()
                    .map(|r| (r.start(), r.end().saturating_sub(1))),
            ),
            reserved_names: names(&proto.reserved_name),
            reserved_docs: self.statement_docs(&[9, 10]),
            extensions_docs: self.statement_docs(&[5]),
            extension_ranges: ranges(
                proto
                    .extension_range
                    .iter()
                    .map(|r| (r.start(), r.end().saturating_sub(1))),
            ),
            map_entry,
            options,
            source: self.source(),
            name: name.into(),
        };
        self.messages.push(message);
        id
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
            source: s.source(),
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
            reserved_docs: self.statement_docs(&[4, 5]),
            closed: self.features.with(&options).closed,
            options,
            source: self.source(),
            name: name.into(),
        };
        self.enums.push(declared);
        id
    }
}

fn ranges(ranges: impl Iterator<Item = (i32, i32)>) -> Vec<NumberRange> {
    ranges
        .map(|(first, last)| NumberRange { first, last })
        .collect()
}

fn names(names: &[String]) -> Vec<Name> {
    names.iter().map(|name| Name::from(name.as_str())).collect()
}
