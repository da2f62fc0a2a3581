//! Conditions on a call and its caller, compiled.

use std::ops::Range;

use super::call::{Call, PeerIdentity, Security};
use crate::cidr::Cidr;
use crate::lb::{HeaderMatcher, StringMatcher};

/// Condition of a permission or a principal.
#[derive(Debug, Clone, PartialEq)]
pub enum Rule {
    /// All conditions hold; true without conditions.
    All(Box<[Rule]>),
    /// A condition holds; false without conditions.
    Any(Box<[Rule]>),
    /// The condition does not hold.
    Not(Box<Rule>),
    /// A fixed value: that of `any`, and of fields that have one in gRPC.
    Constant(bool),
    /// The header matches.
    Header(HeaderMatcher),
    /// The path matches.
    Path(StringMatcher),
    /// The server's address is in the range.
    Destination(Cidr),
    /// The server's port is from `start` to below `end`.
    DestinationPort(Range<i64>),
    /// The peer's address is in the range.
    Source(Cidr),
    /// The connection has TLS, and a name of the peer matches; with `None`, any peer does.
    Authenticated(Option<StringMatcher>),
}

impl Rule {
    pub(super) fn matches(&self, call: &Call<'_>) -> bool {
        match self {
            Self::All(rules) => rules.iter().all(|rule| rule.matches(call)),
            Self::Any(rules) => rules.iter().any(|rule| rule.matches(call)),
            Self::Not(rule) => !rule.matches(call),
            Self::Constant(value) => *value,
            Self::Header(matcher) => matcher.matches_value(call.header(&matcher.name).as_deref()),
            Self::Path(matcher) => matcher.matches(call.path),
            Self::Destination(range) => range.contains(call.destination.ip()),
            Self::DestinationPort(range) => range.contains(&call.destination.port().into()),
            Self::Source(range) => range.contains(call.source.ip()),
            Self::Authenticated(name) => match (call.security, name) {
                (Security::Plaintext, _) => false,
                (Security::Tls(_), None) => true,
                (Security::Tls(identity), Some(name)) => is_principal(identity, name),
            },
        }
    }
}

/// Returns whether a name of the peer matches.
///
/// gRFC A41: the URIs decide if there are any, else the DNS names, else the subject; without a certificate, the empty
/// text.
fn is_principal(identity: Option<&PeerIdentity>, name: &StringMatcher) -> bool {
    let any = |names: &[String]| names.iter().any(|found| name.matches(found));
    match identity {
        None => name.matches(""),
        Some(identity) if !identity.uri_sans.is_empty() => any(&identity.uri_sans),
        Some(identity) if !identity.dns_sans.is_empty() => any(&identity.dns_sans),
        Some(identity) => name.matches(&identity.subject),
    }
}
