//! The one spelling of a name that is kept and sent.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::NameSyntax;

impl NameSyntax {
    /// The spelling under which a name is kept.
    pub(super) fn spelling(self, name: &str) -> Cow<'_, str> {
        match self {
            Self::Federated => canonical(name),
            Self::Opaque => Cow::Borrowed(name),
        }
    }
}

/// The context parameters of an `xdstp` name are put in order of their keys, and a repeated key keeps its first value:
/// such names are one resource (gRFC A47). Escapes are left alone: a server may know the name as it is spelt.
#[must_use]
pub fn canonical(name: &str) -> Cow<'_, str> {
    if !name.starts_with("xdstp:") {
        return Cow::Borrowed(name);
    }
    let Some((path, context)) = name.split_once('?') else {
        return Cow::Borrowed(name);
    };
    let mut parameters = BTreeMap::new();
    for parameter in context.split('&') {
        let key = parameter.split('=').next().unwrap_or_default();
        parameters.entry(key).or_insert(parameter);
    }
    let parameters: Vec<&str> = parameters.into_values().collect();
    Cow::Owned(format!("{path}?{}", parameters.join("&")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c42_the_order_of_context_parameters_makes_no_other_name() {
        for (name, expected) in [
            ("xdstp://a/T/id?b=2&a=1", "xdstp://a/T/id?a=1&b=2"),
            ("xdstp://a/T/id?a=1&b=2&a=3", "xdstp://a/T/id?a=1&b=2"),
            ("xdstp://a/T/id:80", "xdstp://a/T/id:80"),
            ("plain?b=2&a=1", "plain?b=2&a=1"),
        ] {
            assert_eq!(canonical(name), expected);
        }
    }
}
