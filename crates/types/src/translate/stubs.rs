//! Rust skeletons of translations that need a decision (V-42): every unchanged field is done, every changed one is a
//! `todo!`.
//!
//! The messages are those that `prost` generates, in modules named after their packages. A pair of messages without a
//! changed field has a function only if another function calls it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use prost_reflect::{Cardinality, FieldDescriptor, Kind, MessageDescriptor, OneofDescriptor};

use super::catalog::Catalog;
use super::plan::{Action, Child, EnumPlan, FieldPlan, Plan, Shape};

/// Functions of a skeleton, by name.
struct Stubs<'a> {
    catalog: &'a Catalog,
    functions: BTreeMap<String, String>,
    /// Slots of the messages that have a function or will get one.
    known: BTreeSet<usize>,
    left: Vec<usize>,
}

/// Returns the skeleton; `None` if no message needs a decision.
pub(super) fn skeleton(catalog: &Catalog) -> Option<String> {
    let open: Vec<usize> = catalog
        .pairs()
        .filter(|slot| needs_decision(catalog.plan(changed(*slot))))
        .collect();
    if open.is_empty() {
        return None;
    }
    let mut stubs = Stubs {
        catalog,
        functions: BTreeMap::new(),
        known: open.iter().copied().collect(),
        left: open,
    };
    while let Some(slot) = stubs.left.pop() {
        stubs.message(slot);
    }
    let mut text = format!(
        "//! Translation of messages to {}: a skeleton by `oxds api stubs`.\n//!\n\
         //! Unchanged fields are done. Each `todo!` is a decision. The messages are those that `prost` generates.\n",
        catalog.major()
    );
    for function in stubs.functions.values() {
        text.push('\n');
        text.push_str(function);
    }
    Some(text)
}

fn changed(slot: usize) -> Child {
    Child { slot, same: false }
}

/// Returns whether a person must decide about a field of a message.
fn needs_decision(plan: &Plan) -> bool {
    plan.fields().iter().any(|field| {
        let lost_value = matches!(&field.action, Action::Enum(of) if of.values.iter().any(|(_, new)| new.is_none()));
        lost_value || decision(field).is_some() || field.to.oneof.is_some()
    })
}

/// Returns why a field cannot be translated by a rule.
fn decision(field: &FieldPlan) -> Option<String> {
    match &field.action {
        Action::Drop(cause) => Some(cause.to_string()),
        Action::Integer(from, to) if from.min < to.min || from.max > to.max => Some(format!(
            "{} does not hold all values of {}",
            to.name, from.name
        )),
        _ if field.shape == Shape::List && !field.to.is_list => {
            Some("the field is not a list any more".to_owned())
        }
        _ => None,
    }
}

impl Stubs<'_> {
    /// Adds the function of a message.
    fn message(&mut self, slot: usize) {
        let (old, new) = self.catalog.ends(slot);
        let plan = self.catalog.plan(changed(slot));
        let (from, to) = (path(&old), path(&new));
        let mut text = format!(
            "/// Translates `{}` to `{}`.\n#[must_use]\npub fn {}(old: {from}) -> {to} {{\n",
            old.full_name(),
            new.full_name(),
            function(old.full_name())
        );
        for field in plan
            .fields()
            .iter()
            .filter(|field| matches!(field.action, Action::Drop(_)))
        {
            let source = old.get_field(field.number);
            if let Some(source) = source.filter(|field| real_oneof(field).is_none()) {
                let why = decision(field).unwrap_or_default();
                let _ = writeln!(
                    text,
                    "    if {} {{\n        todo!({:?});\n    }}",
                    is_set(&source),
                    format!("{}: {why}", field.name)
                );
            }
        }
        let mut values = BTreeMap::new();
        let mut set = BTreeSet::new();
        for field in new.fields() {
            let key = match real_oneof(&field) {
                Some(oneof) => oneof.name().to_owned(),
                None => field.name().to_owned(),
            };
            if !set.insert(key.clone()) {
                continue;
            }
            let value = match real_oneof(&field) {
                Some(oneof) => self.oneof(&old, plan, &oneof),
                None => self.field(&old, plan, &field),
            };
            if let Some(value) = value {
                values.insert(set.len(), (key, value));
            }
        }
        let _ = writeln!(text, "    {to} {{");
        for (key, value) in values.values() {
            let _ = writeln!(text, "        {}: {value},", name(key));
        }
        if values.len() < set.len() {
            text.push_str("        ..Default::default()\n");
        }
        text.push_str("    }\n}\n");
        self.functions.insert(function(old.full_name()), text);
    }

    /// Returns the value of a field of the result; `None` if no field of the source is its origin.
    fn field(
        &mut self,
        old: &MessageDescriptor,
        plan: &Plan,
        field: &FieldDescriptor,
    ) -> Option<String> {
        let origin = origin(plan, field.number())?;
        let source = old.get_field(origin.number)?;
        if let Some(why) = decision(origin) {
            return Some(format!("todo!({:?})", format!("{}: {why}", origin.name)));
        }
        if let Some(oneof) = real_oneof(&source) {
            let why = format!("{} was in the oneof {}", origin.name, oneof.name());
            return Some(format!("todo!({why:?})"));
        }
        let from = format!("old.{}", name(&origin.name));
        let convert = self.convert(origin, &source, field);
        let optional = |field: &FieldDescriptor| {
            field.supports_presence() && !field.is_list() && !field.is_map() && !field.is_required()
        };
        Some(match (origin.shape, convert) {
            (Shape::Map, None) | (Shape::List, None) => from,
            (Shape::Map, Some(convert)) => {
                format!(
                    "{from}.into_iter().map(|(key, one)| (key, {})).collect()",
                    convert.replace('$', "one")
                )
            }
            (Shape::List, Some(convert)) => {
                format!(
                    "{from}.into_iter().map(|one| {}).collect()",
                    convert.replace('$', "one")
                )
            }
            (Shape::One, convert) => {
                let apply = |value: &str| match &convert {
                    Some(convert) => convert.replace('$', value),
                    None => value.to_owned(),
                };
                match (optional(&source), field.is_list(), optional(field)) {
                    (true, true, _) => {
                        format!("{from}.map(|one| {}).into_iter().collect()", apply("one"))
                    }
                    (true, false, true) if convert.is_none() => from,
                    (true, false, true) => format!("{from}.map(|one| {})", apply("one")),
                    (true, false, false) => {
                        format!("{from}.map(|one| {}).unwrap_or_default()", apply("one"))
                    }
                    (false, true, _) => format!("vec![{}]", apply(&from)),
                    (false, false, true) => format!("Some({})", apply(&from)),
                    (false, false, false) => apply(&from),
                }
            }
        })
    }

    /// Returns the value of a oneof of the result.
    fn oneof(
        &mut self,
        old: &MessageDescriptor,
        plan: &Plan,
        oneof: &OneofDescriptor,
    ) -> Option<String> {
        let origins: Vec<(FieldDescriptor, &FieldPlan)> = oneof
            .fields()
            .filter_map(|field| Some((field.clone(), origin(plan, field.number())?)))
            .collect();
        let source = origins
            .first()
            .and_then(|(_, first)| real_oneof(&old.get_field(first.number)?));
        let Some(source) = source else {
            if origins.is_empty() {
                return None;
            }
            let names: Vec<&str> = origins.iter().map(|(_, origin)| &*origin.name).collect();
            let why = format!("one of {}", names.join(", "));
            return Some(format!("todo!({why:?})"));
        };
        let strangers = origins.iter().any(|(_, origin)| {
            let own = old
                .get_field(origin.number)
                .and_then(|field| real_oneof(&field));
            own.is_none_or(|own| own != source)
        });
        if strangers {
            let why = format!("fields joined the oneof {}", oneof.name());
            return Some(format!("todo!({why:?})"));
        }
        let mut arms = String::new();
        for member in source.fields() {
            let from = variant(&source, member.name());
            let target = origins
                .iter()
                .find(|(_, origin)| origin.number == member.number());
            let arm = match target {
                Some((field, origin)) if decision(origin).is_none() => {
                    let convert = self.convert(origin, &member, field);
                    let value =
                        convert.map_or("one".to_owned(), |convert| convert.replace('$', "one"));
                    format!("{from}(one) => {}({value})", variant(oneof, field.name()))
                }
                _ => {
                    let lost = plan
                        .field(member.number())
                        .and_then(decision)
                        .unwrap_or_default();
                    let why = format!("{}: {lost}", member.name());
                    format!("{from}(_) => todo!({why:?})")
                }
            };
            let _ = writeln!(arms, "            {arm},");
        }
        Some(format!(
            "old.{}.map(|one| match one {{\n{arms}        }})",
            name(source.name())
        ))
    }

    /// Returns an expression that converts `$`; `None` if the value is the same.
    fn convert(
        &mut self,
        plan: &FieldPlan,
        from: &FieldDescriptor,
        to: &FieldDescriptor,
    ) -> Option<String> {
        let boxes = (is_boxed(from), is_boxed(to));
        match &plan.action {
            Action::Integer(..) => Some("$.into()".to_owned()),
            Action::Enum(of) => {
                let same = of
                    .values
                    .iter()
                    .all(|(old, new)| new.as_ref().is_some_and(|new| new.1 == old.1));
                if same {
                    return None;
                }
                let kind = super::plan::value_kind(from);
                let function = function(kind.as_enum()?.full_name());
                self.functions
                    .entry(function.clone())
                    .or_insert_with(|| enumeration(&function, of));
                Some(format!("{function}($)"))
            }
            Action::Message(child) if !child.same => {
                if self.known.insert(child.slot) {
                    self.left.push(child.slot);
                }
                let function = function(self.catalog.name_of(child.slot));
                Some(match boxes {
                    (true, true) => format!("Box::new({function}(*$))"),
                    (true, false) => format!("{function}(*$)"),
                    (false, true) => format!("Box::new({function}($))"),
                    (false, false) => format!("{function}($)"),
                })
            }
            _ => None,
        }
    }
}

/// Returns the function of an enum whose numbers changed.
fn enumeration(function: &str, of: &EnumPlan) -> String {
    let mut text = format!(
        "/// Translates the number of a value to `{}`.\n#[must_use]\npub fn {function}(old: i32) -> i32 {{\n    match old {{\n",
        of.to
    );
    let mut done = BTreeSet::new();
    for ((name, number), new) in &of.values {
        if !done.insert(*number) {
            continue;
        }
        let arm = match new {
            Some((new, to)) => format!("{number} => {to}, // {name} becomes {new}"),
            None => format!(
                "{number} => todo!({:?}),",
                format!("{name}: {} has no such value", of.to)
            ),
        };
        let _ = writeln!(text, "        {arm}");
    }
    text.push_str("        unknown => unknown,\n    }\n}\n");
    text
}

/// Returns the condition that a field of `old` has another value than its default, for the type that `prost` gives it.
fn is_set(field: &FieldDescriptor) -> String {
    let value = format!("old.{}", name(field.name()));
    if field.is_list() || field.is_map() {
        return format!("!{value}.is_empty()");
    }
    if field.supports_presence() && field.cardinality() != Cardinality::Required {
        return format!("{value}.is_some()");
    }
    match field.kind() {
        Kind::String | Kind::Bytes => format!("!{value}.is_empty()"),
        Kind::Bool => value,
        Kind::Float | Kind::Double => format!("{value} != 0.0"),
        Kind::Message(_) => format!("{value} != Default::default()"),
        _ => format!("{value} != 0"),
    }
}

fn origin(plan: &Plan, number: u32) -> Option<&FieldPlan> {
    let mut fields = plan.fields().iter();
    fields.find(|field| field.to.number == number && !matches!(field.action, Action::Drop(_)))
}

fn real_oneof(field: &FieldDescriptor) -> Option<OneofDescriptor> {
    field
        .containing_oneof()
        .filter(|oneof| !oneof.is_synthetic())
}

/// Returns whether `prost` puts a field into a `Box`: a single message that can contain the message of the field.
fn is_boxed(field: &FieldDescriptor) -> bool {
    let kind = field.kind();
    let Some(start) = kind
        .as_message()
        .filter(|_| !field.is_list() && !field.is_map())
    else {
        return false;
    };
    let target = field.parent_message().full_name().to_owned();
    let mut seen = BTreeSet::new();
    let mut left = vec![start.clone()];
    while let Some(message) = left.pop() {
        if message.full_name() == target {
            return true;
        }
        if seen.insert(message.full_name().to_owned()) {
            let single = message
                .fields()
                .filter(|field| !field.is_list() && !field.is_map());
            left.extend(single.filter_map(|field| match field.kind() {
                Kind::Message(inner) => Some(inner),
                _ => None,
            }));
        }
    }
    false
}

/// Returns the path of the type that `prost` generates for a message: `shop.v1.Order.Item` is
/// `crate::shop::v1::order::Item`.
fn path(message: &MessageDescriptor) -> String {
    let mut path = module(message.package_name());
    let inner = message.full_name()[message.package_name().len()..].trim_start_matches('.');
    let mut parts: Vec<&str> = inner.split('.').collect();
    let last = parts.pop().unwrap_or_default();
    for outer in parts {
        path.push_str(&format!("::{}", name(&snake(outer))));
    }
    format!("{path}::{last}")
}

fn module(package: &str) -> String {
    let segments = package.split('.').filter(|segment| !segment.is_empty());
    let mut path = "crate".to_owned();
    for segment in segments {
        path.push_str(&format!("::{}", name(segment)));
    }
    path
}

fn variant(oneof: &OneofDescriptor, member: &str) -> String {
    let message = oneof.parent_message();
    let (scope, last) = {
        let path = path(message);
        let (scope, last) = path.rsplit_once("::").unwrap_or(("crate", &path));
        (scope.to_owned(), snake(last))
    };
    format!(
        "{scope}::{}::{}::{}",
        name(&last),
        camel(oneof.name()),
        camel(member)
    )
}

/// Returns the name of the function for a message or enum.
fn function(full_name: &str) -> String {
    let parts: Vec<String> = full_name.split('.').map(snake).collect();
    parts.join("_")
}

/// Returns an identifier; keywords are written raw.
fn name(identifier: &str) -> String {
    const KEYWORDS: &[&str] = &[
        "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "do",
        "dyn", "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in",
        "let", "loop", "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref",
        "return", "static", "struct", "trait", "true", "try", "type", "typeof", "unsafe",
        "unsized", "use", "virtual", "where", "while", "yield",
    ];
    match identifier {
        "self" | "super" | "crate" | "Self" => format!("{identifier}_"),
        _ if KEYWORDS.contains(&identifier) => format!("r#{identifier}"),
        _ => identifier.to_owned(),
    }
}

fn snake(name: &str) -> String {
    let mut out = String::new();
    let chars: Vec<char> = name.chars().collect();
    for (index, c) in chars.iter().enumerate() {
        let after_lower =
            index > 0 && !chars[index - 1].is_ascii_uppercase() && chars[index - 1] != '_';
        let before_lower = index > 0
            && chars[index - 1].is_ascii_uppercase()
            && chars.get(index + 1).is_some_and(char::is_ascii_lowercase);
        if c.is_ascii_uppercase() && (after_lower || before_lower) {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

fn camel(name: &str) -> String {
    let parts = name.split('_').filter(|part| !part.is_empty());
    let part = |part: &str| {
        let (first, rest) = part.split_at(1);
        first.to_ascii_uppercase() + rest
    };
    parts.map(part).collect()
}
