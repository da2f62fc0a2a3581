//! Well-known types that several views use.

use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3::{
    ConfigSource, config_source::ConfigSourceSpecifier,
};
use envoy_types::pb::envoy::r#type::matcher::v3::RegexMatcher;
use envoy_types::pb::google::protobuf;
use regex::{Regex, RegexBuilder};

use super::Invalid;
use super::re2::translate;
use crate::time;

/// Reads a duration that is not negative and in the range of protobuf.
pub(super) fn duration(duration: &protobuf::Duration) -> Result<Duration, Invalid> {
    time::duration(duration).ok_or_else(|| Invalid::new("must be a duration that is not negative"))
}

/// Returns the full name of the message that an `Any` has; empty without one.
pub(super) fn message(any: &protobuf::Any) -> &str {
    any.type_url.rsplit('/').next().unwrap_or_default()
}

/// Compiles the regular expression of a matcher (RE2's dialect).
pub(super) fn compile(regex: &str) -> Result<Regex, Invalid> {
    build(&translated(regex)?)
}

/// Compiles a regular expression that must match a whole text (gRFC A28).
pub(crate) fn full_match(matcher: &RegexMatcher) -> Result<Regex, Invalid> {
    let regex = translated(&matcher.regex)?;
    // The expression is compiled alone first: "a)|(b" is invalid, but would be valid between the anchors.
    build(&regex)?;
    build(&format!("^(?:{regex})$"))
}

fn translated(regex: &str) -> Result<String, Invalid> {
    translate(regex).map_err(|error| not_a_regex(&error))
}

fn build(regex: &str) -> Result<Regex, Invalid> {
    /// Compiled expressions stay in memory with the configuration; the default of `regex` is 10 MiB each.
    const MAX_COMPILED_BYTES: usize = 1 << 20;
    RegexBuilder::new(regex)
        .size_limit(MAX_COMPILED_BYTES)
        .build()
        .map_err(|error| not_a_regex(&error.to_string()))
}

fn not_a_regex(error: &str) -> Invalid {
    Invalid::new(format!("is not a valid regular expression: {error}")).at("regex")
}

/// Checks that a referenced resource comes from the same server: `ads` or `self` (gRFC A27, A47).
pub(super) fn same_server(source: Option<&ConfigSource>) -> Result<(), Invalid> {
    match source.and_then(|source| source.config_source_specifier.as_ref()) {
        Some(ConfigSourceSpecifier::Ads(_) | ConfigSourceSpecifier::Self_(_)) => Ok(()),
        _ => Err(Invalid::new("must be ads or self")),
    }
}
