//! Head of a lane: the description of its published state.

use std::collections::BTreeMap;

use oxds_types::{ResourceType, Version};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::Value;

use super::digest::Digest;
use super::format::{self, FORMAT, FormatError};
use super::names::PublishId;

/// Size that the encoded head of a configuration with all types of xDS stays below, in bytes. Each type of a user's own
/// adds its name and 21 bytes.
pub const HEAD_SIZE: usize = 1024;
/// Longest text of [`Head::by`] and of [`Head::note`], in bytes of JSON. What is longer is cut.
const TEXT_SIZE: usize = 96;

/// The value of a lane's head key: one JSON object.
///
/// A publish makes the head's `seq` one greater, and its former `publish` the new `parent`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Head {
    /// Format of this value ([`FORMAT`]).
    format: u32,
    /// Id of the publish.
    #[serde(with = "publish_id")]
    pub publish: PublishId,
    /// Id of the publish before; `None` for the first one.
    #[serde(default, with = "optional_id")]
    pub parent: Option<PublishId>,
    /// Number of the publish: the parent's plus one.
    pub seq: u64,
    /// Sum over all entries of the lane, the staged ones applied.
    #[serde(with = "digest")]
    pub digest: Digest,
    /// Versions of the collections of resources for all nodes, by the short name of the type, or by its full name if it
    /// is not a type of xDS. Types without resources are absent.
    #[serde(default)]
    types: BTreeMap<String, String>,
    /// Publish whose stage belongs over the entries of the lane; `None` if all entries are in their places.
    #[serde(default, with = "optional_id")]
    pub staged: Option<PublishId>,
    /// Time of the publish by the writer's clock, in milliseconds since 1970. For people: nothing is decided by it.
    #[serde(default)]
    pub at: u64,
    /// User and machine of the writer.
    #[serde(default)]
    pub by: String,
    /// Text that the user gave.
    #[serde(default)]
    pub note: String,
    /// Fields of other builds, which are kept.
    #[serde(flatten)]
    other: BTreeMap<String, Value>,
}

/// Reason why a head cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    /// The value is not the JSON of a head.
    #[error("malformed head: {0}")]
    Malformed(String),
    /// The format of the value is unknown.
    #[error(transparent)]
    Format(#[from] FormatError),
}

/// Part of a head that all formats have.
#[derive(Deserialize)]
struct AnyHead {
    format: u32,
}

impl Head {
    /// Makes the head of a publish without versions of types and without a stage. `by` and `note` are cut if they are
    /// long.
    #[must_use]
    pub fn new(publish: PublishId, parent: Option<PublishId>, seq: u64, digest: Digest) -> Self {
        Self {
            format: FORMAT,
            publish,
            parent,
            seq,
            digest,
            types: BTreeMap::new(),
            staged: None,
            at: 0,
            by: String::new(),
            note: String::new(),
            other: BTreeMap::new(),
        }
    }

    /// Sets who publishes, when (milliseconds since 1970), and why. Long texts are cut.
    #[must_use]
    pub fn described(mut self, by: &str, at: u64, note: &str) -> Self {
        self.by = cut(by);
        self.at = at;
        self.note = cut(note);
        self
    }

    /// Sets the versions of the collections of resources for all nodes.
    #[must_use]
    pub fn with_types<'a>(
        mut self,
        types: impl IntoIterator<Item = (&'a ResourceType, Version)>,
    ) -> Self {
        let types = types.into_iter();
        self.types = types
            .map(|(resource_type, version)| (resource_type.to_string(), version.to_string()))
            .collect();
        self
    }

    /// Returns the version of the resources of a type for all nodes; `None` if there are none.
    #[must_use]
    pub fn version_of(&self, resource_type: &ResourceType) -> Option<Version> {
        let text = self.types.get(&resource_type.to_string())?;
        Version::parse(text)
    }

    /// Reads the value of a head key. Unknown fields are kept.
    ///
    /// # Errors
    /// The value is not a head, or its format is newer than this build's (G-4).
    pub fn decode(value: &[u8]) -> Result<Self, HeadError> {
        let malformed = |error: serde_json::Error| HeadError::Malformed(error.to_string());
        let read = serde_json::from_slice::<Self>(value);
        // Before the error, because the fields of another format may have other forms.
        let format = match &read {
            Ok(head) => head.format,
            Err(_) => {
                let any: AnyHead = serde_json::from_slice(value).map_err(malformed)?;
                any.format
            }
        };
        format::check(format)?;
        read.map_err(malformed)
    }

    /// Returns the value for a head key.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        // Only maps with keys that are not texts fail.
        serde_json::to_vec(self).unwrap_or_default()
    }
}

/// Cuts a text to `TEXT_SIZE` bytes of JSON. Control characters become spaces.
fn cut(text: &str) -> String {
    let mut size = 0;
    let printable = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let fits = printable.take_while(|c| {
        size += c.len_utf8() + usize::from(matches!(c, '"' | '\\'));
        size <= TEXT_SIZE
    });
    fits.collect()
}

mod publish_id {
    //! A publish id as text.

    use super::{Deserialize, Deserializer, PublishId, Serializer, de};

    pub(super) fn serialize<S: Serializer>(id: &PublishId, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(id)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PublishId, D::Error> {
        let text = String::deserialize(from)?;
        let invalid = || de::Error::custom(format_args!("invalid publish id {text:?}"));
        PublishId::parse(&text).ok_or_else(invalid)
    }
}

mod optional_id {
    //! A publish id as text, or null.

    use super::{Deserialize, Deserializer, PublishId, Serializer, de};

    pub(super) fn serialize<S: Serializer>(
        id: &Option<PublishId>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match id {
            Some(id) => to.collect_str(id),
            None => to.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<PublishId>, D::Error> {
        let Some(text) = Option::<String>::deserialize(from)? else {
            return Ok(None);
        };
        let invalid = || de::Error::custom(format_args!("invalid publish id {text:?}"));
        PublishId::parse(&text).map(Some).ok_or_else(invalid)
    }
}

mod digest {
    //! A digest as text.

    use super::{Deserialize, Deserializer, Digest, Serializer, de};

    pub(super) fn serialize<S: Serializer>(digest: &Digest, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(digest)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Digest, D::Error> {
        let text = String::deserialize(from)?;
        let invalid = || de::Error::custom(format_args!("invalid digest {text:?}"));
        Digest::parse(&text).ok_or_else(invalid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head() -> Head {
        let digest = Digest::parse("000000000000000000000000000000ff").expect("valid");
        Head::new(PublishId(2), Some(PublishId(1)), 4711, digest)
    }

    #[test]
    fn head_is_one_json_object_and_reads_back() {
        let types = [(&ResourceType::CLUSTER, Version::of(b"all"))];
        let mut head = head()
            .described("alice@ci", 1_764_000_000_000, "a note")
            .with_types(types);
        head.staged = Some(PublishId(2));
        let text = String::from_utf8(head.encode()).expect("text");
        let id = |digits: &str| format!("{digits:0>32}");
        let digest = id("ff");
        let (one, two, all) = (id("1"), id("2"), Version::of(b"all"));
        let expected = format!(
            r#"{{"format":1,"publish":"{two}","parent":"{one}","seq":4711,"digest":"{digest}","types":{{"cds":"{all}"}},"#
        ) + &format!(
            r#""staged":"{two}","at":1764000000000,"by":"alice@ci","note":"a note"}}"#
        );
        assert_eq!(text, expected);
        assert_eq!(Head::decode(text.as_bytes()).as_ref(), Ok(&head));
        assert_eq!(
            head.version_of(&ResourceType::CLUSTER),
            Some(Version::of(b"all"))
        );
        assert_eq!(head.version_of(&ResourceType::LISTENER), None);
    }

    #[test]
    fn head_keeps_fields_of_other_builds() {
        let mut value: Value = serde_json::from_slice(&head().encode()).expect("JSON");
        value["region"] = serde_json::json!({"of": ["another", "build"]});
        let read = Head::decode(value.to_string().as_bytes()).expect("a head");
        let again: Value = serde_json::from_slice(&read.encode()).expect("JSON");
        assert_eq!(
            again, value,
            "also when this build completes the publish of another"
        );
    }

    #[test]
    fn g4_head_of_a_newer_format_states_both_numbers() {
        let newer = br#"{"format":2,"publish":7}"#;
        let error = Head::decode(newer).expect_err("newer");
        assert_eq!(error, HeadError::Format(FormatError::Newer { found: 2 }));
        assert!(
            error.to_string().contains("format is 2") && error.to_string().contains("format 1")
        );
    }

    #[test]
    fn head_that_is_malformed_is_an_error() {
        let text = String::from_utf8(head().encode()).expect("text");
        let cut = (0..text.len()).map(|end| text[..end].to_owned());
        let other = ["null", "[]", "1", "{}"].map(str::to_owned);
        let id = text.replace(&PublishId(2).to_string(), "2");
        let digest = text.replace("ff\"", "FF\"");
        let seq = text.replace("4711", "-1");
        for malformed in cut.chain(other).chain([id, digest, seq]) {
            let error = Head::decode(malformed.as_bytes()).expect_err(&malformed);
            assert!(matches!(error, HeadError::Malformed(_)), "{error}");
        }
    }

    #[test]
    fn head_with_all_types_and_long_texts_is_below_1_kb() {
        let known: Vec<_> = ResourceType::known().collect();
        let types = known
            .iter()
            .map(|resource_type| (resource_type, Version::of(b"all")));
        for text in [
            "\"\\".repeat(500),
            "ü".repeat(500),
            "\u{1}".repeat(500),
            "a".repeat(500),
        ] {
            let mut head = head()
                .described(&text, u64::MAX, &text)
                .with_types(types.clone());
            head.seq = u64::MAX;
            head.staged = Some(head.publish);
            let size = head.encode().len();
            assert!(size < HEAD_SIZE, "{size} bytes");
            assert_eq!(Head::decode(&head.encode()), Ok(head));
        }
    }
}
