//! Value of `x/<id>`: what a replica serves, and how far its clients are.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::digest::Digest;
use super::head::Head;
use super::names::Segment;

/// Status of a replica, which it writes under its lease.
///
/// Readers ignore fields that they do not know, and use defaults for absent ones: replicas of different builds read
/// each other.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplicaStatus {
    /// Id of the replica.
    #[serde(default, deserialize_with = "lenient")]
    pub id: String,
    /// Version of the program.
    #[serde(default, deserialize_with = "lenient")]
    pub build: String,
    /// Start of the process, in milliseconds since 1970 by its clock.
    #[serde(default, deserialize_with = "lenient")]
    pub started: u64,
    /// Address of the gRPC port, as others can reach it; empty without one.
    #[serde(default, deserialize_with = "lenient")]
    pub grpc: String,
    /// Address of the HTTP port, as others can reach it; empty without one.
    #[serde(default, deserialize_with = "lenient")]
    pub http: String,
    /// Publishes that are served, by lane.
    #[serde(default)]
    pub lanes: BTreeMap<String, ServedPublish>,
    /// Connected streams.
    #[serde(default, deserialize_with = "lenient")]
    pub streams: u64,
    /// Streams whose clients have ACKed all that they are served.
    #[serde(default, deserialize_with = "lenient")]
    pub in_sync: u64,
    /// Streams whose clients have NACKed a resource that is served.
    #[serde(default, deserialize_with = "lenient")]
    pub nacked: u64,
    /// Greatest seq by lane such that every connected client concerned has ACKed or NACKed it and all before.
    #[serde(default, deserialize_with = "lenient")]
    pub settled: BTreeMap<String, u64>,
    /// Whether the replica does not follow a lane of the store, because it went back or is in conflict.
    #[serde(default, deserialize_with = "lenient")]
    pub held: bool,
}

/// Reads a field of another type as its default: builds may differ, and no decision depends on these fields.
fn lenient<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: DeserializeOwned + Default,
    D: Deserializer<'de>,
{
    let value = Value::deserialize(deserializer)?;
    Ok(serde_json::from_value(value).unwrap_or_default())
}

/// Publish of a lane that a replica serves.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServedPublish {
    /// Number of the publish.
    pub seq: u64,
    /// Id of the publish, as 32 hexadecimal digits.
    #[serde(default)]
    pub publish: String,
    /// Digest of the served state, as the head writes it.
    #[serde(default)]
    pub digest: String,
}

impl ServedPublish {
    /// Makes the entry for a head, with the digest of the served state.
    #[must_use]
    pub fn new(head: &Head, digest: Digest) -> Self {
        Self {
            seq: head.seq,
            publish: head.publish.to_string(),
            digest: digest.to_string(),
        }
    }

    /// Returns whether this is the publish of a head, with its digest.
    #[must_use]
    pub fn is_of(&self, head: &Head) -> bool {
        self.publish == head.publish.to_string() && self.digest == head.digest.to_string()
    }
}

impl ReplicaStatus {
    /// Returns the value of the key.
    #[must_use]
    pub fn encode(&self) -> String {
        // Texts, numbers and maps with text keys: this cannot fail.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads a value. `None` if it is not a status: the keys of replicas must not stop a reader.
    #[must_use]
    pub fn decode(value: &[u8]) -> Option<Self> {
        // Through the object, because serde reads a struct from an array, too.
        let fields: Map<String, Value> = serde_json::from_slice(value).ok()?;
        serde_json::from_value(Value::Object(fields)).ok()
    }

    /// Returns whether all clients have answered everything that is served.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        let mut lanes = self.lanes.iter();
        lanes.all(|(lane, served)| self.settled.get(lane).is_some_and(|seq| *seq >= served.seq))
    }

    /// Returns the publish that is served of a lane.
    #[must_use]
    pub fn lane(&self, lane: &Segment) -> Option<&ServedPublish> {
        self.lanes.get(&**lane)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::PublishId;

    #[test]
    fn g37_full_status_is_read_back_and_below_1_kib() {
        let head = Head::new(PublishId(7), None, 4711, Digest::default());
        let lanes = ["main", "endpoints"];
        let status = ReplicaStatus {
            id: "oxds-0.oxds.mesh.svc.cluster.local".to_owned(),
            build: "0.4.0".to_owned(),
            started: 1_700_000_000_000,
            grpc: "[2001:db8:1234:5678:9abc:def0:1234:5678]:18000".to_owned(),
            http: "[2001:db8:1234:5678:9abc:def0:1234:5678]:18001".to_owned(),
            lanes: lanes
                .map(|lane| (lane.to_owned(), ServedPublish::new(&head, head.digest)))
                .into(),
            streams: 1000,
            in_sync: 999,
            nacked: 1,
            settled: lanes.map(|lane| (lane.to_owned(), 4710)).into(),
            held: true,
        };
        let value = status.encode();
        assert!(value.len() < 1024, "{} bytes", value.len());
        assert_eq!(ReplicaStatus::decode(value.as_bytes()), Some(status));
    }

    #[test]
    fn g27_status_of_another_build_is_read_as_far_as_known() {
        let value = r#"{"id":"a","lanes":{"main":{"seq":7,"publish":"x","new":1}},"later":[1],"held":"why","streams":"many","settled":7}"#;
        let status = ReplicaStatus::decode(value.as_bytes()).expect("a status");
        let lane = |name| Segment::lane(name).expect("valid");
        assert_eq!(status.lane(&lane("main")).map(|served| served.seq), Some(7));
        assert_eq!(status.lane(&lane("other")), None);
        assert_eq!((status.streams, status.held), (0, false));
        assert_eq!(ReplicaStatus::decode(b"not JSON"), None);
        assert_eq!(ReplicaStatus::decode(b"[]"), None);
    }
}
