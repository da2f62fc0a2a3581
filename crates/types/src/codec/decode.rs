//! Decodes the resources of a file, and checks messages of programs in the same way.

use std::fmt;
use std::path::Path;

use prost::{Message, Name};

use super::document::{read_json, read_yaml, yaml_documents};
use super::protobuf;
use super::report::{Locating, Report};
use super::resource::{Format, LoadedResource, Options, ReadResult};
use super::walk::{Context, Walk};
use crate::Error;
use crate::error::{self, Reason};

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
    let mut report = Report::new(Some(file));
    if bytes.len() > options.max_bytes {
        let reason = format!(
            "{} bytes: expected at most {}",
            bytes.len(),
            options.max_bytes
        );
        return Err(vec![report.error(Reason::TooLarge(reason), None)]);
    }
    if format == Format::Binary {
        let walk = Walk::default();
        let read = protobuf::read_binary(
            bytes,
            Context {
                walk: &walk,
                options,
            },
        );
        report.document("", 0, Locating::No, walk, read);
        return report.finish();
    }
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let valid = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
            let reason = Reason::Syntax("not UTF-8".to_owned());
            return Err(vec![report.error(reason, Some(error::end_of(&valid)))]);
        }
    };
    with_enough_stack(|| {
        let mut document =
            |line: usize, text: &str, read: fn(&str, Context<'_>) -> ReadResult, locating| {
                let walk = Walk::default();
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

/// Runs `read` on a thread with a large stack in debug builds. Reading is recursive. At the limits on depth it needs
/// 0.5 MB in optimized builds, which every thread has, and six times as much in debug builds.
fn with_enough_stack(read: impl FnOnce() + Send) {
    const DEBUG_STACK: usize = 16 << 20;
    if !cfg!(debug_assertions) {
        return read();
    }
    let mut read = Some(read);
    std::thread::scope(|scope| {
        let read = &mut read;
        let builder = std::thread::Builder::new().stack_size(DEBUG_STACK);
        let thread = builder.spawn_scoped(scope, || read.take().map(|read| read()));
        if let Ok(Err(panic)) = thread.map(std::thread::ScopedJoinHandle::join) {
            std::panic::resume_unwind(panic);
        }
    });
    // The thread could not be spawned. This stack suffices for all but the deepest documents.
    if let Some(read) = read {
        read();
    }
}

/// Validates a message that a program made, and encodes it canonically: equal messages become equal bytes.
///
/// `envoy-types` encodes map entries in an order that differs from process to process. Here they are sorted, also inside
/// an `Any`, so that replicas agree on the version (S-29). `name` replaces the name in the message; an `LbEndpoint`, which
/// has none, needs it.
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
    let mut report = Report::new(None);
    let walk = Walk::default();
    let options = Options::default();
    let context = Context {
        walk: &walk,
        options: &options,
    };
    let bytes = message.encode_to_vec().into();
    let read = protobuf::read_message(&M::full_name(), bytes, context)
        .map(|draft| vec![draft.wrapped(name.map(str::to_owned), None)]);
    report.document("", 0, Locating::No, walk, read);
    let invalid = |findings| InvalidMessage {
        name: name.map(str::to_owned),
        findings,
    };
    // One message is one resource.
    let mut resources = report.finish().map_err(invalid)?;
    resources.pop().ok_or_else(|| invalid(Vec::new()))
}

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
