//! The size of discovery requests, measured before they are decoded.
//!
//! A decoded message takes many times the memory of its encoded form: an empty name is two bytes on the wire and 24 in
//! memory, an empty value in a `Struct` three bytes of JSON and about a kilobyte in a dynamic message. So a limit that
//! is checked on the decoded message comes too late.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::wire;

/// Sizes in an encoded discovery request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestSize {
    /// Bytes of the node.
    pub node: usize,
    /// Bytes of the error detail of a NACK.
    pub error: usize,
    /// Names and locators to subscribe to.
    pub names: usize,
    /// Names and locators to unsubscribe from.
    pub unsubscribed: usize,
    /// Entries of the initial versions.
    pub versions: usize,
    /// Versioned type URLs.
    pub majors: usize,
}

/// A field of a request that is measured.
#[derive(Clone, Copy)]
enum Part {
    Node,
    Error,
    Names,
    Unsubscribed,
    Versions,
    Majors,
}

/// Number of the field `versioned_type_urls` in both requests.
const VERSIONED_TYPE_URLS: u32 = 1000;

impl RequestSize {
    /// Measures an encoded `DiscoveryRequest`. Malformed bytes end it; the decoder reports them.
    #[must_use]
    pub fn from_sotw(message: &[u8]) -> Self {
        Self::from_wire(message, |field| match field {
            2 => Some(Part::Node),
            3 | 7 => Some(Part::Names),
            6 => Some(Part::Error),
            VERSIONED_TYPE_URLS => Some(Part::Majors),
            _ => None,
        })
    }

    /// Measures an encoded `DeltaDiscoveryRequest`. Malformed bytes end it; the decoder reports them.
    #[must_use]
    pub fn from_delta(message: &[u8]) -> Self {
        Self::from_wire(message, |field| match field {
            1 => Some(Part::Node),
            3 | 8 => Some(Part::Names),
            4 | 9 => Some(Part::Unsubscribed),
            5 => Some(Part::Versions),
            7 => Some(Part::Error),
            VERSIONED_TYPE_URLS => Some(Part::Majors),
            _ => None,
        })
    }

    fn from_wire(mut message: &[u8], part: impl Fn(u32) -> Option<Part>) -> Self {
        let mut size = Self::default();
        let is_map = |field: u32| matches!(part(field), Some(Part::Versions));
        while let Some((field, body)) = wire::next(&mut message, is_map) {
            if let (Some(part), Some(body)) = (part(field), body) {
                size.add(part, body.len());
            }
        }
        size
    }

    /// Measures a `DiscoveryRequest` in JSON. Text that is not one ends it; the reader reports that.
    #[must_use]
    pub fn from_json(text: &[u8]) -> Self {
        let mut size = Self::default();
        let _ = RequestSeed(&mut size).deserialize(&mut serde_json::Deserializer::from_slice(text));
        size
    }

    fn add(&mut self, part: Part, length: usize) {
        match part {
            Part::Node => self.node += length,
            Part::Error => self.error += length,
            Part::Names => self.names += 1,
            Part::Unsubscribed => self.unsubscribed += 1,
            Part::Versions => self.versions += 1,
            Part::Majors => self.majors += 1,
        }
    }
}

/// Measures the members of a request in JSON, and builds no value.
struct RequestSeed<'a>(&'a mut RequestSize);

impl<'de> DeserializeSeed<'de> for RequestSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for RequestSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a DiscoveryRequest")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let size = self.0;
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "node" => size.node += map.next_value::<&RawValue>()?.get().len(),
                "errorDetail" | "error_detail" => {
                    size.error += map.next_value::<&RawValue>()?.get().len();
                }
                "resourceNames" | "resource_names" | "resourceLocators" | "resource_locators" => {
                    size.names += map.next_value_seed(CountSeed)?;
                }
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

/// Counts the items of a list.
struct CountSeed;

impl<'de> DeserializeSeed<'de> for CountSeed {
    type Value = usize;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<usize, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for CountSeed {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_unit<E>(self) -> Result<usize, E> {
        Ok(0)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<usize, A::Error> {
        let mut count = 0;
        while seq.next_element::<IgnoredAny>()?.is_some() {
            count += 1;
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use envoy_types::pb::google::rpc::Status;
    use prost::Message as _;

    use super::*;
    use crate::discovery::{
        DeltaDiscoveryRequest, DiscoveryRequest, Node, ResourceLocator, VersionedTypeUrl,
    };

    fn node() -> Node {
        Node {
            id: "n".repeat(300),
            ..Node::default()
        }
    }

    fn error() -> Status {
        Status {
            message: "no".into(),
            ..Status::default()
        }
    }

    #[test]
    fn requests_are_measured_before_they_are_decoded() {
        let sotw = DiscoveryRequest {
            version_info: "7".into(),
            node: Some(node()),
            resource_names: vec![String::new(), "a".into()],
            resource_locators: vec![ResourceLocator::default()],
            error_detail: Some(error()),
            ..DiscoveryRequest::default()
        };
        let expected = RequestSize {
            node: node().encoded_len(),
            error: error().encoded_len(),
            names: 3,
            ..RequestSize::default()
        };
        assert_eq!(RequestSize::from_sotw(&sotw.encode_to_vec()), expected);
        let delta = DeltaDiscoveryRequest {
            node: Some(node()),
            resource_names_subscribe: vec!["a".into(), "b".into(), "c".into()],
            resource_names_unsubscribe: vec!["d".into()],
            initial_resource_versions: HashMap::from([("a".into(), "1".into())]),
            error_detail: Some(error()),
            ..DeltaDiscoveryRequest::default()
        };
        let expected = RequestSize {
            unsubscribed: 1,
            versions: 1,
            ..expected
        };
        assert_eq!(RequestSize::from_delta(&delta.encode_to_vec()), expected);
        for malformed in [&b"\xff"[..], b"\x12\x7f", b"\x12"] {
            assert_eq!(RequestSize::from_sotw(malformed), RequestSize::default());
        }
    }

    #[test]
    fn v50_versioned_type_urls_count_before_they_are_decoded() {
        let versioned_type_urls = vec![VersionedTypeUrl::default(); 7];
        let sotw = DiscoveryRequest {
            versioned_type_urls: versioned_type_urls.clone(),
            ..DiscoveryRequest::default()
        };
        assert_eq!(RequestSize::from_sotw(&sotw.encode_to_vec()).majors, 7);
        let delta = DeltaDiscoveryRequest {
            versioned_type_urls,
            ..DeltaDiscoveryRequest::default()
        };
        assert_eq!(RequestSize::from_delta(&delta.encode_to_vec()).majors, 7);
    }

    /// An entry of a map with the wire type of a 64-bit number, which the decoder reads as if it were length-delimited.
    #[test]
    fn map_entry_of_any_wire_type_counts() {
        for wire_type in 0..6 {
            let message = [5 << 3 | wire_type, 6, 0x0a, 1, b'a', 0x12, 1, b'1'];
            let read = DeltaDiscoveryRequest::decode(&message[..]);
            let read = read.map_or(0, |request| request.initial_resource_versions.len());
            assert!(
                RequestSize::from_delta(&message).versions >= read,
                "{wire_type}"
            );
        }
    }

    #[test]
    fn json_requests_are_measured_before_they_are_read() {
        let text = br#"{"node": {"id": "n"}, "tomorrow": [[{}]], "resource_names": ["", "a"],
            "resourceLocators": [{}], "errorDetail": {"message": "]"}, "node": {"id": "m"}}"#;
        let expected = RequestSize {
            node: 2 * br#"{"id": "n"}"#.len(),
            error: br#"{"message": "]"}"#.len(),
            names: 3,
            ..RequestSize::default()
        };
        assert_eq!(RequestSize::from_json(text), expected);
        for other in [
            "",
            "[]",
            "null",
            "{\"resourceNames\": null}",
            "{\"resourceNames\": 7}",
        ] {
            assert_eq!(
                RequestSize::from_json(other.as_bytes()),
                RequestSize::default()
            );
        }
        // What precedes an error counts.
        assert_eq!(
            RequestSize::from_json(b"{\"resourceNames\": [1, 2], !").names,
            2
        );
    }
}
