//! Conditions on cookies.

use std::fmt;

use envoy_types::pb::envoy::config::route::v3::CookieMatcher as Proto;

use crate::lb::StringMatcher;
use crate::resource::{Invalid, string_matcher};

/// Condition on the first cookie of a name.
#[derive(Debug)]
pub(super) struct CookieMatcher {
    name: String,
    text: StringMatcher,
    invert: bool,
}

impl CookieMatcher {
    pub(super) fn new(proto: &Proto) -> Result<Self, Invalid> {
        let text = proto.string_match.as_ref();
        let text = text.ok_or_else(|| Invalid::new("must be set").at("string_match"))?;
        Ok(Self {
            name: proto.name.clone(),
            text: string_matcher(text)?,
            invert: proto.invert_match,
        })
    }

    /// Returns why the header `cookie` does not meet the condition.
    pub(super) fn unmet(&self, header: Option<&str>) -> Option<String> {
        let value = value(header.unwrap_or_default(), &self.name);
        // route_components.proto, CookieMatcher: an absent cookie does not match, which `invert_match` inverts, too.
        let is_met = value.is_some_and(|value| self.text.matches(value)) != self.invert;
        match (is_met, value) {
            (true, _) => None,
            (false, Some(_)) => Some(format!("cookie {:?} has another value", self.name)),
            (false, None) => Some(format!("cookie {:?} is absent", self.name)),
        }
    }
}

/// Returns the value of the first cookie of this name, without quotes around it.
fn value<'a>(header: &'a str, name: &str) -> Option<&'a str> {
    let mut cookies = header.split(';').filter_map(|pair| pair.split_once('='));
    let (_, value) = cookies.find(|(key, _)| key.trim() == name)?;
    let value = value.trim();
    let quoted = value.strip_prefix('"').and_then(|v| v.strip_suffix('"'));
    Some(quoted.unwrap_or(value))
}

/// The cookie and the condition, such as `cookie "v" exact "2"`.
impl fmt::Display for CookieMatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let not = if self.invert { "not " } else { "" };
        write!(f, "cookie {:?} {not}{}", self.name, self.text)
    }
}
