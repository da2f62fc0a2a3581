//! Conversion of options to [`Rules`]. `validate.rules` and `buf.validate` share field names where
//! the meaning is the same.

use prost_reflect::{DynamicMessage, ReflectMessage as _, Value};

use super::limits::Limits;
use super::need::{Aspect, Header, Need};
use super::rules::Rules;
use super::scale;
use super::set::Set;
use super::spell;

/// Properties of the value that the rules are about.
#[derive(Debug, Clone, Default)]
pub(super) struct CheckedValue {
    /// An unset value equals zero.
    pub(super) implicit: bool,
    /// The value is a list or a map.
    pub(super) many: bool,
    /// The value is a member of a oneof.
    pub(super) in_oneof: bool,
    /// Name of the rules for its type: `uint32`, `string`; empty for messages.
    pub(super) rules: &'static str,
    /// Declared numbers of its enum.
    pub(super) declared: Option<Set>,
    /// Items of a list, or keys and values of a map.
    pub(super) parts: Vec<CheckedValue>,
}

/// Reads the rules of a field from `validate.FieldRules` or `buf.validate.FieldRules`.
pub(super) fn field_rules(message: &DynamicMessage, subject: &CheckedValue) -> Rules {
    let mut reader = Reader {
        rules: Rules::default(),
        subject,
        whole: scale::whole(subject.rules),
        empty_passes: false,
    };
    let mut required = false;
    for (name, value) in parts(message) {
        match (name.as_str(), value) {
            ("required", Value::Bool(on)) => required |= *on,
            ("skipped", Value::Bool(on)) => reader.rules.off |= *on,
            ("ignore_empty", Value::Bool(on)) => reader.empty_passes |= *on,
            ("ignore", Value::EnumNumber(number)) => reader.ignore(message, *number),
            ("message", Value::Message(rules)) => reader.message(rules),
            ("repeated" | "map", Value::Message(rules)) => reader.container(rules),
            ("string" | "bytes" | "any", Value::Message(rules)) => reader.text(&name, rules),
            (ordered, Value::Message(rules)) if scale::whole(ordered).is_some() => {
                reader.ordered(ordered, rules);
            }
            _ => reader.expression_or_other(&name, value),
        }
    }
    if required {
        reader.required();
    }
    reader.finish()
}

/// Reads the rules of a message as a whole from `buf.validate.message`.
pub(super) fn message_rules(message: &DynamicMessage) -> Rules {
    let mut reader = Reader {
        rules: Rules::default(),
        subject: &CheckedValue::default(),
        whole: None,
        empty_passes: false,
    };
    for (name, value) in parts(message) {
        match (name.as_str(), value) {
            ("disabled", Value::Bool(on)) => reader.rules.off |= *on,
            _ => reader.expression_or_other(&name, value),
        }
    }
    reader.finish()
}

/// Returns everything that is set in a message: fields by name, extensions by full name.
fn parts(message: &DynamicMessage) -> Vec<(String, &Value)> {
    let fields = message
        .fields()
        .map(|(field, value)| (field.name().to_owned(), value));
    let extensions = message
        .extensions()
        .map(|(extension, value)| (extension.full_name().to_owned(), value));
    fields.chain(extensions).collect()
}

struct Reader<'a> {
    rules: Rules,
    subject: &'a CheckedValue,
    /// All values of the type, if it is ordered.
    whole: Option<Set>,
    /// The zero value is accepted despite all other rules.
    empty_passes: bool,
}

impl Reader<'_> {
    fn need(&mut self, need: Need, spelled: &str) {
        self.spell(need.aspect(), spelled);
        self.rules.needs.insert(need);
    }

    fn spell(&mut self, aspect: Aspect, text: &str) {
        let all = self.rules.spelled.entry(aspect).or_default();
        if !all.is_empty() {
            all.push_str(", ");
        }
        all.push_str(text);
    }

    fn ignore(&mut self, message: &DynamicMessage, number: i32) {
        let field = message.descriptor().get_field_by_name("ignore");
        let name = field
            .and_then(|field| Some(field.kind().as_enum()?.get_value(number)?.name().to_owned()))
            .unwrap_or_default();
        match name.as_str() {
            "IGNORE_ALWAYS" => {
                self.rules.off = true;
                self.spell(Aspect::Scope, &format!("ignore: {name}"));
            }
            "IGNORE_IF_ZERO_VALUE" | "IGNORE_IF_DEFAULT_VALUE" | "IGNORE_DEFAULT" => {
                self.empty_passes = true;
            }
            // Unset values of fields with presence are never checked.
            "IGNORE_IF_UNPOPULATED" | "IGNORE_EMPTY" => self.empty_passes |= self.subject.implicit,
            _ => {}
        }
    }

    /// Adds `required` of protoc-gen-validate. The rules of a oneof member are checked only if the
    /// member is set, so `required` of a member demands nothing.
    fn required_if_chosen(&mut self) {
        if !self.subject.in_oneof {
            self.required();
        }
    }

    fn required(&mut self) {
        let subject = self.subject;
        if subject.many {
            self.spell(Aspect::Count, "required: true");
            let some = Set::between(1, u64::MAX.into());
            intersect(&mut self.rules.count, &some);
        } else if subject.implicit && matches!(subject.rules, "string" | "bytes") {
            self.spell(Aspect::Length, "required: true");
            // protovalidate: `required` on a field without presence rejects the empty value (V-32).
            intersect(&mut self.rules.bytes, &Set::between(1, u64::MAX.into()));
        } else if let Some(whole) = self.whole.clone().filter(|_| subject.implicit) {
            self.spell(Aspect::Bound, "required: true");
            intersect(&mut self.rules.ordered, &whole.without(&Set::of([0])));
        } else {
            self.need(Need::Required, "required: true");
        }
    }

    fn message(&mut self, rules: &DynamicMessage) {
        for (name, value) in parts(rules) {
            match (name.as_str(), value) {
                ("skip", Value::Bool(true)) => {
                    self.rules.off = true;
                    self.spell(Aspect::Scope, "skip: true");
                }
                ("required", Value::Bool(true)) => self.required_if_chosen(),
                _ => self.other(&name, value),
            }
        }
    }

    fn container(&mut self, rules: &DynamicMessage) {
        let most = i128::from(u64::MAX);
        for (name, value) in parts(rules) {
            let spelled = spell::rule(&name, value);
            let number = value.as_u64().map(i128::from);
            match (name.as_str(), value, number) {
                ("min_items" | "min_pairs", _, Some(least)) => {
                    self.spell(Aspect::Count, &spelled);
                    intersect(&mut self.rules.count, &Set::between(least, most));
                }
                ("max_items" | "max_pairs", _, Some(many)) => {
                    self.spell(Aspect::Count, &spelled);
                    intersect(&mut self.rules.count, &Set::between(0, many));
                }
                ("unique", Value::Bool(true), _) => self.need(Need::Unique, &spelled),
                ("no_sparse", Value::Bool(true), _) => self.need(Need::NoSparse, &spelled),
                ("ignore_empty", Value::Bool(on), _) => self.empty_passes |= *on,
                ("items", Value::Message(items), _) => self.rules.items = self.nested(items, 0),
                ("keys", Value::Message(keys), _) => self.rules.keys = self.nested(keys, 0),
                ("values", Value::Message(values), _) => {
                    self.rules.values = self.nested(values, 1);
                }
                _ => self.other(&name, value),
            }
        }
    }

    fn nested(&self, rules: &DynamicMessage, part: usize) -> Option<Box<Rules>> {
        let unknown = CheckedValue::default();
        let subject = self.subject.parts.get(part).unwrap_or(&unknown);
        Some(Box::new(field_rules(rules, subject)))
    }

    fn ordered(&mut self, kind: &str, rules: &DynamicMessage) {
        let mut limits = Limits::default();
        let whole = scale::whole(kind).unwrap_or_default();
        let mut allowed = whole.clone();
        self.whole = Some(whole.clone());
        for (name, value) in parts(rules) {
            let spelled = spell::rule(&name, value);
            let aspect = match name.as_str() {
                "const" | "in" | "not_in" => Aspect::Values,
                _ => Aspect::Bound,
            };
            let list = || {
                Set::of(
                    value
                        .as_list()
                        .into_iter()
                        .flatten()
                        .filter_map(scale::ordinal),
                )
            };
            match (name.as_str(), value) {
                ("ignore_empty", Value::Bool(on)) => self.empty_passes |= *on,
                ("required", Value::Bool(true)) => self.required_if_chosen(),
                ("defined_only", Value::Bool(true)) => self.need(Need::DefinedOnly, &spelled),
                ("lt_now", Value::Bool(true)) => self.need(Need::LessThanNow, &spelled),
                ("gt_now", Value::Bool(true)) => self.need(Need::GreaterThanNow, &spelled),
                ("within", Value::Message(span)) => match scale::nanos(span) {
                    Some(span) => self.need(Need::Within(span), &spelled),
                    None => self.other(&name, value),
                },
                ("in", _) => {
                    self.spell(aspect, &spelled);
                    allowed = allowed.intersection(&list());
                }
                ("not_in", _) => {
                    self.spell(aspect, &spelled);
                    allowed = allowed.without(&list());
                }
                ("finite", Value::Bool(true)) => {
                    self.spell(aspect, &spelled);
                    allowed = allowed.intersection(&scale::finite(kind).unwrap_or_default());
                }
                _ => match scale::ordinal(value) {
                    Some(ordinal) if name == "const" => {
                        self.spell(aspect, &spelled);
                        allowed = allowed.intersection(&Set::of([ordinal]));
                    }
                    Some(ordinal) if limits.set(&name, ordinal) => self.spell(aspect, &spelled),
                    _ => self.other(&name, value),
                },
            }
        }
        intersect(
            &mut self.rules.ordered,
            &allowed.intersection(&limits.allowed(&whole)),
        );
    }

    fn text(&mut self, kind: &str, rules: &DynamicMessage) {
        let strict = !parts(rules)
            .iter()
            .any(|(name, value)| name == "strict" && **value == Value::Bool(false));
        for (name, value) in parts(rules) {
            match (name.as_str(), value) {
                ("well_known_regex", Value::EnumNumber(number)) => {
                    self.header(rules, *number, strict);
                }
                _ if self.length(kind, &name, value) || self.affix(&name, value) => {}
                _ => self.text_rule(&name, value),
            }
        }
    }

    /// Adds `well_known_regex`, given by the number of its value.
    fn header(&mut self, rules: &DynamicMessage, number: i32, strict: bool) {
        let (name, header) = match number {
            1 => ("http_header_name", Header::Name),
            2 => ("http_header_value", Header::Value),
            _ => return,
        };
        let spelled = format!("well_known_regex: {name}");
        let accepted = if strict { header } else { Header::Loose };
        self.need(Need::Header(accepted), &spelled);
        // In loose mode, protovalidate rejects the empty name; protoc-gen-validate accepts it.
        let is_buf = rules.descriptor().package_name() == "buf.validate";
        if header == Header::Name && is_buf {
            intersect(&mut self.rules.bytes, &Set::between(1, u64::MAX.into()));
        }
    }

    fn text_rule(&mut self, name: &str, value: &Value) {
        let spelled = spell::rule(name, value);
        match (name, value) {
            ("strict", Value::Bool(on)) => {
                if !on {
                    self.spell(Aspect::Format, &spelled);
                }
            }
            ("ignore_empty", Value::Bool(on)) => self.empty_passes |= *on,
            ("required", Value::Bool(true)) => self.required_if_chosen(),
            ("pattern", Value::String(text)) => self.need(Need::Pattern(text.clone()), &spelled),
            // Formats: `email: true`.
            (_, Value::Bool(true)) => self.need(Need::Format(name.to_owned()), &spelled),
            (_, Value::Bool(false)) => {}
            _ => self.other(name, value),
        }
    }

    fn length(&mut self, kind: &str, name: &str, value: &Value) -> bool {
        let Some(number) = value.as_u64().map(i128::from) else {
            return false;
        };
        let (first, last) = match name {
            "len" | "len_bytes" => (number, number),
            "min_len" | "min_bytes" => (number, u64::MAX.into()),
            "max_len" | "max_bytes" => (0, number),
            _ => return false,
        };
        self.spell(Aspect::Length, &spell::rule(name, value));
        let lengths = if kind == "string" && name.ends_with("len") {
            &mut self.rules.chars
        } else {
            &mut self.rules.bytes
        };
        intersect(lengths, &Set::between(first, last));
        true
    }

    fn affix(&mut self, name: &str, value: &Value) -> bool {
        let list = || value.as_list().into_iter().flatten().filter_map(text);
        let spelled = spell::rule(name, value);
        let one = text(value);
        match (name, one) {
            ("const", Some(text)) => self.only([text].into()),
            ("in", _) => self.only(list().collect()),
            ("not_in", _) => self.rules.not_in.extend(list()),
            ("prefix", Some(text)) => self.need(Need::Prefix(text), &spelled),
            ("suffix", Some(text)) => self.need(Need::Suffix(text), &spelled),
            ("contains", Some(text)) => self.need(Need::Contains(text), &spelled),
            ("not_contains", Some(text)) => self.need(Need::NotContains(text), &spelled),
            _ => return false,
        }
        if matches!(name, "const" | "in" | "not_in") {
            self.spell(Aspect::Values, &spelled);
        }
        true
    }

    fn only(&mut self, texts: std::collections::BTreeSet<Vec<u8>>) {
        self.rules.texts = Some(match self.rules.texts.take() {
            Some(before) => before.intersection(&texts).cloned().collect(),
            None => texts,
        });
    }

    fn expression_or_other(&mut self, name: &str, value: &Value) {
        let Value::List(list) = value else {
            return self.other(name, value);
        };
        for value in list {
            match (name, value) {
                ("cel", Value::Message(rule)) => {
                    let part = |name| {
                        let part = rule.get_field_by_name(name);
                        part.and_then(|part| part.as_str().map(str::to_owned))
                            .unwrap_or_default()
                    };
                    self.expression(part("id"), &part("expression"));
                }
                ("cel_expression", Value::String(text)) => self.expression(String::new(), text),
                _ => self.other(name, value),
            }
        }
    }

    fn expression(&mut self, id: String, text: &str) {
        let text = text.trim().to_owned();
        let spelled = format!("cel: {text}");
        self.need(Need::Expression { id, text }, &spelled);
    }

    /// Adds an unknown rule by its text. Examples are not rules.
    fn other(&mut self, name: &str, value: &Value) {
        if name == "example" || *value == Value::Bool(false) {
            return;
        }
        let text = spell::value(value);
        let spelled = format!("{name}: {text}");
        self.need(Need::Other(name.to_owned(), text), &spelled);
    }

    fn finish(mut self) -> Rules {
        if self.empty_passes {
            for set in [&mut self.rules.ordered, &mut self.rules.count]
                .into_iter()
                .flatten()
            {
                *set = set.union(&Set::of([0]));
            }
            self.rules.ignore_empty = matches!(self.subject.rules, "string" | "bytes");
            self.spell(Aspect::Empty, "ignore_empty: true");
        }
        self.rules.unset_is_zero = self.subject.implicit || self.subject.many;
        let zero = || Set::of(self.empty_passes.then_some(0));
        let declared = self.subject.declared.as_ref();
        self.rules.declared = declared.map(|declared| declared.union(&zero()));
        let all = scale::counts();
        self.rules.count = self.rules.count.filter(|count| *count != all);
        self.rules.normalize(self.whole.as_ref());
        self.rules
    }
}

fn intersect(all: &mut Option<Set>, some: &Set) {
    *all = Some(match all.take() {
        Some(before) => before.intersection(some),
        None => some.clone(),
    });
}

fn text(value: &Value) -> Option<Vec<u8>> {
    match value {
        Value::String(text) => Some(text.clone().into_bytes()),
        Value::Bytes(bytes) => Some(bytes.to_vec()),
        _ => None,
    }
}
