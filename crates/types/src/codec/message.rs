//! Messages that a program made, checked as those in files are.

use std::fmt;

use prost::{Message, Name};

use super::tree::Context;
use super::{LoadedResource, Locating, Options, Report, Walk, whole};
use crate::Error;

/// Makes a resource of a message: what its API forbids is refused, and equal messages have equal bytes.
///
/// Maps of `envoy-types` encode in an order that differs from process to process; here they are sorted, those within
/// an `Any` too, so that replicas agree on the version (S-29). The name is the message's own, unless one is given, as
/// an `LbEndpoint` needs.
///
/// ```
/// use envoy_types::pb::envoy::config::cluster::v3::Cluster;
/// use oxds_types::{ResourceType, codec};
///
/// let blue = Cluster { name: "blue".into(), ..Cluster::default() };
/// let resource = codec::check(&blue, None)?;
/// assert_eq!((resource.resource_type, &*resource.name), (ResourceType::CLUSTER, "blue"));
///
/// let refused = codec::check(&Cluster { lb_policy: 77, ..blue }, None).unwrap_err();
/// assert_eq!(refused.to_string(), "blue: lb_policy: enum.defined_only does not hold, value is 77");
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
    let read = whole::read_message(&M::full_name(), bytes, context)
        .map(|draft| vec![draft.wrapped(name.map(str::to_owned), None)]);
    report.document("", 0, Locating::No, walk, read);
    let unfit = |findings| InvalidMessage {
        name: name.map(str::to_owned),
        findings,
    };
    // One message is one resource.
    let mut resources = report.finish().map_err(unfit)?;
    resources.pop().ok_or_else(|| unfit(Vec::new()))
}

/// A message that no client could use, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct InvalidMessage {
    name: Option<String>,
    findings: Vec<Error>,
}

impl InvalidMessage {
    /// Everything that is wrong with it: at least one thing.
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
