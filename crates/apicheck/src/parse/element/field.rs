//! Building of fields and extensions.

use prost::Message as _;
use prost_reflect::Value;
use prost_types::FieldDescriptorProto;
use prost_types::field_descriptor_proto::{Label, Type};

use super::declaration::Oneofs;
use super::field_rules::{self, is_packable};
use super::{Builder, split};
use crate::model::{
    Cardinality, Extension, Field, FileId, Kind, MessageId, Name, Options, Scalar, Symbol, Syntax,
    json_name,
};
use crate::parse::error::Reason;
use crate::parse::features::{Features, Presence};
use crate::parse::names::{ExpectedSort, Meaning, join};

impl Builder<'_> {
    /// Builds a field. Returns `None` after reporting an unknown type.
    pub(super) fn field(
        &mut self,
        scope: &str,
        proto: &FieldDescriptorProto,
        oneofs: &Oneofs,
    ) -> Option<Field> {
        let full = join(scope, proto.name());
        let options = self.options(
            8,
            &full,
            "google.protobuf.FieldOptions",
            split!(proto.options),
        );
        let oneof = proto
            .oneof_index
            .and_then(|index| oneofs.index.get(&index).copied());
        let around = oneof.map_or(self.features, |index| {
            self.features.with(&oneofs.written[index].options)
        });
        let features = around.with(&options);
        let mut kind = self.kind(scope, proto)?;
        let cardinality = self.cardinality(proto, kind, features);
        if let Kind::Message(id) = kind
            && features.delimited
            && cardinality != Cardinality::Map
        {
            kind = Kind::Group(id);
        }
        let field = Field {
            name: proto.name().into(),
            number: proto.number(),
            json_name: match &proto.json_name {
                Some(json_name) => json_name.as_str().into(),
                None => json_name(proto.name()).into(),
            },
            packed: cardinality == Cardinality::Repeated
                && self.is_packed(kind, &options, features),
            kind,
            cardinality,
            oneof,
            default: proto.default_value.as_deref().map(Name::from),
            options,
            source: self.cursor.source(),
        };
        field_rules::check_field(&mut self.cursor, &full, proto, &field);
        Some(field)
    }

    fn cardinality(
        &self,
        proto: &FieldDescriptorProto,
        kind: Kind,
        features: Features,
    ) -> Cardinality {
        let is_map = matches!(kind, Kind::Message(id) if self.map_entries.contains(&id));
        let is_message = matches!(kind, Kind::Message(_) | Kind::Group(_));
        // Messages, oneof members and `optional` always have presence; in editions, extensions as
        // well.
        let has_presence = is_message
            || proto.oneof_index.is_some()
            || proto.proto3_optional()
            || (proto.extendee.is_some() && matches!(self.cursor.draft.syntax, Syntax::Edition(_)));
        match (proto.label(), features.presence) {
            (Label::Repeated, _) if is_map => Cardinality::Map,
            (Label::Repeated, _) => Cardinality::Repeated,
            (Label::Required, _) => Cardinality::Required,
            (Label::Optional, Presence::Required) if proto.oneof_index.is_none() => {
                Cardinality::Required
            }
            (Label::Optional, Presence::Implicit) if !has_presence => Cardinality::Implicit,
            (Label::Optional, _) => Cardinality::Explicit,
        }
    }

    fn is_packed(&self, kind: Kind, options: &Options, features: Features) -> bool {
        let asked = options.get("packed").and_then(Value::as_bool);
        is_packable(kind) && asked.unwrap_or(features.packed)
    }

    fn kind(&mut self, scope: &str, proto: &FieldDescriptorProto) -> Option<Kind> {
        let Some(name) = &proto.type_name else {
            let scalar = scalar(proto.r#type());
            if scalar.is_none() {
                let reason = Reason::Rule(format!("{} has no type", join(scope, proto.name())));
                self.cursor.report(&[], reason);
            }
            return scalar.map(Kind::Scalar);
        };
        match self.resolve(&[6], scope, name, ExpectedSort::Type)? {
            Meaning::Symbol(Symbol::Message(id)) if proto.r#type == Some(Type::Group as i32) => {
                Some(Kind::Group(id))
            }
            Meaning::Symbol(Symbol::Message(id)) => Some(Kind::Message(id)),
            Meaning::Symbol(Symbol::Enum(id)) => Some(Kind::Enum(id)),
            _ => None,
        }
    }

    pub(super) fn extension(
        &mut self,
        scope: &str,
        proto: &FieldDescriptorProto,
        parent: Option<MessageId>,
    ) {
        let extendee = self.resolve(&[2], scope, proto.extendee(), ExpectedSort::Message);
        let field = self.field(scope, proto, &Oneofs::default());
        let block_docs = match self.cursor.path.split_last() {
            Some((index, list)) => self.cursor.sources.docs_of_block(list, *index),
            None => None,
        };
        if let (Some(Meaning::Symbol(Symbol::Message(extendee))), Some(field)) = (extendee, field) {
            self.extensions.push(Extension {
                file: FileId(self.index as u32),
                parent,
                name: join(scope, proto.name()).into(),
                extendee,
                field,
                block_docs,
            });
        }
    }
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
