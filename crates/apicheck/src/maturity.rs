//! How far an element is: stable, or one of the ways not to be (V-6).
//!
//! The nearest mark counts: that of the element, of what encloses it, of its file, of its package.

use std::fmt;

use prost_reflect::{DynamicMessage, ReflectMessage as _, Value};

use crate::model::{Enum, Field, File, Message, Options, Service, Source, Tree};
use crate::package::{PackageName, Stage};

/// How far an element is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Maturity {
    /// The policy holds for it.
    Stable,
    /// `work_in_progress` in an annotation of its file, message or field.
    WorkInProgress,
    /// `[#not-implemented-hide:]`, `[#not-implemented-warn:]`.
    NotImplemented,
    /// `[#proto-status: draft]`.
    Draft,
    /// `[#proto-status: experimental]`.
    Experimental,
    /// `[#alpha:]`, or a package `vNalpha`.
    Alpha,
    /// A package `vNbeta`.
    Beta,
    /// A package `vNtest`.
    Test,
}

impl fmt::Display for Maturity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Maturity::Stable => "stable",
            Maturity::WorkInProgress => "work in progress",
            Maturity::NotImplemented => "not implemented",
            Maturity::Draft => "draft",
            Maturity::Experimental => "experimental",
            Maturity::Alpha => "alpha",
            Maturity::Beta => "beta",
            Maturity::Test => "test",
        })
    }
}

/// `package_version_status` of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Status {
    /// No more changes: a newer major is stable.
    Frozen,
    /// The current major.
    Active,
    /// The next major.
    Candidate,
}

/// The status that a file gives its package; none when it gives none, or UNKNOWN.
#[must_use]
pub fn status(file: &File) -> Option<Status> {
    let annotations = [
        "udpa.annotations.file_status",
        "xds.annotations.v3.file_status",
    ];
    let mut statuses = annotations.into_iter().filter_map(|name| {
        let annotation = file.options.extension(name)?.as_message()?;
        set(annotation, "package_version_status")?.as_enum_number()
    });
    match statuses.next()? {
        1 => Some(Status::Frozen),
        2 => Some(Status::Active),
        3 => Some(Status::Candidate),
        _ => None,
    }
}

/// How far a package is, by its name.
#[must_use]
pub fn of_package(name: &str) -> Maturity {
    match PackageName::of(name).version.map(|version| version.stage) {
        Some(Stage::Alpha(_)) => Maturity::Alpha,
        Some(Stage::Beta(_)) => Maturity::Beta,
        Some(Stage::Test) => Maturity::Test,
        Some(Stage::Stable) | None => Maturity::Stable,
    }
}

/// How far a file is.
#[must_use]
pub fn of_file(tree: &Tree, file: &File) -> Maturity {
    annotated(&file.options, "file_status")
        .or_else(|| titled(tree, file))
        .unwrap_or_else(|| of_package(&file.package))
}

/// How far a message is.
#[must_use]
pub fn of_message(tree: &Tree, message: &Message) -> Maturity {
    let own = annotated(&message.options, "message_status");
    own.or_else(|| commented(&message.source))
        .unwrap_or_else(|| match message.parent {
            Some(parent) => of_message(tree, &tree[parent]),
            None => of_file(tree, &tree[message.file]),
        })
}

/// How far a field of `owner` is.
#[must_use]
pub fn of_field(tree: &Tree, owner: &Message, field: &Field) -> Maturity {
    annotated(&field.options, "field_status")
        .or_else(|| commented(&field.source))
        .unwrap_or_else(|| of_message(tree, owner))
}

/// How far an enum is.
#[must_use]
pub fn of_enum(tree: &Tree, one: &Enum) -> Maturity {
    commented(&one.source).unwrap_or_else(|| match one.parent {
        Some(parent) => of_message(tree, &tree[parent]),
        None => of_file(tree, &tree[one.file]),
    })
}

/// How far a service is.
#[must_use]
pub fn of_service(tree: &Tree, service: &Service) -> Maturity {
    commented(&service.source).unwrap_or_else(|| of_file(tree, &tree[service.file]))
}

/// The mark in the comments of an element itself.
#[must_use]
pub fn commented(source: &Source) -> Option<Maturity> {
    source.comments().find_map(mark)
}

fn annotated(options: &Options, kind: &str) -> Option<Maturity> {
    let namespaces = ["udpa.annotations", "xds.annotations.v3"];
    let in_progress = namespaces.into_iter().any(|namespace| {
        let name = format!("{namespace}.{kind}");
        let annotation = options.extension(&name).and_then(Value::as_message);
        let flag = annotation.and_then(|message| set(message, "work_in_progress"));
        flag.and_then(Value::as_bool) == Some(true)
    });
    in_progress.then_some(Maturity::WorkInProgress)
}

/// The mark in the paragraph that gives a file its title: it stands apart, before the first declaration.
fn titled(tree: &Tree, file: &File) -> Option<Maturity> {
    let first = (file.messages.iter().map(|id| &tree[*id].source))
        .chain(file.enums.iter().map(|id| &tree[*id].source))
        .chain(file.services.iter().map(|id| &tree[*id].source));
    let sources = first.chain([&file.package_source, &file.syntax_source]);
    let paragraphs = sources
        .filter_map(|source| source.docs.as_ref())
        .flat_map(|docs| &docs.detached);
    paragraphs
        .filter(|text| text.contains("[#protodoc-title:"))
        .find_map(|text| mark(text))
}

fn mark(text: &str) -> Option<Maturity> {
    const MARKS: [(&str, Maturity); 5] = [
        ("[#not-implemented-hide:", Maturity::NotImplemented),
        ("[#not-implemented-warn:", Maturity::NotImplemented),
        ("[#proto-status: draft", Maturity::Draft),
        ("[#proto-status: experimental", Maturity::Experimental),
        ("[#alpha:", Maturity::Alpha),
    ];
    if !text.contains("[#") {
        return None;
    }
    let found = MARKS.into_iter().find(|(mark, _)| text.contains(mark));
    found.map(|(_, maturity)| maturity)
}

fn set<'m>(message: &'m DynamicMessage, name: &str) -> Option<&'m Value> {
    let number = message.descriptor().get_field_by_name(name)?.number();
    let mut fields = message.fields();
    fields
        .find(|(field, _)| field.number() == number)
        .map(|(_, value)| value)
}
