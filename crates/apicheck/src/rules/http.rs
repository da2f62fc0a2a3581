//! REST bindings of a method: `google.api.http`.

use std::fmt;

use prost_reflect::{DynamicMessage, Value};

use crate::model::Method;

/// One REST binding.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Binding {
    /// HTTP method, in upper case: `GET`.
    verb: String,
    /// Template of the path: `/v1/{name=shelves/*}`.
    pub(super) path: String,
    /// Field that the body contains, `*` for all others; empty for no body.
    body: String,
    /// Field of the response that is sent; empty for all of it.
    response_body: String,
}

/// Returns the bindings of a method, the additional ones last.
pub(super) fn bindings(method: &Method) -> Vec<Binding> {
    let rule = method.options.extension("google.api.http");
    rule.and_then(Value::as_message)
        .map_or_else(Vec::new, rule_bindings)
}

fn rule_bindings(rule: &DynamicMessage) -> Vec<Binding> {
    let (mut own, mut more) = (None, Vec::new());
    let (mut body, mut response_body) = (String::new(), String::new());
    for (field, value) in rule.fields() {
        match (field.name(), value) {
            (verb @ ("get" | "put" | "post" | "delete" | "patch"), Value::String(path)) => {
                own = Some((verb.to_uppercase(), path.clone()));
            }
            ("custom", Value::Message(custom)) => {
                own = Some((text(custom, "kind").to_uppercase(), text(custom, "path")));
            }
            ("body", Value::String(field)) => body.clone_from(field),
            ("response_body", Value::String(field)) => response_body.clone_from(field),
            ("additional_bindings", Value::List(rules)) => {
                let rules = rules.iter().filter_map(Value::as_message);
                more.extend(rules.flat_map(rule_bindings));
            }
            _ => {}
        }
    }
    let own = own.map(|(verb, path)| Binding {
        verb,
        // google.api.HttpRule: `{name}` is short for `{name=*}`.
        path: path.replace("=*}", "}"),
        body,
        response_body,
    });
    own.into_iter().chain(more).collect()
}

/// Returns a text of a message, or an empty text if it is not set.
fn text(message: &DynamicMessage, name: &str) -> String {
    let mut fields = message.fields();
    let found = fields.find(|(field, _)| field.name() == name);
    let text = found.and_then(|(_, value)| value.as_str());
    text.unwrap_or_default().to_owned()
}

/// Writes `POST /v1/orders (body: *)`.
impl fmt::Display for Binding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.path)?;
        let parts = [("body", &self.body), ("response_body", &self.response_body)];
        let parts = parts.iter().filter(|(_, field)| !field.is_empty());
        let parts: Vec<_> = parts
            .map(|(name, field)| format!("{name}: {field}"))
            .collect();
        if !parts.is_empty() {
            write!(f, " ({})", parts.join(", "))?;
        }
        Ok(())
    }
}
