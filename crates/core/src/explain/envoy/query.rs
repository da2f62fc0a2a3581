//! Conditions on query parameters.

use std::fmt;

use envoy_types::pb::envoy::config::route::v3::{
    QueryParameterMatcher as Proto,
    query_parameter_matcher::QueryParameterMatchSpecifier as Specifier,
};

use crate::lb::StringMatcher;
use crate::resource::{Invalid, string_matcher};

/// Condition on the first query parameter of a name.
#[derive(Debug)]
pub(super) struct QueryMatcher {
    name: String,
    matching: QueryMatch,
}

#[derive(Debug)]
enum QueryMatch {
    Text(StringMatcher),
    Present(bool),
}

impl QueryMatcher {
    pub(super) fn new(proto: &Proto) -> Result<Self, Invalid> {
        let matching = match &proto.query_parameter_match_specifier {
            Some(Specifier::StringMatch(text)) => QueryMatch::Text(string_matcher(text)?),
            Some(Specifier::PresentMatch(present)) => QueryMatch::Present(*present),
            // Envoy: without a condition, the parameter must be present.
            None => QueryMatch::Present(true),
        };
        Ok(Self {
            name: proto.name.clone(),
            matching,
        })
    }

    /// Returns why a query string does not meet the condition. As in Envoy, values are compared as they are written.
    pub(super) fn unmet(&self, query: Option<&str>) -> Option<String> {
        let mut parameters = query.unwrap_or_default().split('&');
        let value = parameters.find_map(|parameter| {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            (!parameter.is_empty() && name == self.name).then_some(value)
        });
        let is_met = match (&self.matching, value) {
            (QueryMatch::Present(present), value) => value.is_some() == *present,
            (QueryMatch::Text(_), None) => false,
            (QueryMatch::Text(text), Some(value)) => text.matches(value),
        };
        match (is_met, value) {
            (true, _) => None,
            (false, Some(value)) => Some(format!("query parameter {:?} is {value:?}", self.name)),
            (false, None) => Some(format!("query parameter {:?} is absent", self.name)),
        }
    }
}

/// The parameter and the condition, such as `query parameter "v" exact "2"`.
impl fmt::Display for QueryMatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "query parameter {:?} ", self.name)?;
        match &self.matching {
            QueryMatch::Text(text) => text.fmt(f),
            QueryMatch::Present(true) => f.write_str("present"),
            QueryMatch::Present(false) => f.write_str("absent"),
        }
    }
}
