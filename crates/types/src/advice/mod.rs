//! Advice about valid resources: parts that never take effect, and parts that clients reject although the rules of the
//! API hold. Each is a warning.
//!
//! ```text
//!   Listener ────────────────▶ filter_chains: equal matches, a default that is never used
//!       └── of a gRPC server ▶ grpc_server:   what gRFC A36 and A29 reject or ignore
//!   RBAC, anywhere ──────────▶ rbac:          policies that never match, conditions
//!   certificate provider ────▶ certificates:  instances that the bootstrap does not have
//!   read by gRPC alone ──────▶ grpc:          what its parsers reject
//! ```

use std::collections::BTreeSet;

use envoy_types::pb::envoy::config::listener::v3::Listener;
use prost_reflect::{DynamicMessage, Value};

use crate::Decode;
use crate::ResourceType;
use crate::path::{FieldPath, Step, key_text};
use crate::schema::{Message, Shape, Type, WellKnown, unpack};

mod certificates;
mod filter_chains;
mod grpc;
mod grpc_server;
mod rbac;
mod report;

use grpc::Reader;
pub use grpc::{BrokenRule, GrpcRules};
pub(crate) use report::Advice;
use report::OnAdvice;

/// Facts about the clients.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClientFacts<'a> {
    /// Certificate providers of their bootstrap.
    pub(crate) providers: Option<&'a BTreeSet<String>>,
    /// Rules of those that speak gRPC.
    pub(crate) grpc: Option<&'a GrpcRules>,
}

/// Reports advice about the resource at `path`. `value`: its encoding.
pub(crate) fn advise(
    schema: &'static Message,
    message: &DynamicMessage,
    value: &[u8],
    path: &mut FieldPath,
    known: ClientFacts<'_>,
    report: &mut OnAdvice<'_>,
) {
    let base = path.steps().len();
    let mut reported = Vec::new();
    let mut report_once = |path: &FieldPath, advice| {
        reported.push(path.after(base));
        report(path, advice);
    };
    let reader = advise_by_api(
        schema,
        message,
        value,
        path,
        known.providers,
        &mut report_once,
    );
    if let (Some(reader), Some(rules)) = (reader, known.grpc) {
        let (resource_type, _) = ResourceType::from_message(schema.full_name());
        let resource = (&resource_type, value);
        grpc::check(reader, resource, rules, &reported, path, report);
    }
}

/// Reports advice that the messages alone allow. Returns the reader of the resource, if only gRPC reads it.
fn advise_by_api(
    schema: &'static Message,
    message: &DynamicMessage,
    value: &[u8],
    path: &mut FieldPath,
    providers: Option<&BTreeSet<String>>,
    report: &mut OnAdvice<'_>,
) -> Option<Reader> {
    let mut reader = None;
    if schema.full_name() == "envoy.config.listener.v3.Listener"
        && let Ok(listener) = Listener::from_bytes(value)
    {
        filter_chains::check(&listener, path, report);
        grpc_server::check(&listener, path, report);
        reader = Reader::of_listener(&listener);
    }
    // Most resources have neither. The encoding shows the type URLs of all messages in it.
    let is_cluster = schema.full_name() == "envoy.config.cluster.v3.Cluster";
    if contains(value, b"TlsContext") || contains(value, b".rbac.v3.") {
        each_message(schema, message, path, &mut |schema, message, path| {
            if certificates::is_instance(schema) {
                // Envoy has no certificate providers.
                reader = reader.or(is_cluster.then_some(Reader::Client));
                if let Some(providers) = providers {
                    certificates::check(message, providers, path, report);
                }
            }
            rbac::check(schema, message, path, report);
        });
    }
    reader
}

fn contains(bytes: &[u8], text: &[u8]) -> bool {
    bytes.windows(text.len()).any(|window| window == text)
}

/// Receives a message and the path to it.
type OnMessage<'a> = dyn FnMut(&'static Message, &DynamicMessage, &mut FieldPath) + 'a;

/// Visits a message and all messages in it, those in an `Any` included.
fn each_message(
    schema: &'static Message,
    message: &DynamicMessage,
    path: &mut FieldPath,
    visit: &mut OnMessage<'_>,
) {
    visit(schema, message, path);
    for (descriptor, value) in message.fields() {
        let Some(field) = schema.field(descriptor.number()) else {
            continue;
        };
        path.push(Step::Field(&field.name));
        match (&field.shape, value) {
            (Shape::One(ty), value) => each_in(ty, value, path, visit),
            (Shape::List(ty), Value::List(values)) => {
                for (index, value) in values.iter().enumerate() {
                    path.push(Step::Index(index));
                    each_in(ty, value, path, visit);
                    path.pop();
                }
            }
            (Shape::Map { value: ty, .. }, Value::Map(values)) => {
                for (key, value) in values {
                    path.push(Step::Key(key_text(key)));
                    each_in(ty, value, path, visit);
                    path.pop();
                }
            }
            _ => {}
        }
        path.pop();
    }
}

fn each_in(ty: &'static Type, value: &Value, path: &mut FieldPath, visit: &mut OnMessage<'_>) {
    let (Some(schema), Value::Message(message)) = (ty.message(), value) else {
        return;
    };
    match schema.well_known {
        None => each_message(schema, message, path, visit),
        Some(WellKnown::Any) => {
            if let Some((schema, message)) = unpack(message) {
                each_message(schema, &message, path, visit);
            }
        }
        Some(_) => {}
    }
}

#[cfg(test)]
mod tests;
