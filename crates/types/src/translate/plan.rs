//! Plans: the translation of one message, compiled from the descriptors of both majors.

use std::collections::HashMap;

use prost::encoding::WireType;
use prost_reflect::{EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor, OneofDescriptor};

use super::correction::Correction;
use super::matching::{self, Matches, Renames};
use super::report::{Incompatibility, TreeError};

/// The translation of one message, without those of the messages in it.
#[derive(Debug)]
pub(super) struct Plan {
    /// Full name of the result.
    pub(super) to: String,
    pub(super) content: Content,
    /// Whether source and result have one type. Then `fields` has only fields with messages.
    pub(super) same: bool,
    /// Fields, sorted by number.
    fields: Vec<FieldPlan>,
    /// Numbers of all fields of the result, sorted, unless it has the type of the source.
    numbers: Vec<u32>,
    /// Fields of the result with a fixed value.
    pub(super) fixed: Vec<Fixed>,
    /// Whether the result belongs to an older major, which has less fields.
    pub(super) down: bool,
}

/// A field of the result with a fixed value.
#[derive(Debug)]
pub(super) struct Fixed {
    pub(super) number: u32,
    pub(super) name: String,
    pub(super) value: i32,
}

/// Contents of a message that need more than its fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    Fields,
    /// `google.protobuf.Any`.
    Any,
    /// `TypedStruct`: a type URL, and the message as a `Struct`.
    TypedStruct,
    /// `Struct`, `Value`, `Duration`, …: the same in all majors, with a JSON form of its own.
    WellKnown,
}

impl Content {
    pub(super) fn of(message: &str) -> Content {
        match message {
            "google.protobuf.Any" => Content::Any,
            "udpa.type.v1.TypedStruct" | "xds.type.v3.TypedStruct" => Content::TypedStruct,
            _ if message.starts_with("google.protobuf.") => Content::WellKnown,
            _ => Content::Fields,
        }
    }
}

/// The translation of one field.
#[derive(Debug)]
pub(super) struct FieldPlan {
    pub(super) number: u32,
    pub(super) name: String,
    pub(super) json_name: String,
    pub(super) shape: Shape,
    pub(super) action: Action,
    /// The field of the result.
    pub(super) to: Target,
    /// Number of the field that has this field's place if both are set: it replaces this one.
    pub(super) yields_to: Option<u32>,
    /// Encoding of an item and its length in bytes, 0 for varints, if the list can be packed.
    pub(super) packable: Option<(WireType, usize)>,
}

/// A field of the result.
#[derive(Debug, Default)]
pub(super) struct Target {
    pub(super) number: u32,
    pub(super) name: String,
    pub(super) json_name: String,
    pub(super) is_list: bool,
    /// Name of its oneof, if fields meet there that were not in one oneof before.
    pub(super) oneof: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    One,
    List,
    Map,
}

/// The translation of the values of a field.
#[derive(Debug)]
pub(super) enum Action {
    Copy,
    /// Integers of another type: of the source, and of the result.
    Integer(Integer, Integer),
    Enum(EnumPlan),
    Message(Child),
    Drop(Incompatibility),
}

/// The plan of the messages in a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Child {
    pub(super) slot: usize,
    /// Whether the message keeps its type, which the message around it demands.
    pub(super) same: bool,
}

/// Integer types with one encoding, and their ranges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Integer {
    pub(super) name: &'static str,
    pub(super) min: i128,
    pub(super) max: i128,
}

/// Values of an enum, and what became of them.
#[derive(Debug)]
pub(super) struct EnumPlan {
    /// Full name of the enum of the result.
    pub(super) to: String,
    /// Name and number in the source, and in the result.
    pub(super) values: Vec<(EnumValue, Option<EnumValue>)>,
    /// Numbers of the enum of the result.
    pub(super) numbers: Vec<i32>,
    /// Whether an explicit zero differs from an unset field.
    pub(super) explicit: bool,
}

pub(super) type EnumValue = (String, i32);

impl Plan {
    /// Returns all fields, sorted by number; of a message that keeps its type, those with messages.
    pub(super) fn fields(&self) -> &[FieldPlan] {
        &self.fields
    }

    pub(super) fn field(&self, number: u32) -> Option<&FieldPlan> {
        let index = self
            .fields
            .binary_search_by_key(&number, |field| field.number);
        Some(&self.fields[index.ok()?])
    }

    /// Returns the field with this proto or JSON name.
    pub(super) fn field_named(&self, name: &str) -> Option<&FieldPlan> {
        let mut fields = self.fields.iter();
        fields.find(|field| field.name == name || field.json_name == name)
    }

    /// Returns whether some field of the message is replaced by another one.
    pub(super) fn has_replaced(&self) -> bool {
        self.fields.iter().any(|field| field.yields_to.is_some())
    }

    /// Returns whether the result defines a field with this number.
    pub(super) fn defines(&self, number: u32) -> bool {
        self.numbers.binary_search(&number).is_ok()
    }

    /// Returns whether the message can be copied: it keeps its type, and nothing in it can change.
    pub(super) fn is_verbatim(&self) -> bool {
        let leaf = self.same && self.fields.is_empty();
        match self.content {
            Content::Fields => leaf,
            Content::WellKnown => true,
            Content::Any | Content::TypedStruct => false,
        }
    }
}

/// Looks up the plan of a message: its slot, and the full name of its result.
pub(super) trait Slots {
    /// Returns the slot of a message, and the name of its result, which a removed message lacks; `None` for a message
    /// without slot.
    fn find(&self, message: &str) -> Option<(usize, Option<String>)>;
}

/// Compiles the plan of a message that keeps its type.
pub(super) fn keep(message: &MessageDescriptor, slots: &dyn Slots) -> Plan {
    let mut fields: Vec<FieldPlan> = message
        .fields()
        .filter_map(|field| {
            let child = child(&value_kind(&field), slots)?;
            Some(FieldPlan {
                number: field.number(),
                name: field.name().to_owned(),
                json_name: field.json_name().to_owned(),
                shape: Shape::of(&field),
                action: Action::Message(child),
                to: Target::of(&field),
                yields_to: None,
                packable: None,
            })
        })
        .collect();
    fields.sort_by_key(|field| field.number);
    Plan {
        to: message.full_name().to_owned(),
        content: Content::of(message.full_name()),
        same: true,
        fields,
        numbers: Vec::new(),
        fixed: Vec::new(),
        down: false,
    }
}

/// Returns the plan of a message in a field that keeps its type; `None` if the message has none, or never changes.
fn child(kind: &Kind, slots: &dyn Slots) -> Option<Child> {
    let name = kind.as_message()?.full_name();
    if Content::of(name) == Content::WellKnown {
        return None;
    }
    let (slot, _) = slots.find(name)?;
    Some(Child { slot, same: true })
}

/// Compiles the plan of a message that becomes another one. `chain` has the message, those in between, and the result.
pub(super) fn change(
    chain: &[MessageDescriptor],
    down: bool,
    renames: &Renames,
    slots: &dyn Slots,
    errors: &mut Vec<TreeError>,
) -> Plan {
    let (from, to) = (&chain[0], &chain[chain.len() - 1]);
    let steps: Vec<Matches<FieldDescriptor>> = chain
        .windows(2)
        .map(|pair| {
            if down {
                inverted(matching::fields(renames, &pair[1], &pair[0], errors))
            } else {
                matching::fields(renames, &pair[0], &pair[1], errors)
            }
        })
        .collect();
    let mut compiling = Compiling {
        down,
        renames,
        slots,
        errors,
        to,
    };
    let mut fields: Vec<FieldPlan> = from
        .fields()
        .map(|field| compiling.field(&field, &steps, chain))
        .collect();
    fields.sort_by_key(|field| field.number);
    join_oneofs(from, to, &mut fields);
    yield_places(&steps, &mut fields);
    let mut numbers: Vec<u32> = to.fields().map(|field| field.number()).collect();
    numbers.sort_unstable();
    let fixed = renames.corrections.iter().filter_map(|one| match one {
        Correction::Fixed {
            message,
            field,
            value,
            ..
        } if !down && *message == to.full_name() => Some(Fixed {
            number: to.get_field_by_name(field)?.number(),
            name: (*field).to_owned(),
            value: *value,
        }),
        _ => None,
    });
    Plan {
        to: to.full_name().to_owned(),
        content: Content::of(from.full_name()),
        same: false,
        fields,
        numbers,
        fixed: fixed.collect(),
        down,
    }
}

fn inverted<T>(matches: Matches<T>) -> Matches<T> {
    matches.into_iter().map(|(old, new)| (new, old)).collect()
}

struct Compiling<'a> {
    down: bool,
    renames: &'a Renames,
    slots: &'a dyn Slots,
    errors: &'a mut Vec<TreeError>,
    to: &'a MessageDescriptor,
}

impl Compiling<'_> {
    fn field(
        &mut self,
        field: &FieldDescriptor,
        steps: &[Matches<FieldDescriptor>],
        chain: &[MessageDescriptor],
    ) -> FieldPlan {
        // The field in each major.
        let mut path = vec![field.clone()];
        let mut missing = None;
        for (index, step) in steps.iter().enumerate() {
            let last = &path[path.len() - 1];
            match step.iter().find(|(old, _)| old.number() == last.number()) {
                Some((_, found)) => path.push(found.clone()),
                None => {
                    let message = chain[index + 1].full_name().to_owned();
                    missing = Some(Incompatibility::NoField { message });
                    break;
                }
            }
        }
        let (action, to) = match missing {
            Some(cause) => (Action::Drop(cause), Target::default()),
            None => (self.action(&path), Target::of(&path[path.len() - 1])),
        };
        FieldPlan {
            number: field.number(),
            name: field.name().to_owned(),
            json_name: field.json_name().to_owned(),
            shape: Shape::of(field),
            action,
            to,
            yields_to: None,
            packable: packable(&value_kind(field)),
        }
    }

    fn action(&mut self, path: &[FieldDescriptor]) -> Action {
        let (from, to) = (&path[0], &path[path.len() - 1]);
        let (kind, into) = (value_kind(from), value_kind(to));
        let other_type = || {
            Action::Drop(Incompatibility::OtherType {
                message: self.to.full_name().to_owned(),
                field: to.name().to_owned(),
                from: type_name(from),
                to: type_name(to),
            })
        };
        let same_keys =
            || map_key(from).map(|key| kind_name(&key)) == map_key(to).map(|key| kind_name(&key));
        if from.is_map() != to.is_map() || !same_keys() || from.is_group() != to.is_group() {
            return other_type();
        }
        match (&kind, &into) {
            (Kind::Message(message), Kind::Message(result)) => {
                let same = message.full_name() == result.full_name();
                if same && Content::of(message.full_name()) == Content::WellKnown {
                    return Action::Copy;
                }
                match self.slots.find(message.full_name()) {
                    Some((slot, _)) if same => Action::Message(Child { slot, same }),
                    Some((slot, Some(becomes))) if becomes == result.full_name() => {
                        Action::Message(Child { slot, same })
                    }
                    _ => other_type(),
                }
            }
            (Kind::Enum(old), Kind::Enum(new)) if old.full_name() == new.full_name() => {
                Action::Copy
            }
            (Kind::Enum(_), Kind::Enum(_)) => Action::Enum(self.values(path)),
            _ if kind == into => Action::Copy,
            _ => match (Integer::of(&kind), Integer::of(&into)) {
                (Some(old), Some(new)) => Action::Integer(old, new),
                _ => other_type(),
            },
        }
    }

    /// Returns the plan of the enum that a field has in each major.
    fn values(&mut self, path: &[FieldDescriptor]) -> EnumPlan {
        let enums: Vec<EnumDescriptor> = path
            .iter()
            .filter_map(|field| value_kind(field).as_enum().cloned())
            .collect();
        let steps: Vec<_> = enums
            .windows(2)
            .map(|pair| {
                if self.down {
                    inverted(matching::values(
                        self.renames,
                        &pair[1],
                        &pair[0],
                        self.errors,
                    ))
                } else {
                    matching::values(self.renames, &pair[0], &pair[1], self.errors)
                }
            })
            .collect();
        // A number can have several names.
        let pair =
            |value: &prost_reflect::EnumValueDescriptor| (value.name().to_owned(), value.number());
        let values = enums[0].values().map(|value| {
            let mut at = Some(value.clone());
            for step in &steps {
                at = at.and_then(|at| {
                    let same_name = step.iter().find(|(old, _)| old.name() == at.name());
                    let same = || step.iter().find(|(old, _)| old.number() == at.number());
                    same_name.or_else(same).map(|(_, new)| new.clone())
                });
            }
            (pair(&value), at.as_ref().map(pair))
        });
        let (from, last) = (&path[0], &enums[enums.len() - 1]);
        EnumPlan {
            values: values.collect(),
            to: last.full_name().to_owned(),
            numbers: last.values().map(|value| value.number()).collect(),
            explicit: from.supports_presence() || from.is_list() || from.is_map(),
        }
    }
}

impl Shape {
    fn of(field: &FieldDescriptor) -> Shape {
        match (field.is_map(), field.is_list()) {
            (true, _) => Shape::Map,
            (_, true) => Shape::List,
            _ => Shape::One,
        }
    }
}

impl Target {
    fn of(field: &FieldDescriptor) -> Target {
        Target {
            number: field.number(),
            name: field.name().to_owned(),
            json_name: field.json_name().to_owned(),
            is_list: field.is_list(),
            oneof: None,
        }
    }
}

impl Integer {
    fn of(kind: &Kind) -> Option<Integer> {
        let integer = |name, min: i128, max: i128| Some(Integer { name, min, max });
        match kind {
            Kind::Int32 => integer("int32", i32::MIN.into(), i32::MAX.into()),
            Kind::Int64 => integer("int64", i64::MIN.into(), i64::MAX.into()),
            Kind::Uint32 => integer("uint32", 0, u32::MAX.into()),
            Kind::Uint64 => integer("uint64", 0, u64::MAX.into()),
            _ => None,
        }
    }
}

/// Marks the fields of a oneof of the result that were not in one oneof of the source.
fn join_oneofs(from: &MessageDescriptor, to: &MessageDescriptor, fields: &mut [FieldPlan]) {
    let real = |field: Option<FieldDescriptor>| {
        let oneof = field?.containing_oneof();
        oneof.filter(|oneof| !oneof.is_synthetic())
    };
    let name = |oneof: &OneofDescriptor| oneof.name().to_owned();
    let mut origins: HashMap<String, Vec<Option<String>>> = HashMap::new();
    let mut of_field = Vec::with_capacity(fields.len());
    for field in fields.iter() {
        let result = match field.action {
            Action::Drop(_) => None,
            _ => real(to.get_field(field.to.number)).as_ref().map(name),
        };
        if let Some(result) = &result {
            let origin = real(from.get_field(field.number)).as_ref().map(name);
            origins.entry(result.clone()).or_default().push(origin);
        }
        of_field.push(result);
    }
    for (field, oneof) in fields.iter_mut().zip(of_field) {
        let joined = oneof.as_ref().and_then(|oneof| origins.get(oneof));
        let is_new = |origins: &Vec<Option<String>>| {
            origins.len() > 1
                && origins
                    .iter()
                    .any(|one| one.is_none() || *one != origins[0])
        };
        field.to.oneof = oneof.clone().filter(|_| joined.is_some_and(is_new));
    }
}

/// Marks the fields that share a field of the result with their replacement, which is the first match.
fn yield_places(steps: &[Matches<FieldDescriptor>], fields: &mut [FieldPlan]) {
    for index in 0..fields.len() {
        let target = fields[index].to.number;
        let dropped = |field: &FieldPlan| matches!(field.action, Action::Drop(_));
        if dropped(&fields[index]) {
            continue;
        }
        let rank = |field: &FieldPlan| {
            let first = steps.first().into_iter().flatten();
            first
                .map(|(old, _)| old.number())
                .position(|number| number == field.number)
        };
        let others = fields
            .iter()
            .filter(|other| !dropped(other) && other.to.number == target);
        let first = others.min_by_key(|other| rank(other));
        let winner = first.map(|field| field.number);
        fields[index].yields_to = winner.filter(|number| *number != fields[index].number);
    }
}

/// Returns the type of the single value, of the items, or of the map values.
pub(super) fn value_kind(field: &FieldDescriptor) -> Kind {
    match field.kind() {
        Kind::Message(entry) if field.is_map() => entry.map_entry_value_field().kind(),
        kind => kind,
    }
}

fn map_key(field: &FieldDescriptor) -> Option<Kind> {
    let kind = field.kind();
    let entry = kind.as_message().filter(|_| field.is_map())?;
    Some(entry.map_entry_key_field().kind())
}

fn type_name(field: &FieldDescriptor) -> String {
    let value = kind_name(&value_kind(field));
    match map_key(field) {
        Some(key) => format!("map<{}, {value}>", kind_name(&key)),
        None if field.is_list() => format!("repeated {value}"),
        None => value,
    }
}

fn kind_name(kind: &Kind) -> String {
    match kind {
        Kind::Message(message) => message.full_name().to_owned(),
        Kind::Enum(of) => of.full_name().to_owned(),
        scalar => format!("{scalar:?}").to_lowercase(),
    }
}

fn packable(kind: &Kind) -> Option<(WireType, usize)> {
    match kind.wire_type() {
        WireType::Varint => Some((WireType::Varint, 0)),
        WireType::ThirtyTwoBit => Some((WireType::ThirtyTwoBit, 4)),
        WireType::SixtyFourBit => Some((WireType::SixtyFourBit, 8)),
        _ => None,
    }
}
