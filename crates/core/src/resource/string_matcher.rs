//! `envoy.type.matcher.v3.StringMatcher` (gRFC A63).

use envoy_types::pb::envoy::r#type::matcher::v3::{
    StringMatcher as MatcherProto, string_matcher::MatchPattern,
};

use super::Invalid;
use super::convert::full_match;
use super::invalid::Within;
use crate::lb::{StringMatcher, Text};

/// Reads a matcher. An empty prefix, suffix or part is invalid, because every text has it.
pub(crate) fn string_matcher(proto: &MatcherProto) -> Result<StringMatcher, Invalid> {
    let text = |text: &String, field: &str| match text.as_str() {
        "" => Err(Invalid::new("must not be empty").at(field)),
        text => Ok(Text::new(text, proto.ignore_case)),
    };
    match &proto.match_pattern {
        Some(MatchPattern::Exact(exact)) => {
            Ok(StringMatcher::Exact(Text::new(exact, proto.ignore_case)))
        }
        Some(MatchPattern::Prefix(prefix)) => text(prefix, "prefix").map(StringMatcher::Prefix),
        Some(MatchPattern::Suffix(suffix)) => text(suffix, "suffix").map(StringMatcher::Suffix),
        Some(MatchPattern::Contains(part)) => text(part, "contains").map(StringMatcher::Contains),
        Some(MatchPattern::SafeRegex(regex)) => full_match(regex)
            .within("safe_regex")
            .map(StringMatcher::Regex),
        Some(MatchPattern::Custom(_)) => Err(Invalid::new("is not supported").at("custom")),
        None => Err(Invalid::new("must be set").at("match_pattern")),
    }
}
