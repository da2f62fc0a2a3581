//! Matchers of nodes: which nodes are members of a group.

use std::collections::BTreeMap;

use envoy_types::pb::envoy::config::core::v3::Locality;
use envoy_types::pb::google::protobuf::value::Kind as ValueKind;
use envoy_types::pb::google::protobuf::{Struct, Value};
use oxds_types::discovery::Node;
use oxds_types::identity::user_agent;
use oxds_types::{Glob, Version};

/// Conditions on a node, all of which must hold. A matcher without conditions matches every node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeMatcher {
    /// Pattern of `node.id`; `None` matches every id.
    pub id: Option<Glob>,
    /// Pattern of `node.cluster`.
    pub cluster: Option<Glob>,
    /// Pattern of the user agent: name and version, `envoy 1.40.0`. Do not use it to find out what a client supports:
    /// forks and backports have the same features under other names and versions. The server warns of it (V-51).
    pub user_agent: Option<Glob>,
    /// Region of the locality.
    pub region: Option<String>,
    /// Zone of the locality.
    pub zone: Option<String>,
    /// Sub-zone of the locality.
    pub sub_zone: Option<String>,
    /// Values in the metadata by path; the parts of a path are joined by dots. Numbers and booleans are compared in
    /// their JSON form.
    pub metadata: BTreeMap<String, String>,
}

/// Rank of a matcher; the greater, the more specific.
///
/// The id counts before the cluster, the cluster before the locality, the locality before the metadata. An exact text
/// is more specific than a pattern, a longer pattern more than a shorter one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Specificity {
    id: usize,
    cluster: usize,
    locality: usize,
    metadata: usize,
}

impl NodeMatcher {
    /// Returns whether a node with this id and cluster may match.
    #[must_use]
    pub fn may_match(&self, id: &str, cluster: &str) -> bool {
        let glob = |glob: &Option<Glob>, text: &str| glob.as_ref().is_none_or(|g| g.matches(text));
        glob(&self.id, id) && glob(&self.cluster, cluster)
    }

    /// Returns whether a node matches.
    #[must_use]
    pub fn matches(&self, node: &Node) -> bool {
        let locality = node.locality.as_ref();
        let same = |wanted: &Option<String>, of: fn(&Locality) -> &String| {
            let wanted = wanted.as_ref();
            wanted.is_none_or(|wanted| *wanted == *locality.map_or("", |l| of(l)))
        };
        let metadata = node.metadata.as_ref();
        self.may_match(&node.id, &node.cluster)
            && self
                .user_agent
                .as_ref()
                .is_none_or(|glob| glob.matches(&user_agent(node)))
            && same(&self.region, |locality| &locality.region)
            && same(&self.zone, |locality| &locality.zone)
            && same(&self.sub_zone, |locality| &locality.sub_zone)
            && self.metadata.iter().all(|(path, wanted)| {
                metadata.and_then(|metadata| at(metadata, path)).as_ref() == Some(wanted)
            })
    }

    /// Returns a hash of the conditions: equal matchers have equal versions, in every build.
    #[must_use]
    pub fn version(&self) -> Version {
        let glob = |glob: &Option<Glob>| glob.as_ref().map(|glob| glob.as_str().to_owned());
        let fields = [
            ("id", glob(&self.id)),
            ("cluster", glob(&self.cluster)),
            ("user_agent", glob(&self.user_agent)),
            ("region", self.region.clone()),
            ("zone", self.zone.clone()),
            ("sub_zone", self.sub_zone.clone()),
        ];
        let fields = fields
            .iter()
            .filter_map(|(name, value)| Some((*name, "", value.as_ref()?)));
        let metadata = self.metadata.iter();
        let metadata = metadata.map(|(path, value)| ("metadata", path.as_str(), value));
        // Lengths make the text unambiguous.
        let texts = fields.chain(metadata).map(|(name, path, value)| {
            format!("{name} {}:{path} {}:{value}\n", path.len(), value.len())
        });
        Version::of(texts.collect::<String>().as_bytes())
    }

    /// Returns the rank of the matcher.
    #[must_use]
    pub fn specificity(&self) -> Specificity {
        let glob = |glob: &Option<Glob>| match glob {
            None => 0,
            Some(glob) if glob.is_exact() => usize::MAX,
            Some(glob) => 1 + glob.as_str().chars().filter(|c| *c != '*').count(),
        };
        let locality = [&self.region, &self.zone, &self.sub_zone];
        Specificity {
            id: glob(&self.id),
            cluster: glob(&self.cluster),
            locality: locality.into_iter().flatten().count(),
            metadata: self.metadata.len() + usize::from(self.user_agent.is_some()),
        }
    }

    /// Returns whether a node could match both. Two patterns are assumed to overlap.
    #[must_use]
    pub fn may_overlap(&self, other: &NodeMatcher) -> bool {
        let globs = |a: &Option<Glob>, b: &Option<Glob>| match (a, b) {
            (Some(a), Some(b)) if a.is_exact() => b.matches(a.as_str()),
            (Some(a), Some(b)) if b.is_exact() => a.matches(b.as_str()),
            _ => true,
        };
        let texts = |a: &Option<String>, b: &Option<String>| match (a, b) {
            (Some(a), Some(b)) => a == b,
            _ => true,
        };
        let metadata = |(path, value): (&String, &String)| {
            other.metadata.get(path).is_none_or(|other| other == value)
        };
        globs(&self.id, &other.id)
            && globs(&self.cluster, &other.cluster)
            && globs(&self.user_agent, &other.user_agent)
            && texts(&self.region, &other.region)
            && texts(&self.zone, &other.zone)
            && texts(&self.sub_zone, &other.sub_zone)
            && self.metadata.iter().all(metadata)
    }
}

/// Returns the text of the value at a path. A key may contain dots, so every split is tried.
fn at(metadata: &Struct, path: &str) -> Option<String> {
    if let Some(text) = metadata.fields.get(path).and_then(text) {
        return Some(text);
    }
    let mut splits = path.match_indices('.').map(|(at, _)| path.split_at(at));
    splits.find_map(
        |(key, rest)| match metadata.fields.get(key)?.kind.as_ref()? {
            ValueKind::StructValue(inner) => at(inner, &rest[1..]),
            _ => None,
        },
    )
}

fn text(value: &Value) -> Option<String> {
    match value.kind.as_ref()? {
        ValueKind::StringValue(text) => Some(text.clone()),
        ValueKind::NumberValue(number) => Some(number.to_string()),
        ValueKind::BoolValue(bool) => Some(bool.to_string()),
        ValueKind::NullValue(_) | ValueKind::StructValue(_) | ValueKind::ListValue(_) => None,
    }
}
