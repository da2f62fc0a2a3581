//! Resource names: old-style names, `xdstp://` names (gRFC A47, xRFC TP1), the wildcard and collections.
//!
//! ```text
//! xdstp://authority/full.message.Name/some/id?key=value&other=x#directive
//!         └───┬───┘ └──────┬───────┘ └──┬──┘ └───── context ────┘
//! ```
//! Two `xdstp` names are the same resource if their decoded parts are equal, whatever the order of the context
//! parameters (xRFC TP1, "Normalization"). [`canonical`] writes such names in one form. Stores, subscriptions,
//! authorization rules and references all compare canonical names, so that a resource is found, and a secret is
//! protected, under every spelling.
//!
//! | part | spellings that are equal | canonical |
//! |---|---|---|
//! | any part | `%66oo`, `foo` | characters that RFC 3986 allows in the part are not escaped |
//! | any part | `a%2fb`, `a%2Fb` | upper-case hexadecimal digits (RFC 3986, section 6.2.2.1) |
//! | id | `a%2Fb`, `a/b` | `/` is not escaped (`xds.core.v3.ResourceLocator.id`) |
//! | context | `?b=2&a=1`, `?a=1&b=2` | sorted by key; the first value of a repeated key |
//! | directives | `#entry=x` | none: they are not part of a name (`xds.core.v3.ResourceLocator.Directive`) |
//!
//! Text that begins with `xdstp:` and is malformed is compared byte by byte.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// The name that subscribes to all resources of a type (xDS protocol, "How the client specifies what resources to
/// return").
pub const WILDCARD: &str = "*";

/// The prefix of new-style names (gRFC A47).
const SCHEME: &str = "xdstp:";

/// Octets that are escaped in every part: all but RFC 3986's `pchar`.
const NOT_PCHAR: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'!')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b'+')
    .remove(b',')
    .remove(b';')
    .remove(b'=')
    .remove(b':')
    .remove(b'@');
/// An authority may be an address: `[::1]:80`.
const AUTHORITY: &AsciiSet = &NOT_PCHAR.remove(b'[').remove(b']');
const MESSAGE: &AsciiSet = NOT_PCHAR;
const ID: &AsciiSet = &NOT_PCHAR.remove(b'/');
const CONTEXT: &AsciiSet = &NOT_PCHAR.remove(b'/').remove(b'?').add(b'&').add(b'=');

/// Returns the one form under which a name is kept, compared and sent.
///
/// Old-style and malformed names are returned as they are. The result is canonical itself:
/// `canonical(canonical(x)) == canonical(x)`.
///
/// ```
/// use oxds_types::name::canonical;
///
/// let name = "xdstp://a/envoy.config.cluster.v3.Cluster/x%3A80?b=2&a=1";
/// assert_eq!(canonical(name), "xdstp://a/envoy.config.cluster.v3.Cluster/x:80?a=1&b=2");
/// assert_eq!(canonical("x%3A80"), "x%3A80");
/// ```
#[must_use]
pub fn canonical(name: &str) -> Cow<'_, str> {
    match ResourceName::parse(name) {
        Ok(ResourceName::Xdstp(parsed)) => {
            let text = parsed.to_string();
            if text == name {
                Cow::Borrowed(name)
            } else {
                Cow::Owned(text)
            }
        }
        Ok(ResourceName::Legacy(_)) | Err(_) => Cow::Borrowed(name),
    }
}

/// Returns whether a canonical name selects more than one resource: a collection, or the wildcard.
#[must_use]
pub fn selects_many(name: &str) -> bool {
    name == WILDCARD || is_collection(name)
}

/// Returns whether a canonical name is a glob collection: `xdstp://authority/type/path/*` (xRFC TP1).
#[must_use]
pub fn is_collection(name: &str) -> bool {
    split(name).is_some_and(|(_, last, _)| last == "*")
}

/// Returns the glob collection that has this canonical name as a member: the same path but for its last segment, and
/// the same context parameters (xRFC TP1).
///
/// `None` for old-style names, for collections, and for names without an id.
///
/// ```
/// use oxds_types::name::collection_of;
///
/// assert_eq!(collection_of("xdstp://a/T/eu/x?k=v").as_deref(), Some("xdstp://a/T/eu/*?k=v"));
/// assert_eq!(collection_of("xdstp://a/T/eu/*"), None);
/// assert_eq!(collection_of("eu/x"), None);
/// ```
#[must_use]
pub fn collection_of(name: &str) -> Option<String> {
    let (above, last, context) = split(name)?;
    (last != "*").then(|| format!("{above}/*{context}"))
}

/// Returns the text with which the canonical names of all members of a collection begin.
#[must_use]
pub fn member_prefix(collection: &str) -> Option<&str> {
    let (above, last, _) = split(collection)?;
    // The prefix ends with the slash.
    (last == "*").then(|| &collection[..=above.len()])
}

/// Splits an `xdstp` name with an id into the path above its last segment, that segment, and the context with its `?`.
fn split(name: &str) -> Option<(&str, &str, &str)> {
    let rest = name.strip_prefix(SCHEME)?.strip_prefix("//")?;
    let start = name.len() - rest.len();
    let (path, context) = name.split_at(name.find('?').unwrap_or(name.len()));
    let (above, last) = path.rsplit_once('/')?;
    // Above the last segment there are at least the authority and the type.
    let has_type = above.get(start..).is_some_and(|above| above.contains('/'));
    has_type.then_some((above, last, context))
}

/// A parsed resource name. Equal values are the same resource.
///
/// ```
/// use oxds_types::ResourceName;
///
/// let one = ResourceName::parse("xdstp://a/envoy.config.cluster.v3.Cluster/x?b=2&a=1").unwrap();
/// let two = ResourceName::parse("xdstp://a/envoy.config.cluster.v3.Cluster/x?a=1&b=2").unwrap();
/// assert_eq!(one, two);
/// assert_eq!(one.authority(), Some("a"));
/// assert_eq!(ResourceName::parse("plain").unwrap().authority(), None);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ResourceName {
    /// An old-style name: any text that does not begin with `xdstp:`.
    Legacy(String),
    /// A new-style name: `xdstp://authority/message.Type/id?context`.
    Xdstp(XdstpName),
}

/// The parts of an `xdstp` name, percent-decoded.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct XdstpName {
    /// Key of the servers in the client's bootstrap; may be empty (gRFC A47).
    pub authority: String,
    /// Full name of the resource's message.
    pub message: String,
    /// The rest of the path, with its slashes.
    pub id: String,
    /// Context parameters, sorted by key.
    pub context: BTreeMap<String, String>,
}

/// The reason for which text that begins with `xdstp:` is not a resource name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The name has no `//`, or no message name after the authority.
    #[error("malformed xdstp name {0:?}: expected xdstp://authority/message.Type/id")]
    NoType(String),
    /// A context parameter has no `=`.
    #[error(
        "malformed xdstp name {0:?}: expected context parameters of the form key=value, joined by &"
    )]
    Context(String),
    /// A percent-encoded part is not UTF-8.
    #[error("malformed xdstp name {0:?}: the percent-encoded octets are not UTF-8")]
    NotUtf8(String),
}

impl ResourceName {
    /// Parses a name.
    ///
    /// # Errors
    /// The name begins with `xdstp:` and is malformed. Old-style names are never errors.
    pub fn parse(text: &str) -> Result<ResourceName, NameError> {
        match text.strip_prefix(SCHEME) {
            Some(rest) => XdstpName::parse(rest, text).map(ResourceName::Xdstp),
            None => Ok(ResourceName::Legacy(text.to_owned())),
        }
    }

    /// Returns the text that [`canonical`] gives for every spelling of this name.
    #[must_use]
    pub fn canonical(&self) -> Cow<'_, str> {
        match self {
            ResourceName::Legacy(name) => Cow::Borrowed(name),
            ResourceName::Xdstp(name) => Cow::Owned(name.to_string()),
        }
    }

    /// Returns the authority of a new-style name, which is `""` in `xdstp:///…` (gRFC A47); `None` for old-style names.
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
        let no_type = || NameError::NoType(whole.to_owned());
        let rest = rest.strip_prefix("//").ok_or_else(no_type)?;
        // xRFC TP1, "URI-based xDS resource names": directives are instructions for the client; names do not include
        // them.
        let rest = rest
            .split_once('#')
            .map_or(rest, |(rest, _directives)| rest);
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = path.split_once('/').ok_or_else(no_type)?;
        let (message, id) = path.split_once('/').unwrap_or((path, ""));
        if message.is_empty() {
            return Err(no_type());
        }
        let mut context = BTreeMap::new();
        for parameter in query.split('&').filter(|p| !p.is_empty()) {
            let (key, value) = parameter
                .split_once('=')
                .ok_or_else(|| NameError::Context(whole.to_owned()))?;
            // gRFC A47, "Watcher Changes": duplicate keys are removed. The first value stays, as in grpc-go (C-42).
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

/// Writes the canonical form.
impl fmt::Display for XdstpName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let encode = utf8_percent_encode;
        write!(
            f,
            "{SCHEME}//{}/{}",
            encode(&self.authority, AUTHORITY),
            encode(&self.message, MESSAGE)
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
mod tests;
