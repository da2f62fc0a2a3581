//! Maturity of an element: stable, or one of several unstable states (V-6).
//!
//! The nearest mark counts: the element's own, then its parent's, its file's, its package's.

use std::fmt;

use prost_reflect::{DynamicMessage, ReflectMessage as _, Value};

use crate::model::{Enum, Extension, Field, File, Message, Options, Service, Source, Tree};
use crate::package::{PackageName, Stage};

/// Maturity of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Maturity {
    /// Stable: the policy applies.
    Stable,
    /// Annotated with `work_in_progress` on the file, message or field.
    WorkInProgress,
    /// Marked with `[#not-implemented-hide:]` or `[#not-implemented-warn:]`.
    NotImplemented,
    /// Marked with `[#proto-status: draft]`.
    Draft,
    /// Marked with `[#proto-status: experimental]`.
    Experimental,
    /// Marked with `[#alpha:]`, or in a package `vNalpha`.
    Alpha,
    /// In a package `vNbeta`.
    Beta,
    /// In a package `vNtest`.
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

/// Value of `package_version_status` of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Status {
    /// No more changes: a newer major is stable.
    Frozen,
    /// The current major of the package.
    Active,
    /// The next major of the package.
    Candidate,
}

/// Returns the status that a file gives its package, or `None` if it is not set or UNKNOWN. The
/// annotation of `udpa` or of `xds` has it.
#[must_use]
pub fn status(file: &File) -> Option<Status> {
    let annotations = [
        "udpa.annotations.file_status",
        "xds.annotations.v3.file_status",
    ];
    annotations.into_iter().find_map(|name| {
        let annotation = file.options.extension(name)?.as_message()?;
        match set(annotation, "package_version_status")?.as_enum_number()? {
            1 => Some(Status::Frozen),
            2 => Some(Status::Active),
            3 => Some(Status::Candidate),
            _ => None,
        }
    })
}

/// Returns the maturity of a package, by its name.
#[must_use]
pub fn of_package(name: &str) -> Maturity {
    match PackageName::of(name).version.map(|version| version.stage) {
        Some(Stage::Alpha(_)) => Maturity::Alpha,
        Some(Stage::Beta(_)) => Maturity::Beta,
        Some(Stage::Test) => Maturity::Test,
        Some(Stage::Stable) | None => Maturity::Stable,
    }
}

/// Returns the maturity of a file.
#[must_use]
pub fn of_file(tree: &Tree, file: &File) -> Maturity {
    annotated(&file.options, "file_status")
        .or_else(|| titled(tree, file))
        .unwrap_or_else(|| of_package(&file.package))
}

/// Returns the maturity of a message.
#[must_use]
pub fn of_message(tree: &Tree, message: &Message) -> Maturity {
    let own = annotated(&message.options, "message_status");
    own.or_else(|| commented(&message.source))
        .unwrap_or_else(|| match message.parent {
            Some(parent) => of_message(tree, &tree[parent]),
            None => of_file(tree, &tree[message.file]),
        })
}

/// Returns the maturity of a field of `owner`.
#[must_use]
pub fn of_field(tree: &Tree, owner: &Message, field: &Field) -> Maturity {
    annotated(&field.options, "field_status")
        .or_else(|| commented(&field.source))
        .unwrap_or_else(|| of_message(tree, owner))
}

/// Returns the maturity of an extension.
#[must_use]
pub fn of_extension(tree: &Tree, extension: &Extension) -> Maturity {
    let field = &extension.field;
    annotated(&field.options, "field_status")
        .or_else(|| commented(&field.source))
        .unwrap_or_else(|| match extension.parent {
            Some(parent) => of_message(tree, &tree[parent]),
            None => of_file(tree, &tree[extension.file]),
        })
}

/// Returns the maturity of an enum.
#[must_use]
pub fn of_enum(tree: &Tree, one: &Enum) -> Maturity {
    commented(&one.source).unwrap_or_else(|| match one.parent {
        Some(parent) => of_message(tree, &tree[parent]),
        None => of_file(tree, &tree[one.file]),
    })
}

/// Returns the maturity of a service.
#[must_use]
pub fn of_service(tree: &Tree, service: &Service) -> Maturity {
    commented(&service.source).unwrap_or_else(|| of_file(tree, &tree[service.file]))
}

/// Returns the mark in the comments of the element itself.
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

/// Returns the mark in the title paragraph of a file, which stands before its first declaration.
fn titled(tree: &Tree, file: &File) -> Option<Maturity> {
    let first = (file.messages.iter().map(|id| &tree[*id].source))
        .chain(file.enums.iter().map(|id| &tree[*id].source))
        .chain(file.services.iter().map(|id| &tree[*id].source));
    let sources = first.chain([&file.sources.package, &file.sources.syntax]);
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
