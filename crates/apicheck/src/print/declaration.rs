//! Printing of enums, services and extensions.

use std::collections::BTreeSet;

use super::FilePrinter;
use super::layout::block;
use crate::model::{
    Docs, Enum, EnumValue, Extension, MessageId, Method, NumberRange, Service, Syntax,
};

/// Highest field number, printed as `max`.
pub(super) const LAST_FIELD: i32 = 536_870_911;

impl FilePrinter<'_> {
    pub(super) fn enumeration(&self, of: &Enum) -> String {
        let plan = self.plan();
        let scope = plan.type_name(&of.name);
        let mut parts = self.option_lines(scope, &of.options);
        let keeps = |value: &&EnumValue| plan.keeps_value(of, value);
        let (kept, dropped): (Vec<&EnumValue>, Vec<&EnumValue>) = of.values.iter().partition(keeps);
        let mut numbers = of.reserved.numbers.clone();
        let mut names: BTreeSet<&str> = of.reserved.names.iter().map(|name| &**name).collect();
        for value in dropped {
            self.unattached.take(value.source.span);
            names.insert(&value.name);
            numbers.push(NumberRange {
                first: value.number,
                last: value.number,
            });
        }
        parts.extend(self.reserved_lines(&numbers, &names, i32::MAX, &of.reserved.docs));
        let values = kept.into_iter().map(|value| {
            let options = self.options(scope, &value.options);
            let head = format!("{} = {}", plan.value_name(of, value), value.number);
            let text = self.statement(&value.source, &head, &options);
            (value.source.span, text)
        });
        parts.extend(self.in_order(of.source.span, values.collect()));
        let head = format!("enum {}", short(scope));
        self.documented(&of.source, block(&head, &parts))
    }

    pub(super) fn service(&self, service: &Service) -> String {
        let scope = format!("{}.{}", self.package(), short(&service.name));
        let mut parts = self.option_lines(&scope, &service.options);
        let methods = service.methods.iter();
        let items = methods.map(|method| (method.source.span, self.method(&scope, method)));
        parts.extend(self.in_order(service.source.span, items.collect()));
        let head = format!("service {}", short(&service.name));
        self.documented(&service.source, block(&head, &parts))
    }

    fn method(&self, scope: &str, method: &Method) -> String {
        let side = |id: MessageId, streams: bool| {
            let message = &self.tree()[id];
            let name = self.type_name(scope, &message.name, message.file);
            format!("{}{name}", if streams { "stream " } else { "" })
        };
        let head = format!(
            "rpc {}({}) returns ({})",
            method.name,
            side(method.input, method.client_streaming),
            side(method.output, method.server_streaming)
        );
        let mut parts = self.option_lines(scope, &method.options);
        parts.extend(self.in_order(method.source.span, Vec::new()));
        self.documented(&method.source, block(&head, &parts))
    }

    /// Prints the `reserved` statements for numbers and names.
    pub(super) fn reserved_lines(
        &self,
        numbers: &[NumberRange],
        names: &BTreeSet<&str>,
        last: i32,
        docs: &[Docs],
    ) -> Vec<String> {
        let mut lines = Vec::new();
        if !numbers.is_empty() {
            lines.push(format!("reserved {};", ranges(numbers, last)));
        }
        if !names.is_empty() {
            let quote = match self.file.syntax {
                Syntax::Edition(_) => "",
                Syntax::Proto2 | Syntax::Proto3 => "\"",
            };
            let names: Vec<String> = names
                .iter()
                .map(|name| format!("{quote}{name}{quote}"))
                .collect();
            lines.push(format!("reserved {};", names.join(", ")));
        }
        if let Some(first) = lines.first_mut() {
            *first = self.with_all(docs, std::mem::take(first));
        }
        lines
    }

    pub(super) fn extension(&self, scope: &str, extension: &Extension) -> String {
        let extendee = &self.tree()[extension.extendee];
        let head = format!(
            "extend {}",
            self.type_name(scope, &extendee.name, extendee.file)
        );
        let field = &extension.field;
        let text = self.field_named(scope, field, &field.name, Some(&field.json_name), false);
        self.with_all(extension.block_docs.as_slice(), block(&head, &[text]))
    }
}

/// Returns the last part of a full name.
pub(super) fn short(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// Formats numbers as `1, 3 to 5, 7 to max`.
pub(super) fn ranges(ranges: &[NumberRange], last: i32) -> String {
    let mut sorted = ranges.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let texts: Vec<String> = sorted
        .iter()
        .map(|range| match range {
            range if range.last >= last && range.first < last => format!("{} to max", range.first),
            range if range.first == range.last => range.first.to_string(),
            range => format!("{} to {}", range.first, range.last),
        })
        .collect();
    texts.join(", ")
}
