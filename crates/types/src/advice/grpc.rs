//! Resources that only gRPC reads: rules that its clients and servers have beside those of the API.

use std::fmt;
use std::sync::Arc;

use envoy_types::pb::envoy::config::listener::v3::Listener;

use super::grpc_server::listening_address;
use super::report::{OnAdvice, report_at};
use crate::ResourceType;
use crate::path::{FieldPath, steps_of};

type CheckFn = dyn Fn(&ResourceType, &[u8]) -> Result<(), BrokenRule> + Send + Sync;

/// Rules by which clients and servers of gRPC accept or reject a resource.
#[derive(Clone)]
pub struct GrpcRules(Arc<CheckFn>);

/// A rule that a resource breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokenRule {
    /// Path of the field, such as `filter_chains[0].filters[0].typed_config.http_filters`; empty for the whole
    /// resource.
    pub path: String,
    /// Rule, as a clause whose subject is the field: "must end with a router".
    pub rule: String,
}

impl GrpcRules {
    /// Makes rules of a function that gets a resource type and an encoded resource, and returns the first rule that it
    /// breaks.
    pub fn new(
        check: impl Fn(&ResourceType, &[u8]) -> Result<(), BrokenRule> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(check))
    }
}

impl fmt::Debug for GrpcRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GrpcRules")
    }
}

/// Reader of a resource that only gRPC reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reader {
    Client,
    Server,
}

impl Reader {
    /// Returns the reader of a listener; `None` if it may be for Envoy.
    pub(super) fn of_listener(listener: &Listener) -> Option<Self> {
        if listening_address(&listener.name).is_some() {
            return Some(Self::Server);
        }
        listener.api_listener.as_ref().map(|_| Self::Client)
    }
}

/// Reports the rule that a resource breaks, unless advice about the same field was reported before.
pub(super) fn check(
    reader: Reader,
    (resource_type, value): (&ResourceType, &[u8]),
    rules: &GrpcRules,
    reported: &[String],
    path: &mut FieldPath,
    report: &mut OnAdvice<'_>,
) {
    let Err(BrokenRule { path: field, rule }) = (rules.0)(resource_type, value) else {
        return;
    };
    let is_known = |known: &String| known.starts_with(&field) || field.starts_with(&**known);
    if reported.iter().any(is_known) {
        return;
    }
    let (readers, name) = match reader {
        Reader::Client => ("clients", "grpc-client"),
        Reader::Server => ("servers", "grpc-server"),
    };
    let text = format!("{rule}: gRPC {readers} reject the resource");
    let steps = steps_of(&field).unwrap_or_default();
    let count = steps.len();
    steps.into_iter().for_each(|step| path.push(step));
    report_at(path, [], name, text, report);
    (0..count).for_each(|_| path.pop());
}
