//! Random edits of a random API: a breaking edit has one finding, an addition or reformatting has
//! none.

use proptest::prelude::*;
use proptest::sample::Index;

use crate::support::{findings, line, shop};

/// Field types. No two of them are compatible in all languages.
const SCALARS: &[&str] = &[
    "int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64", "sfixed32",
    "sfixed64", "bool", "float", "double", "string", "bytes",
];
const LABELS: &[&str] = &["", "optional", "repeated"];

#[derive(Debug, Clone)]
struct Field {
    name: String,
    number: i32,
    kind: String,
    label: usize,
    wrapped: bool,
}

/// API with messages and fields, an enum with values, and a service with methods.
#[derive(Debug, Clone)]
struct Api {
    messages: Vec<(String, Vec<Field>)>,
    values: Vec<(String, i32)>,
    methods: Vec<(String, usize, usize)>,
}

impl Api {
    /// Prints the API. `otherwise` reverses the order and removes line breaks.
    fn print(&self, otherwise: bool) -> String {
        let break_line = if otherwise { " /* … */ " } else { "\n" };
        let mut parts = Vec::new();
        for (name, fields) in &self.messages {
            let mut lines: Vec<_> = fields.iter().map(Field::print).collect();
            if otherwise {
                lines.reverse();
            }
            let fields = lines.join(break_line);
            parts.push(format!(
                "message {name} {{{break_line}{fields}{break_line}}}"
            ));
        }
        let value = |(name, number): &(String, i32)| format!("{name} = {number};");
        // The first value of an open enum is zero; the order of the others is free.
        let mut values: Vec<_> = self.values.iter().map(value).collect();
        if otherwise {
            values[1..].reverse();
        }
        parts.push(format!("enum State {{ {} }}", values.join(break_line)));
        let mut methods: Vec<_> = self
            .methods
            .iter()
            .map(|method| self.method(method))
            .collect();
        if otherwise {
            methods.reverse();
        }
        parts.push(format!("service Shop {{ {} }}", methods.join(break_line)));
        if otherwise {
            parts.reverse();
        }
        parts.join(break_line)
    }

    fn method(&self, (name, input, output): &(String, usize, usize)) -> String {
        let (input, output) = (&self.messages[*input].0, &self.messages[*output].0);
        format!("rpc {name}({input}) returns (.shop.v1.{output});")
    }
}

impl Field {
    fn print(&self) -> String {
        let label = if self.wrapped { "" } else { LABELS[self.label] };
        let field = format!("{label} {} {} = {};", self.kind, self.name, self.number);
        if self.wrapped {
            format!("oneof in_{} {{ {field} }}", self.name)
        } else {
            field
        }
    }
}

fn fields() -> impl Strategy<Value = Vec<Field>> {
    let field = (1i32..4, prop::sample::select(SCALARS), 0..LABELS.len());
    prop::collection::vec(field, 1..6).prop_map(|fields| {
        let mut number = 0;
        let numbered = fields
            .into_iter()
            .enumerate()
            .map(|(index, (gap, kind, label))| {
                number += gap;
                Field {
                    name: format!("field_{index}"),
                    number,
                    kind: kind.to_owned(),
                    label,
                    wrapped: false,
                }
            });
        numbered.collect()
    })
}

fn apis() -> impl Strategy<Value = Api> {
    let methods = prop::collection::vec((any::<Index>(), any::<Index>()), 1..4);
    (prop::collection::vec(fields(), 1..4), 2..5, methods).prop_map(
        |(messages, values, methods)| {
            let count = messages.len();
            let messages = messages.into_iter().enumerate();
            let methods = methods.into_iter().enumerate();
            Api {
                messages: messages
                    .map(|(i, fields)| (format!("Message{i}"), fields))
                    .collect(),
                values: (0..values).map(|i| (format!("VALUE_{i}"), i * 2)).collect(),
                methods: methods
                    .map(|(i, (input, output))| {
                        (format!("Call{i}"), input.index(count), output.index(count))
                    })
                    .collect(),
            }
        },
    )
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Edit {
    RenameField,
    RenumberField,
    RetypeField,
    RelabelField,
    WrapField,
    RemoveField,
    RenameMessage,
    RenameValue,
    RenumberValue,
    RemoveValue,
    RenameMethod,
    RemoveMethod,
    RetypeMethod,
    AddField,
    AddMessage,
    AddValue,
    AddMethod,
}

impl Edit {
    const ALL: [Edit; 17] = [
        Edit::RenameField,
        Edit::RenumberField,
        Edit::RetypeField,
        Edit::RelabelField,
        Edit::WrapField,
        Edit::RemoveField,
        Edit::RenameMessage,
        Edit::RenameValue,
        Edit::RenumberValue,
        Edit::RemoveValue,
        Edit::RenameMethod,
        Edit::RemoveMethod,
        Edit::RetypeMethod,
        Edit::AddField,
        Edit::AddMessage,
        Edit::AddValue,
        Edit::AddMethod,
    ];

    fn is_addition(self) -> bool {
        use Edit::{AddField, AddMessage, AddMethod, AddValue};
        matches!(self, AddField | AddMessage | AddValue | AddMethod)
    }

    /// Applies the edit at a random position.
    fn make(self, api: &mut Api, at: Index, other: Index) {
        let message = at.index(api.messages.len());
        let count = api.messages.len();
        let value = 1 + at.index(api.values.len() - 1);
        let method = at.index(api.methods.len());
        let fields = &mut api.messages[message].1;
        let spot = other.index(fields.len());
        match self {
            Edit::RenameField => fields[spot].name = "renamed".to_owned(),
            Edit::RenumberField => fields[spot].number = 100,
            Edit::RetypeField => {
                let kinds = SCALARS.iter().filter(|kind| **kind != fields[spot].kind);
                let kinds: Vec<_> = kinds.collect();
                fields[spot].kind = (*kinds[at.index(kinds.len())]).to_owned();
            }
            Edit::RelabelField => {
                fields[spot].label = (fields[spot].label + 1 + at.index(2)) % LABELS.len();
            }
            Edit::WrapField => fields[spot].wrapped = true,
            Edit::RemoveField => drop(fields.remove(spot)),
            Edit::RenameMessage => api.messages[message].0 = "Renamed".to_owned(),
            Edit::RenameValue => api.values[value].0 = "RENAMED".to_owned(),
            Edit::RenumberValue => api.values[value].1 = 101,
            Edit::RemoveValue => drop(api.values.remove(value)),
            Edit::RenameMethod => api.methods[method].0 = "Renamed".to_owned(),
            Edit::RemoveMethod => drop(api.methods.remove(method)),
            Edit::RetypeMethod => {
                let input = api.methods[method].1;
                api.messages.push(("Another".to_owned(), Vec::new()));
                api.methods[method].1 = if input == count { 0 } else { count };
            }
            Edit::AddField => fields.push(Field {
                name: "added".to_owned(),
                number: 200,
                kind: SCALARS[at.index(SCALARS.len())].to_owned(),
                label: other.index(LABELS.len()),
                wrapped: false,
            }),
            Edit::AddMessage => api.messages.push(("Added".to_owned(), Vec::new())),
            Edit::AddValue => api.values.push(("ADDED".to_owned(), 200)),
            Edit::AddMethod => api.methods.push(("Added".to_owned(), message, 0)),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn v27_v28_v30_breaking_edit_has_one_finding_addition_none(
        api in apis(),
        edit in prop::sample::select(&Edit::ALL[..]),
        at in any::<Index>(),
        other in any::<Index>(),
    ) {
        let mut edited = api.clone();
        edit.make(&mut edited, at, other);
        let found = findings(&shop(&api.print(false)), &shop(&edited.print(false)));
        let expected = usize::from(!edit.is_addition());
        let reported: Vec<_> = found.iter().map(line).collect();
        prop_assert_eq!(found.len(), expected, "{:?}", reported);
    }

    #[test]
    fn reformatted_api_has_no_finding(api in apis()) {
        let found = findings(&shop(&api.print(false)), &shop(&api.print(true)));
        prop_assert!(found.is_empty(), "{:?}", found);
    }

    #[test]
    fn element_has_at_most_one_finding(old in apis(), new in apis()) {
        let there = findings(&shop(&old.print(false)), &shop(&new.print(false)));
        let back = findings(&shop(&new.print(false)), &shop(&old.print(true)));
        for found in [there, back] {
            let mut elements: Vec<_> = found.iter().map(|one| one.element.clone()).collect();
            let count = elements.len();
            elements.sort_unstable();
            elements.dedup();
            prop_assert_eq!(elements.len(), count, "two findings for one element: {:?}", found);
        }
    }
}
