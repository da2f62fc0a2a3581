//! Decodes the resources of a file, and checks messages of programs in the same way.

use std::fmt;
use std::path::Path;

use bytes::Bytes;
use prost::{Message, Name};

use super::document::{read_json, read_yaml, yaml_documents};
use super::protobuf;
use super::report::{Locating, Report};
use super::resource::{Format, LoadedResource, Options, ReadResult};
use super::walk::{Context, Walk};
use crate::clip::clip;
use crate::depth::{self, MAX_BRACKETS, MAX_DEPTH, brackets, on_stack_for};
use crate::error::Reason;
use crate::schema;
use crate::{Error, Position};

/// Reads the resources of a file. `file` is used only to name the file in errors.
///
/// A document is one resource (with `@type`), a list of them, or a `DiscoveryResponse` (`resources:`) (S-72).
///
/// # Errors
/// All findings, at least one, if any resource of the file is invalid.
pub fn decode(
    file: &Path,
    format: Format,
    bytes: &[u8],
    options: &Options,
) -> Result<Vec<LoadedResource>, Vec<Error>> {
    let mut report = Report::new(Some(file), &options.policy);
    if bytes.len() > options.max_bytes {
        let reason = format!(
            "{} bytes: expected at most {}",
            bytes.len(),
            options.max_bytes
        );
        return Err(vec![report.error(Reason::TooLarge(reason), None)]);
    }
    if format == Format::Binary {
        on_stack_for(MAX_DEPTH, || {
            let walk = Walk::new(options);
            let context = Context {
                walk: &walk,
                options,
            };
            let read = protobuf::read_binary(bytes, context);
            report.document("", 0, Locating::No, walk, read);
        });
        return report.finish();
    }
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let valid = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
            let reason = Reason::Syntax("not UTF-8".to_owned());
            return Err(vec![report.error(reason, Some(Position::after(&valid)))]);
        }
    };
    let levels = match format {
        Format::Json | Format::Text => brackets(bytes).min(MAX_BRACKETS),
        Format::Yaml | Format::Binary => MAX_DEPTH,
    };
    on_stack_for(levels, || {
        let mut document =
            |line: usize, text: &str, read: fn(&str, Context<'_>) -> ReadResult, locating| {
                let walk = Walk::new(options);
                let read = read(
                    text,
                    Context {
                        walk: &walk,
                        options,
                    },
                );
                report.document(text, line, locating, walk, read);
            };
        match format {
            Format::Yaml => {
                for (line, text) in yaml_documents(text) {
                    document(line, text, read_yaml, Locating::ByPath);
                }
            }
            Format::Json => document(0, text, read_json, Locating::ByPath),
            Format::Text | Format::Binary => document(0, text, protobuf::read_text, Locating::No),
        }
    });
    report.finish()
}

/// Returns whether a file has no content but white space, comments and document markers. An empty list is content.
#[must_use]
pub fn is_blank(format: Format, bytes: &[u8]) -> bool {
    let blank = |is_blank: fn(&str) -> bool| std::str::from_utf8(bytes).is_ok_and(is_blank);
    match format {
        Format::Binary => bytes.is_empty(),
        Format::Yaml => blank(|text| yaml_documents(text).next().is_none()),
        Format::Json => blank(|text| text.trim().is_empty()),
        Format::Text => blank(|text| {
            let mut lines = text.lines().map(str::trim);
            lines.all(|line| line.is_empty() || line.starts_with('#'))
        }),
    }
}

/// Validates a message that a program made, and encodes it canonically: equal messages become equal bytes.
///
/// `envoy-types` encodes map entries in an order that differs from process to process. Here they are sorted, also
/// inside an `Any`, so that replicas agree on the version (S-29). `name` replaces the name in the message; an
/// `LbEndpoint`, which has none, needs it.
///
/// # Errors
/// The message breaks a rule of the API, or has no name.
///
/// ```
/// use envoy_types::pb::envoy::config::cluster::v3::Cluster;
/// use oxds_types::{ResourceType, codec};
///
/// let blue = Cluster { name: "blue".into(), ..Cluster::default() };
/// let resource = codec::check(&blue, None)?;
/// assert_eq!((resource.resource_type, &*resource.name), (ResourceType::CLUSTER, "blue"));
///
/// let invalid = codec::check(&Cluster { lb_policy: 77, ..blue }, None).unwrap_err();
/// assert_eq!(invalid.to_string(), "blue: lb_policy: enum.defined_only does not hold, value is 77");
/// # Ok::<_, codec::InvalidMessage>(())
/// ```
pub fn check<M: Message + Name>(
    message: &M,
    name: Option<&str>,
) -> Result<LoadedResource, InvalidMessage> {
    check_with(message, name, &Options::default())
}

/// Validates and encodes a message as [`check`] does, with other options: a policy for deprecated fields, for example.
///
/// # Errors
/// The message breaks a rule of the API, uses a disallowed field, or has no name.
///
/// ```
/// use envoy_types::pb::envoy::config::trace::v3::ZipkinConfig;
/// use oxds_types::codec::{self, Options};
/// use oxds_types::lifecycle::{Clock, Policy};
/// use oxds_types::runtime::{Layer, Snapshot, Source};
///
/// let zipkin = ZipkinConfig {
///     collector_cluster: "zipkin".into(),
///     collector_endpoint: "/spans".into(),
///     ..ZipkinConfig::default()
/// };
/// let error = codec::check(&zipkin, Some("zipkin")).unwrap_err().to_string();
/// assert!(error.contains("\"envoy.deprecated_features:envoy.config.trace.v3.ZipkinConfig.DEPRECATED_AND"), "{error}");
///
/// let layer = Layer::new("program", Source::Static)
///     .with("envoy.features.enable_all_deprecated_features", true)?;
/// let mut options = Options::default();
/// options.policy = Policy::new(Snapshot::from_layers(vec![layer]), Clock::default());
/// let allowed = codec::check_with(&zipkin, Some("zipkin"), &options)?;
/// assert_eq!(allowed.warnings.len(), 1);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub fn check_with<M: Message + Name>(
    message: &M,
    name: Option<&str>,
    options: &Options,
) -> Result<LoadedResource, InvalidMessage> {
    let mut report = Report::new(None, &options.policy);
    let (type_name, bytes) = (M::full_name(), Bytes::from(message.encode_to_vec()));
    on_stack_for(protobuf::levels(&type_name, &bytes), || {
        let walk = Walk::new(options);
        let context = Context {
            walk: &walk,
            options,
        };
        let read = protobuf::read_message(&type_name, bytes.clone(), context)
            .map(|draft| vec![draft.wrapped(name.map(str::to_owned), None)]);
        report.document("", 0, Locating::No, walk, read);
    });
    let invalid = |findings| InvalidMessage {
        name: name.map(str::to_owned),
        findings,
    };
    // One message is one resource.
    let mut resources = report.finish().map_err(invalid)?;
    resources.pop().ok_or_else(|| invalid(Vec::new()))
}

/// Looks for deprecated, unfinished and unknown fields in a message that came in binary form, at every depth. Rules of
/// the API (`validate.rules`) are not checked. A message that the descriptors do not know has no findings.
///
/// # Errors
/// All errors: disallowed elements, unknown fields unless they are accepted, or bytes that cannot be decoded.
pub fn inspect(message: &str, value: &[u8], options: &Options) -> Result<Vec<Error>, Vec<Error>> {
    let Some(schema) = schema::find(message) else {
        return Ok(Vec::new());
    };
    let mut report = Report::new(None, &options.policy);
    let warnings = on_stack_for(protobuf::levels(message, value), || {
        let walk = Walk::new(options);
        let context = Context {
            walk: &walk,
            options,
        };
        let read = protobuf::inspect(schema, value, context);
        report.message(walk, read)
    });
    match warnings {
        Some(warnings) => Ok(warnings),
        None => report.finish().map(|_| Vec::new()),
    }
}

/// Checks that an encoded message nests at most 100 levels deep, an `Any` in an `Any` included. A message that the
/// descriptors do not know passes: nothing descends into it.
///
/// # Errors
/// It nests deeper. The text has the path.
pub fn check_depth(message: &str, value: &[u8]) -> Result<(), DepthError> {
    let Some(schema) = schema::find(message) else {
        return Ok(());
    };
    match depth::measure(schema, value, MAX_DEPTH) {
        Ok(_) => Ok(()),
        Err(deep) => Err(DepthError(clip(deep.to_string()))),
    }
}

/// A message that nests too deep: path and limit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DepthError(String);

/// Validation errors of a message that a program made.
#[derive(Debug, Clone, PartialEq)]
pub struct InvalidMessage {
    name: Option<String>,
    findings: Vec<Error>,
}

impl InvalidMessage {
    /// Returns all errors; there is at least one.
    #[must_use]
    pub fn findings(&self) -> &[Error] {
        &self.findings
    }
}

impl fmt::Display for InvalidMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, finding) in self.findings.iter().enumerate() {
            if at > 0 {
                f.write_str("; ")?;
            }
            let name = self.name.as_deref().or(finding.resource.as_deref());
            if let Some(name) = name {
                write!(f, "{name}: ")?;
            }
            if !finding.path.is_empty() {
                write!(f, "{}: ", finding.path)?;
            }
            finding.reason.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for InvalidMessage {}
