//! Value of `n/<lane>/<place>/<version>/<replica>`: what a replica knows about a version that clients NACKed.

use std::fmt;

use oxds_types::Version;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::nodes::NackingNodes;

/// Longest reason, in bytes. Clients write it, and one report is read by every replica.
const MAX_REASON: usize = 512;

/// Report of a replica.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NackReport {
    /// Nodes that NACKed the change.
    #[serde(flatten)]
    pub nodes: NackingNodes,
    /// Error message of a NACK; empty without one.
    #[serde(default)]
    pub reason: String,
    /// Former versions that its clients accepted.
    pub good: Good,
}

/// Former versions that the clients of a replica accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Good {
    /// The replica has no clients of the place.
    NoClients,
    /// Some client had not accepted a former version, or the replica does not know one.
    Lacking,
    /// All of them had accepted the former versions of the change with this hash ([`Trial::hash`](super::Trial::hash)).
    Change(Version),
}

impl NackReport {
    /// Makes a report. A long reason is cut.
    #[must_use]
    pub fn new(nodes: NackingNodes, reason: &str, good: Good) -> Self {
        let mut end = reason.len().min(MAX_REASON);
        while !reason.is_char_boundary(end) {
            end -= 1;
        }
        let reason = reason[..end].to_owned();
        Self {
            nodes,
            reason,
            good,
        }
    }

    /// Returns the value of the key.
    #[must_use]
    pub fn encode(&self) -> String {
        // Texts and a number: this cannot fail.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads a value; `None` if it is not a report.
    #[must_use]
    pub fn decode(value: &[u8]) -> Option<Self> {
        serde_json::from_slice(value).ok()
    }
}

impl fmt::Display for Good {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoClients => f.write_str("none"),
            Self::Lacking => f.write_str("lacking"),
            Self::Change(hash) => write!(f, "{hash}"),
        }
    }
}

impl Serialize for Good {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Good {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Ok(match text.as_str() {
            "none" => Self::NoClients,
            // A word of a later build must not lead to a decision.
            other => Version::parse(other).map_or(Self::Lacking, Self::Change),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g38_report_is_read_as_it_was_written() {
        let hash = Version::of(b"change");
        for good in [Good::NoClients, Good::Lacking, Good::Change(hash)] {
            let nodes = NackingNodes::of(["a", "b", "c"]);
            let report = NackReport::new(nodes, "no \"such\" policy", good);
            assert_eq!(NackReport::decode(report.encode().as_bytes()), Some(report));
        }
        let later = br#"{"nodes":1,"good":"unsure","more":1}"#;
        let later = NackReport::decode(later).expect("a report");
        assert_eq!((later.good, &*later.reason), (Good::Lacking, ""));
        assert_eq!(NackReport::decode(b"[1]"), None);
        let ids: Vec<_> = (0..1000).map(|n| n.to_string()).collect();
        let nodes = NackingNodes::of(ids.iter().map(String::as_str));
        let long = NackReport::new(nodes, &"ä".repeat(1000), Good::Change(hash));
        assert_eq!(long.reason.len(), 512);
        assert!(long.encode().len() < 1024, "{}", long.encode());
    }
}
