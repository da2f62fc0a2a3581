//! `envoy.config.route.v3.HeaderMatcher` (gRFC A28, A63).

use envoy_types::pb::envoy::config::route::v3::{
    HeaderMatcher as HeaderProto, header_matcher::HeaderMatchSpecifier as Specifier,
};

use super::Invalid;
use super::convert::full_match;
use super::invalid::Within;
use super::string_matcher::string_matcher;
use crate::lb::{HeaderMatch, HeaderMatcher, StringMatcher, Text};

/// Reads a matcher (gRFC A28, A63).
pub(crate) fn header_matcher(proto: &HeaderProto) -> Result<HeaderMatcher, Invalid> {
    if proto.name.is_empty() {
        return Err(Invalid::new("must not be empty").at("name"));
    }
    let not_empty = |text: &str, field: &str| match text {
        "" => Err(Invalid::new("must not be empty").at(field)),
        text => Ok(Text::new(text, false)),
    };
    #[expect(
        deprecated,
        reason = "control planes still send them, and gRFC A28 supports them"
    )]
    let matching = match &proto.header_match_specifier {
        Some(Specifier::RangeMatch(range)) => HeaderMatch::Range(range.start..range.end),
        Some(Specifier::PresentMatch(present)) => HeaderMatch::Present(*present),
        Some(Specifier::ExactMatch(text)) => {
            HeaderMatch::Text(StringMatcher::Exact(Text::new(text, false)))
        }
        Some(Specifier::SafeRegexMatch(regex)) => {
            let regex = full_match(regex).within("safe_regex_match")?;
            HeaderMatch::Text(StringMatcher::Regex(regex))
        }
        Some(Specifier::PrefixMatch(text)) => {
            HeaderMatch::Text(StringMatcher::Prefix(not_empty(text, "prefix_match")?))
        }
        Some(Specifier::SuffixMatch(text)) => {
            HeaderMatch::Text(StringMatcher::Suffix(not_empty(text, "suffix_match")?))
        }
        Some(Specifier::ContainsMatch(text)) => {
            HeaderMatch::Text(StringMatcher::Contains(not_empty(text, "contains_match")?))
        }
        Some(Specifier::StringMatch(matcher)) => {
            HeaderMatch::Text(string_matcher(matcher).within("string_match")?)
        }
        None => return Err(Invalid::new("must be set").at("header_match_specifier")),
    };
    Ok(HeaderMatcher {
        name: proto.name.to_ascii_lowercase().into(),
        matching,
        invert: proto.invert_match,
    })
}
