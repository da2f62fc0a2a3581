//! Well-known types that several views use.

use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3::{
    ConfigSource, config_source::ConfigSourceSpecifier,
};
use envoy_types::pb::envoy::r#type::matcher::v3::RegexMatcher;
use envoy_types::pb::google::protobuf;
use regex::{Regex, RegexBuilder};

use super::Invalid;

/// Reads a duration that is not negative and in the range of protobuf.
pub(super) fn duration(duration: &protobuf::Duration) -> Result<Duration, Invalid> {
    /// Bound of `google.protobuf.Duration`: ten thousand years.
    const MAX_SECONDS: u64 = 315_576_000_000;
    let parts = (
        u64::try_from(duration.seconds),
        u32::try_from(duration.nanos),
    );
    match parts {
        (Ok(seconds), Ok(nanos)) if seconds <= MAX_SECONDS && nanos < 1_000_000_000 => {
            Ok(Duration::new(seconds, nanos))
        }
        _ => Err(Invalid::new("must be a duration that is not negative")),
    }
}

/// Compiles a regular expression that must match a whole text (gRFC A28).
pub(super) fn full_match(matcher: &RegexMatcher) -> Result<Regex, Invalid> {
    /// Compiled expressions stay in memory with the configuration; the default of `regex` is 10 MiB each.
    const MAX_COMPILED_BYTES: usize = 1 << 20;
    let compile = |regex: &str| {
        RegexBuilder::new(regex)
            .size_limit(MAX_COMPILED_BYTES)
            .build()
            .map_err(|error| {
                Invalid::new(format!("is not a valid regular expression: {error}")).at("regex")
            })
    };
    // The expression is compiled alone first: "a)|(b" is invalid, but would be valid between the anchors.
    compile(&matcher.regex)?;
    compile(&format!("^(?:{})$", matcher.regex))
}

/// Checks that a referenced resource comes from the same server: `ads` or `self` (gRFC A27, A47).
pub(super) fn same_server(source: Option<&ConfigSource>) -> Result<(), Invalid> {
    match source.and_then(|source| source.config_source_specifier.as_ref()) {
        Some(ConfigSourceSpecifier::Ads(_) | ConfigSourceSpecifier::Self_(_)) => Ok(()),
        _ => Err(Invalid::new("must be ads or self")),
    }
}
