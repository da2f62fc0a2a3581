//! Generates random messages of any type of the API, for tests.

use prost_reflect::{DynamicMessage, Kind, MapKey, Value};

use crate::codec::canonical;
use crate::schema::{self, Field, Message, Shape, Type};

/// A generator of messages from a seed (SplitMix64).
#[derive(Debug)]
pub(crate) struct Generator(pub(crate) u64);

impl Generator {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    fn text(&mut self) -> String {
        const TEXTS: [&str; 10] = [
            "",
            "a",
            "true",
            "1.10",
            "null",
            "x: y",
            "ü\n- z",
            "~",
            "#",
            " lead and trail ",
        ];
        TEXTS[self.below(TEXTS.len())].to_owned()
    }

    pub(crate) fn message(&mut self, schema: &'static Message, depth: usize) -> DynamicMessage {
        let mut message = DynamicMessage::new(schema.descriptor.clone());
        match schema.full_name() {
            "google.protobuf.Any" => {
                let types = [
                    "envoy.config.cluster.v3.Cluster",
                    "google.protobuf.Duration",
                ];
                let inner_schema = schema::find(types[self.below(2)]).unwrap();
                let inner = self.message(inner_schema, depth.saturating_sub(1));
                let mut value = Vec::new();
                canonical::encode(inner_schema, &inner, &mut value);
                message.set_field_by_number(1, Value::String(canonical::type_url(inner_schema)));
                message.set_field_by_number(2, Value::Bytes(value.into()));
            }
            "google.protobuf.Duration" | "google.protobuf.Timestamp" => {
                message.set_field_by_number(1, Value::I64(self.below(100_000) as i64));
                message.set_field_by_number(2, Value::I32(self.below(1_000_000_000) as i32));
            }
            "google.protobuf.FieldMask" => {
                let paths = vec![Value::String("foo_bar.baz".to_owned())];
                message.set_field_by_number(1, Value::List(paths));
            }
            // One alternative of its oneof must be set.
            "google.protobuf.Value" => {
                let number = [1, 3, 4, 5, 6][self.below(if depth == 0 { 3 } else { 5 })];
                let number = if number == 1 { 3 } else { number };
                self.set(&mut message, schema.field(number).unwrap(), depth);
            }
            _ => {
                for field in &schema.fields {
                    let taken = schema.fields.iter().any(|other| {
                        other.oneof.is_some()
                            && other.oneof == field.oneof
                            && message.has_field(&other.descriptor)
                    });
                    if !taken && self.below(3) == 0 {
                        self.set(&mut message, field, depth);
                    }
                }
            }
        }
        message
    }

    fn set(&mut self, message: &mut DynamicMessage, field: &'static Field, depth: usize) {
        let is_message = |ty: &'static Type| ty.message().is_some();
        let value = match &field.shape {
            Shape::One(ty) | Shape::List(ty) | Shape::Map { value: ty, .. }
                if depth == 0 && is_message(ty) =>
            {
                return;
            }
            Shape::One(ty) => self.value(ty, depth),
            Shape::List(ty) => Value::List((0..3).map(|_| self.value(ty, depth)).collect()),
            Shape::Map { key, value } => Value::Map(
                (0..3)
                    .map(|_| (self.key(key), self.value(value, depth)))
                    .collect(),
            ),
        };
        message.set_field(&field.descriptor, value);
    }

    fn key(&mut self, key_type: &Kind) -> MapKey {
        match key_type {
            Kind::String => MapKey::String(self.text()),
            Kind::Uint32 => MapKey::U32(self.next() as u32),
            Kind::Uint64 => MapKey::U64(self.next()),
            Kind::Int32 => MapKey::I32(self.next() as i32),
            Kind::Int64 => MapKey::I64(self.next() as i64),
            other => panic!("the API has no map keys of type {other:?} so far"),
        }
    }

    fn value(&mut self, ty: &'static Type, depth: usize) -> Value {
        let bits = self.next();
        match &ty.kind {
            Kind::Double => {
                Value::F64([0.1, f64::INFINITY, -1e300, f64::MIN_POSITIVE][self.below(4)])
            }
            Kind::Float => Value::F32([0.1, f32::NEG_INFINITY, 1e-30, f32::MAX][self.below(4)]),
            Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => Value::I32(bits as i32),
            Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => Value::I64(bits as i64),
            Kind::Uint32 | Kind::Fixed32 => Value::U32(bits as u32),
            Kind::Uint64 | Kind::Fixed64 => Value::U64(bits),
            Kind::Bool => Value::Bool(bits & 1 == 1),
            Kind::String => Value::String(self.text()),
            Kind::Bytes => Value::Bytes(bits.to_le_bytes()[..self.below(8)].to_vec().into()),
            Kind::Enum(descriptor) => {
                let values: Vec<i32> = descriptor.values().map(|value| value.number()).collect();
                Value::EnumNumber(values[self.below(values.len())])
            }
            Kind::Message(_) => {
                Value::Message(self.message(ty.message().unwrap(), depth.saturating_sub(1)))
            }
        }
    }
}
