//! Resource names: plain text, or `xdstp://` URNs (gRFC A47; `xds/core/v3/resource_name.proto`).
//!
//! ```text
//! xdstp://authority/full.message.Name/some/id?key=value&other=x
//!         └───┬───┘ └──────┬───────┘ └──┬──┘ └───── context ────┘
//! ```
//! Two URNs that differ only in the order of their context parameters, or in how a character is
//! escaped, name one resource. [`ResourceName::canonical`] is the one form that is kept, compared
//! and sent.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

const SCHEME: &str = "xdstp://";

// What Envoy's `XdsResourceIdentifier` escapes in each part, so that both make the same text.
const VISIBLE: &AsciiSet = &CONTROLS.add(b' ').add(b'%').add(b'~');
const AUTHORITY: &AsciiSet = &VISIBLE.add(b'/').add(b'?').add(b'#');
const ID: &AsciiSet = &VISIBLE.add(b':').add(b'?').add(b'#').add(b'[').add(b']');
const CONTEXT: &AsciiSet = &VISIBLE.add(b'#').add(b'[').add(b']').add(b'&').add(b'=');

/// A resource's name.
///
/// ```
/// use oxds_types::ResourceName;
///
/// let one = ResourceName::parse("xdstp://a/envoy.config.cluster.v3.Cluster/x?b=2&a=1").unwrap();
/// let two = ResourceName::parse("xdstp://a/envoy.config.cluster.v3.Cluster/x?a=1&b=2").unwrap();
/// assert_eq!(one, two);
/// assert_eq!(one.canonical(), "xdstp://a/envoy.config.cluster.v3.Cluster/x?a=1&b=2");
/// assert_eq!(ResourceName::parse("plain").unwrap().authority(), None);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ResourceName {
    /// Any text that is no `xdstp://` URN; it means itself.
    Legacy(String),
    /// A structured name.
    Xdstp(XdstpName),
}

/// The parts of an `xdstp://` URN, unescaped.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct XdstpName {
    /// Who is asked; may be empty.
    pub authority: String,
    /// Full name of the resource's message.
    pub message: String,
    /// The rest of the path.
    pub id: String,
    /// Context parameters, in order of their keys.
    pub context: BTreeMap<String, String>,
}

/// Why a text is not a resource name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// No message name behind the authority.
    #[error("`{0}`: an xdstp name is `xdstp://authority/message.Type/id`")]
    NoType(String),
    /// A context parameter has no `=`.
    #[error("`{0}`: context parameters are `key=value`, joined by `&`")]
    Context(String),
    /// An escaped part is not UTF-8.
    #[error("`{0}`: what is percent-encoded is not UTF-8")]
    NotUtf8(String),
}

impl ResourceName {
    /// Reads a name. Only what begins with `xdstp://` can fail.
    pub fn parse(text: &str) -> Result<ResourceName, NameError> {
        match text.strip_prefix(SCHEME) {
            Some(rest) => XdstpName::parse(rest, text).map(ResourceName::Xdstp),
            None => Ok(ResourceName::Legacy(text.to_owned())),
        }
    }

    /// The one form in which the name is kept and sent.
    #[must_use]
    pub fn canonical(&self) -> Cow<'_, str> {
        match self {
            ResourceName::Legacy(name) => Cow::Borrowed(name),
            ResourceName::Xdstp(name) => Cow::Owned(name.to_string()),
        }
    }

    /// Who is asked for it: `None` for plain names, perhaps `""` for `xdstp:///…` (A47).
    #[must_use]
    pub fn authority(&self) -> Option<&str> {
        match self {
            ResourceName::Legacy(_) => None,
            ResourceName::Xdstp(name) => Some(&name.authority),
        }
    }
}

impl fmt::Display for ResourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ResourceName::Legacy(name) => f.write_str(name),
            ResourceName::Xdstp(name) => name.fmt(f),
        }
    }
}

impl XdstpName {
    fn parse(rest: &str, whole: &str) -> Result<XdstpName, NameError> {
        let decode = |part: &str| match percent_decode_str(part).decode_utf8() {
            Ok(text) => Ok(text.into_owned()),
            Err(_) => Err(NameError::NotUtf8(whole.to_owned())),
        };
        // Directives (`#…`) say how to fetch; they are no part of the identity.
        let rest = rest
            .split_once('#')
            .map_or(rest, |(rest, _directives)| rest);
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = path
            .split_once('/')
            .ok_or_else(|| NameError::NoType(whole.to_owned()))?;
        let (message, id) = path.split_once('/').unwrap_or((path, ""));
        if message.is_empty() {
            return Err(NameError::NoType(whole.to_owned()));
        }
        let mut context = BTreeMap::new();
        for parameter in query.split('&').filter(|p| !p.is_empty()) {
            let (key, value) = parameter
                .split_once('=')
                .ok_or_else(|| NameError::Context(whole.to_owned()))?;
            // A key said twice keeps its first value (A47: "repeated key keeps one value").
            context.entry(decode(key)?).or_insert(decode(value)?);
        }
        Ok(XdstpName {
            authority: decode(authority)?,
            message: decode(message)?,
            id: decode(id)?,
            context,
        })
    }
}

/// The canonical URN.
impl fmt::Display for XdstpName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let encode = utf8_percent_encode;
        write!(
            f,
            "{SCHEME}{}/{}",
            encode(&self.authority, AUTHORITY),
            encode(&self.message, ID)
        )?;
        if !self.id.is_empty() {
            write!(f, "/{}", encode(&self.id, ID))?;
        }
        let mut separator = '?';
        for (key, value) in &self.context {
            write!(
                f,
                "{separator}{}={}",
                encode(key, CONTEXT),
                encode(value, CONTEXT)
            )?;
            separator = '&';
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn canonical(text: &str) -> String {
        ResourceName::parse(text).unwrap().canonical().into_owned()
    }

    #[test]
    fn plain_names_mean_themselves() {
        for name in [
            "",
            "cluster",
            "a?b=c&a=b",
            "http://x/y",
            "%zz",
            "XDSTP://a/b",
        ] {
            assert_eq!(canonical(name), name);
        }
    }

    #[test]
    fn c42_the_order_of_context_parameters_does_not_matter() {
        assert_eq!(
            canonical("xdstp://a/t.T/id?b=2&a=1&b=3"),
            "xdstp://a/t.T/id?a=1&b=2"
        );
    }

    #[test]
    fn c44_an_empty_authority_is_an_authority() {
        let name = ResourceName::parse("xdstp:///t.T/id").unwrap();
        assert_eq!(name.authority(), Some(""));
        assert_eq!(name.canonical(), "xdstp:///t.T/id");
    }

    #[test]
    fn escapes_are_normalised() {
        assert_eq!(
            canonical("xdstp://a/t.T/%66oo%20%3f?k=%26"),
            "xdstp://a/t.T/foo%20%3F?k=%26"
        );
    }

    #[test]
    fn directives_are_no_part_of_the_identity() {
        assert_eq!(canonical("xdstp://a/t.T/id#entry=x"), "xdstp://a/t.T/id");
    }

    #[test]
    fn malformed_urns_are_told() {
        assert!(matches!(
            ResourceName::parse("xdstp://a"),
            Err(NameError::NoType(_))
        ));
        assert!(matches!(
            ResourceName::parse("xdstp://a//x"),
            Err(NameError::NoType(_))
        ));
        assert!(matches!(
            ResourceName::parse("xdstp://a/t/x?k"),
            Err(NameError::Context(_))
        ));
        assert!(matches!(
            ResourceName::parse("xdstp://a/t/%ff"),
            Err(NameError::NotUtf8(_))
        ));
    }

    proptest! {
        #[test]
        fn canonical_form_is_a_fixed_point(
            authority in "[^\0]{0,8}", message in "[a-z.]{1,8}", id in "\\PC{0,12}",
            context in prop::collection::btree_map("\\PC{0,4}", "\\PC{0,4}", 0..4),
        ) {
            let name = ResourceName::Xdstp(XdstpName { authority, message, id, context });
            let again = ResourceName::parse(&name.canonical()).unwrap();
            prop_assert_eq!(&again, &name);
            prop_assert_eq!(again.canonical(), name.canonical());
        }
    }
}
