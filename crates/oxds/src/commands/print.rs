//! Printing of resources and changes, as lines, YAML or JSON.

use oxds_core::observe::{ObservedChange, ObservedResource};
use oxds_types::ResourceType;
use oxds_types::codec::{Format, encode};
use oxds_types::discovery::Any;
use oxds_types::text;
use serde_json::{Value, json};

use super::View;
use crate::exit::Failure;
use crate::output::Output;
use crate::table::Table;

/// A resource with its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamedResource {
    pub(crate) name: String,
    pub(crate) resource: ObservedResource,
}

/// Prints all resources of a type.
pub(crate) fn resources(
    output: &mut Output,
    view: View,
    resource_type: &ResourceType,
    resources: &[NamedResource],
) -> Result<(), Failure> {
    match view {
        View::Table => {
            let mut table = Table::new(["NAME", "VERSION", "BYTES"]);
            for NamedResource { name, resource } in resources {
                let bytes = resource.value.len().to_string();
                table.row([name.clone(), resource.version.clone(), bytes]);
            }
            output.write(&table.text())
        }
        View::Yaml => resources
            .iter()
            .try_for_each(|named| output.write(&yaml(resource_type, &named.resource))),
        View::Json => {
            let values: Vec<_> = resources
                .iter()
                .map(|named| value(resource_type, &named.resource))
                .collect();
            output.json(&values)
        }
    }
}

/// Prints one change: a line, a YAML document, or a line of JSON.
pub(crate) fn change(
    output: &mut Output,
    view: View,
    resource_type: &ResourceType,
    change: &ObservedChange,
) -> Result<(), Failure> {
    let event = match (&change.now, change.was_held) {
        (Some(_), false) => "added",
        (Some(_), true) => "changed",
        (None, true) => "removed",
        (None, false) => "missing",
    };
    let name = &change.name;
    let version = change.now.as_ref().map_or("", |resource| &resource.version);
    let at = jiff::Zoned::now();
    match view {
        View::Table => {
            let at = at.strftime("%H:%M:%S%.3f");
            let line = format!("{at}  {event:7}  {resource_type}  {name}  {version}");
            output.line(&text::line(line.trim_end()))
        }
        View::Yaml => {
            let at = at.strftime("%Y-%m-%dT%H:%M:%S%.3f%:z");
            let body = change
                .now
                .as_ref()
                .map(|resource| yaml(resource_type, resource));
            let body = body.unwrap_or_else(|| "---\n".to_owned());
            let head = format!("# {at} {event} {name} {version}");
            output.write(&format!("{}\n{body}", text::line(&head)))
        }
        View::Json => {
            let at = at.strftime("%Y-%m-%dT%H:%M:%S%.3f%:z").to_string();
            let resource = change
                .now
                .as_ref()
                .map(|resource| value(resource_type, resource));
            let line = json!({
                "at": at, "change": event, "type": resource_type.to_string(), "name": **name,
                "version": version, "resource": resource,
            });
            output.line(&text::json(line.to_string()))
        }
    }
}

fn any(resource_type: &ResourceType, resource: &ObservedResource) -> Any {
    Any {
        type_url: resource_type.type_url_on(resource.api).to_owned(),
        value: resource.value.clone(),
    }
}

/// Returns a YAML document. For an unknown type it is a comment with the reason.
fn yaml(resource_type: &ResourceType, resource: &ObservedResource) -> String {
    let text = encode(&[any(resource_type, resource)], Format::Yaml);
    let text = text.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    text.unwrap_or_else(|error| {
        let (url, bytes) = (resource_type.type_url(), resource.value.len());
        format!("---\n# {bytes} bytes of {url}: {error}\n")
    })
}

/// Returns the message as JSON. For an unknown type it is the type URL, the size and the reason.
fn value(resource_type: &ResourceType, resource: &ObservedResource) -> Value {
    let encoded =
        encode(&[any(resource_type, resource)], Format::Json).map_err(|error| error.to_string());
    let value = encoded.and_then(|text| {
        let list: Vec<Value> = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
        list.into_iter().next().ok_or_else(String::new)
    });
    value.unwrap_or_else(
        |error| json!({"@type": resource_type.type_url(), "bytes": resource.value.len(), "error": error}),
    )
}
