//! Compiled rules of messages and fields, from `validate.MessageRules` and `validate.FieldRules`.

use std::collections::HashSet;

use envoy_types::pb::validate as pgv;
use envoy_types::pb::validate::field_rules::Type as Rules;
use prost_reflect::{
    DynamicMessage, EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor, ReflectMessage, Value,
};

pub(crate) mod broken;
mod number;
mod string;

use self::broken::BrokenRule;
use self::number::{Nanos, Range};
use self::string::{BytesRules, StringRules};

/// The rules of a message type.
#[derive(Debug)]
pub(crate) struct MessageRules {
    /// `validate.disabled` or `validate.ignored`: the message is not checked.
    pub(crate) off: bool,
    pub(crate) required_oneofs: Vec<RequiredOneof>,
    /// Numbers of the fields that must be set, with the rule that an unset field breaks.
    pub(crate) broken_when_unset: Vec<(u32, BrokenRule)>,
}

/// A oneof of which one field must be set.
#[derive(Debug)]
pub(crate) struct RequiredOneof {
    pub(crate) name: String,
    pub(crate) fields: Vec<u32>,
}

impl MessageRules {
    /// Compiles the rules of a message from its options and the rules of its fields, by number.
    pub(crate) fn compile<'a>(
        descriptor: &MessageDescriptor,
        fields: impl Iterator<Item = (u32, Option<&'a FieldRules>)>,
    ) -> MessageRules {
        let options = descriptor.options();
        let on = |name: &str| flag(&options, name);
        let required_oneofs = descriptor
            .oneofs()
            .filter(|oneof| flag(&oneof.options(), "validate.required"))
            .map(|oneof| RequiredOneof {
                name: oneof.name().to_owned(),
                fields: oneof.fields().map(|field| field.number()).collect(),
            })
            .collect();
        let broken_when_unset = fields
            .filter_map(|(number, rules)| Some((number, rules?.broken_when_unset.clone()?)))
            .collect();
        MessageRules {
            off: on("validate.disabled") || on("validate.ignored"),
            required_oneofs,
            broken_when_unset,
        }
    }
}

/// The rules of a field, of a list's items, or of a map's keys or values.
#[derive(Debug)]
pub(crate) struct FieldRules {
    /// `message.skip`: the message in the field is not checked.
    pub(crate) skip: bool,
    check: Check,
    broken_when_unset: Option<BrokenRule>,
}

#[derive(Debug)]
enum Check {
    Nothing,
    Float(Range<f32>),
    Double(Range<f64>),
    Int32(Range<i32>),
    Int64(Range<i64>),
    Uint32(Range<u32>),
    Uint64(Range<u64>),
    Bool(bool),
    String(Box<StringRules>),
    Bytes(Box<BytesRules>),
    Enum {
        rules: pgv::EnumRules,
        descriptor: Option<EnumDescriptor>,
    },
    Repeated {
        rules: Box<pgv::RepeatedRules>,
        items: Option<Box<FieldRules>>,
    },
    Map {
        rules: Box<pgv::MapRules>,
        keys: Option<Box<FieldRules>>,
        values: Option<Box<FieldRules>>,
    },
    Any(pgv::AnyRules),
    Duration(Range<Nanos>),
    Timestamp(Range<Nanos>),
}

impl FieldRules {
    /// Compiles the rules of a field; `None` if it has none.
    pub(crate) fn compile(descriptor: &FieldDescriptor) -> Option<FieldRules> {
        let options = descriptor.options();
        let extension = descriptor
            .parent_pool()
            .get_extension_by_name("validate.rules")?;
        if !options.has_extension(&extension) {
            return None;
        }
        let rules = options.get_extension(&extension);
        let rules = rules.as_message()?.transcode_to::<pgv::FieldRules>().ok()?;
        let mut compiled = FieldRules::from_pgv(&rules, &descriptor.kind());
        compiled.broken_when_unset = compiled.when_unset(&rules, descriptor);
        Some(compiled)
    }

    pub(crate) fn from_pgv(rules: &pgv::FieldRules, kind: &Kind) -> FieldRules {
        let check = match &rules.r#type {
            None => Check::Nothing,
            Some(Rules::Float(r)) => Check::Float(r.into()),
            Some(Rules::Double(r)) => Check::Double(r.into()),
            Some(Rules::Int32(r)) => Check::Int32(r.into()),
            Some(Rules::Sint32(r)) => Check::Int32(r.into()),
            Some(Rules::Sfixed32(r)) => Check::Int32(r.into()),
            Some(Rules::Int64(r)) => Check::Int64(r.into()),
            Some(Rules::Sint64(r)) => Check::Int64(r.into()),
            Some(Rules::Sfixed64(r)) => Check::Int64(r.into()),
            Some(Rules::Uint32(r)) => Check::Uint32(r.into()),
            Some(Rules::Fixed32(r)) => Check::Uint32(r.into()),
            Some(Rules::Uint64(r)) => Check::Uint64(r.into()),
            Some(Rules::Fixed64(r)) => Check::Uint64(r.into()),
            Some(Rules::Bool(r)) => r.r#const.map_or(Check::Nothing, Check::Bool),
            Some(Rules::String(r)) => Check::String(Box::new(StringRules::compile(r.clone()))),
            Some(Rules::Bytes(r)) => Check::Bytes(Box::new(BytesRules::compile(r.clone()))),
            Some(Rules::Enum(r)) => Check::Enum {
                rules: r.clone(),
                descriptor: kind.as_enum().cloned(),
            },
            Some(Rules::Repeated(r)) => Check::Repeated {
                items: r
                    .items
                    .as_ref()
                    .map(|items| Box::new(FieldRules::from_pgv(items, kind))),
                rules: r.clone(),
            },
            Some(Rules::Map(r)) => FieldRules::map(r, kind),
            Some(Rules::Any(r)) => Check::Any(r.clone()),
            Some(Rules::Duration(r)) => Check::Duration(r.into()),
            Some(Rules::Timestamp(r)) => Check::Timestamp(r.into()),
        };
        let skip = rules.message.as_ref().is_some_and(pgv::MessageRules::skip);
        FieldRules {
            skip,
            check,
            broken_when_unset: None,
        }
    }

    fn map(rules: &pgv::MapRules, kind: &Kind) -> Check {
        let entry = kind.as_message();
        let compile = |rules: &Option<Box<pgv::FieldRules>>, field: Option<FieldDescriptor>| {
            Some(Box::new(FieldRules::from_pgv(
                rules.as_ref()?,
                &field?.kind(),
            )))
        };
        Check::Map {
            keys: compile(
                &rules.keys,
                entry.map(MessageDescriptor::map_entry_key_field),
            ),
            values: compile(
                &rules.values,
                entry.map(MessageDescriptor::map_entry_value_field),
            ),
            rules: Box::new(rules.clone()),
        }
    }

    /// Returns the rule that an unset field breaks. A field with presence breaks only `required`, and in a oneof not
    /// even that. A field without presence has its default value.
    fn when_unset(
        &self,
        rules: &pgv::FieldRules,
        descriptor: &FieldDescriptor,
    ) -> Option<BrokenRule> {
        let required = |rule| Some(BrokenRule::new(rule, ""));
        let in_oneof = descriptor
            .containing_oneof()
            .is_some_and(|oneof| !oneof.is_synthetic());
        match &rules.r#type {
            _ if in_oneof => None,
            _ if rules
                .message
                .as_ref()
                .is_some_and(pgv::MessageRules::required) =>
            {
                required("message.required")
            }
            Some(Rules::Any(r)) if r.required() => required("any.required"),
            Some(Rules::Duration(r)) if r.required() => required("duration.required"),
            Some(Rules::Timestamp(r)) if r.required() => required("timestamp.required"),
            _ if descriptor.supports_presence() => None,
            _ => {
                let mut first = None;
                let default = descriptor.default_value();
                self.check(&default, &mut |broken| {
                    first = first.take().or(Some(broken));
                });
                first
            }
        }
    }

    /// Returns the rules of the items of a list.
    pub(crate) fn items(&self) -> Option<&FieldRules> {
        match &self.check {
            Check::Repeated { items, .. } => items.as_deref(),
            _ => None,
        }
    }

    /// Returns the rules of the keys and of the values of a map.
    pub(crate) fn entries(&self) -> (Option<&FieldRules>, Option<&FieldRules>) {
        match &self.check {
            Check::Map { keys, values, .. } => (keys.as_deref(), values.as_deref()),
            _ => (None, None),
        }
    }

    /// Checks a value that is set. For lists and maps, checks the number of elements and their uniqueness; the caller
    /// checks the elements.
    pub(crate) fn check(&self, value: &Value, broken: &mut dyn FnMut(BrokenRule)) {
        let wrapped;
        let value = match (&self.check, value) {
            // Rules for scalars apply to the value in a wrapper.
            (Check::Nothing | Check::Any(_) | Check::Duration(_) | Check::Timestamp(_), value) => {
                value
            }
            (_, Value::Message(message)) => match message.get_field_by_number(1) {
                Some(inner) => {
                    wrapped = inner;
                    wrapped.as_ref()
                }
                None => return,
            },
            (_, value) => value,
        };
        match (&self.check, value) {
            (Check::Float(range), Value::F32(v)) => range.check("float", *v, broken),
            (Check::Double(range), Value::F64(v)) => range.check("double", *v, broken),
            (Check::Int32(range), Value::I32(v)) => range.check("int32", *v, broken),
            (Check::Int64(range), Value::I64(v)) => range.check("int64", *v, broken),
            (Check::Uint32(range), Value::U32(v)) => range.check("uint32", *v, broken),
            (Check::Uint64(range), Value::U64(v)) => range.check("uint64", *v, broken),
            (Check::Bool(expected), Value::Bool(v)) if v != expected => {
                broken(BrokenRule::new(
                    format!("bool.const = {expected}"),
                    v.to_string(),
                ));
            }
            (Check::String(rules), Value::String(v)) => rules.check(v, broken),
            (Check::Bytes(rules), Value::Bytes(v)) => rules.check(v, broken),
            (Check::Enum { rules, descriptor }, Value::EnumNumber(v)) => {
                check_enum(rules, descriptor.as_ref(), *v, broken);
            }
            (Check::Repeated { rules, .. }, Value::List(v)) => check_list(rules, v, broken),
            (Check::Map { rules, .. }, Value::Map(v))
                if !(v.is_empty() && rules.ignore_empty()) =>
            {
                check_count(
                    "map",
                    "pairs",
                    rules.min_pairs,
                    rules.max_pairs,
                    v.len(),
                    broken,
                );
            }
            (Check::Any(rules), Value::Message(v)) => check_any(rules, v, broken),
            (Check::Duration(range), Value::Message(v)) => {
                range.check("duration", Nanos::of(v), broken);
            }
            (Check::Timestamp(range), Value::Message(v)) => {
                range.check("timestamp", Nanos::of(v), broken);
            }
            _ => {}
        }
    }
}

fn check_enum(
    rules: &pgv::EnumRules,
    descriptor: Option<&EnumDescriptor>,
    value: i32,
    broken: &mut dyn FnMut(BrokenRule),
) {
    let known = descriptor.and_then(|descriptor| descriptor.get_value(value));
    let text = known
        .as_ref()
        .map_or_else(|| value.to_string(), |known| known.name().to_owned());
    let mut fail = |rule: String| broken(BrokenRule::new(rule, text.clone()));
    if rules.r#const.is_some_and(|expected| value != expected) {
        fail(format!("enum.const = {}", rules.r#const()));
    }
    if rules.defined_only() && descriptor.is_some() && known.is_none() {
        fail("enum.defined_only".to_owned());
    }
    if !rules.r#in.is_empty() && !rules.r#in.contains(&value) {
        fail(format!("enum.in = {:?}", rules.r#in));
    }
    if rules.not_in.contains(&value) {
        fail(format!("enum.not_in = {:?}", rules.not_in));
    }
}

fn check_list(rules: &pgv::RepeatedRules, values: &[Value], broken: &mut dyn FnMut(BrokenRule)) {
    if values.is_empty() && rules.ignore_empty() {
        return;
    }
    check_count(
        "repeated",
        "items",
        rules.min_items,
        rules.max_items,
        values.len(),
        broken,
    );
    if rules.unique() {
        let mut seen = HashSet::with_capacity(values.len());
        if let Some(twice) = values.iter().find(|value| !seen.insert(value.to_string())) {
            broken(BrokenRule::new("repeated.unique", twice.to_string()));
        }
    }
}

fn check_count(
    rules: &str,
    elements: &str,
    min: Option<u64>,
    max: Option<u64>,
    count: usize,
    broken: &mut dyn FnMut(BrokenRule),
) {
    let value = || format!("{count} {elements}");
    if let Some(min) = min.filter(|min| (count as u64) < *min) {
        broken(BrokenRule::new(
            format!("{rules}.min_{elements} = {min}"),
            value(),
        ));
    }
    if let Some(max) = max.filter(|max| (count as u64) > *max) {
        broken(BrokenRule::new(
            format!("{rules}.max_{elements} = {max}"),
            value(),
        ));
    }
}

fn check_any(rules: &pgv::AnyRules, value: &DynamicMessage, broken: &mut dyn FnMut(BrokenRule)) {
    let Some(type_url) = value.get_field_by_number(1) else {
        return;
    };
    let url = type_url.as_str().unwrap_or_default();
    if !rules.r#in.is_empty() && !rules.r#in.iter().any(|allowed| allowed == url) {
        broken(BrokenRule::new(format!("any.in = {:?}", rules.r#in), url));
    }
    if rules.not_in.iter().any(|forbidden| forbidden == url) {
        broken(BrokenRule::new(
            format!("any.not_in = {:?}", rules.not_in),
            url,
        ));
    }
}

fn flag(options: &DynamicMessage, extension: &str) -> bool {
    options
        .descriptor()
        .parent_pool()
        .get_extension_by_name(extension)
        .is_some_and(|extension| options.get_extension(&extension).as_bool() == Some(true))
}
