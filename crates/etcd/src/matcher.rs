//! Encoding of the matcher of a group.
//!
//! ```proto
//! message NodeMatcher {
//!   string id = 1;               // a pattern, as in group.yaml; absent: every id
//!   string cluster = 2;          // a pattern
//!   string user_agent = 3;       // a pattern
//!   string region = 4;
//!   string zone = 5;
//!   string sub_zone = 6;
//!   map<string, string> metadata = 7;
//!   repeated string exact = 8;   // fields of the patterns in which `*` is not special
//! }
//! ```

use std::collections::BTreeMap;

use bytes::Bytes;
use oxds_types::Glob;
use prost::Message;

use oxds_core::group::NodeMatcher;

/// Type URL of the message.
pub(super) const TYPE_URL: &str = "type.googleapis.com/oxds.store.v1.NodeMatcher";

#[derive(Clone, PartialEq, Message)]
struct Encoded {
    #[prost(string, optional, tag = "1")]
    id: Option<String>,
    #[prost(string, optional, tag = "2")]
    cluster: Option<String>,
    #[prost(string, optional, tag = "3")]
    user_agent: Option<String>,
    #[prost(string, optional, tag = "4")]
    region: Option<String>,
    #[prost(string, optional, tag = "5")]
    zone: Option<String>,
    #[prost(string, optional, tag = "6")]
    sub_zone: Option<String>,
    #[prost(btree_map = "string, string", tag = "7")]
    metadata: BTreeMap<String, String>,
    #[prost(string, repeated, tag = "8")]
    exact: Vec<String>,
}

/// Returns the canonical bytes of a matcher: equal matchers have equal bytes.
pub(super) fn encode(matcher: &NodeMatcher) -> Vec<u8> {
    let text = |glob: &Option<Glob>| glob.as_ref().map(|glob| glob.as_str().to_owned());
    let patterns = [
        ("id", &matcher.id),
        ("cluster", &matcher.cluster),
        ("user_agent", &matcher.user_agent),
    ];
    let is_literal = |glob: &Glob| glob.is_exact() && glob.as_str().contains('*');
    let literal = patterns
        .iter()
        .filter(|(_, glob)| glob.as_ref().is_some_and(is_literal));
    Encoded {
        id: text(&matcher.id),
        cluster: text(&matcher.cluster),
        user_agent: text(&matcher.user_agent),
        region: matcher.region.clone(),
        zone: matcher.zone.clone(),
        sub_zone: matcher.sub_zone.clone(),
        metadata: matcher.metadata.clone(),
        exact: literal.map(|(field, _)| (*field).to_owned()).collect(),
    }
    .encode_to_vec()
}

/// Reads a matcher, or returns why it cannot be read.
pub(super) fn decode(value: &Bytes) -> Result<NodeMatcher, String> {
    let encoded = Encoded::decode(value.clone()).map_err(|error| error.to_string())?;
    // A matcher without the conditions that this build does not know would match too many nodes.
    if encoded.encode_to_vec() != *value {
        return Err("the matcher has conditions that this build does not know".into());
    }
    let is_literal = |field: &str| encoded.exact.iter().any(|exact| exact == field);
    let glob = |field: &str, text: Option<String>| {
        text.map(|text| {
            if is_literal(field) {
                Glob::exact(&text)
            } else {
                Glob::new(&text)
            }
        })
    };
    Ok(NodeMatcher {
        id: glob("id", encoded.id),
        cluster: glob("cluster", encoded.cluster),
        user_agent: glob("user_agent", encoded.user_agent),
        region: encoded.region,
        zone: encoded.zone,
        sub_zone: encoded.sub_zone,
        metadata: encoded.metadata,
    })
}
