//! State that an earlier process saved.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::entry::Place;
use crate::head::Head;
use crate::names::Segment;
use oxds_core::group::NodeMatcher;
use oxds_core::snapshot::Resource;

/// State that an earlier process served, as it was saved on disk.
#[derive(Debug, Default)]
pub struct SavedState {
    /// Heads that vouch for the state, of all lanes.
    pub heads: Vec<(Segment, Head)>,
    /// Resources with their places.
    pub resources: Vec<(Place, Arc<Resource>)>,
    /// Groups with their matchers.
    pub matchers: Vec<(Segment, NodeMatcher)>,
}

/// Heads as they are saved beside the state: they are its position in the store.
#[derive(Serialize, Deserialize)]
struct Position {
    heads: BTreeMap<String, Head>,
}

impl SavedState {
    /// Makes a state of these heads, as [`encode_heads`] wrote them, without content. Returns `None` if they cannot be
    /// read.
    #[must_use]
    pub fn of_heads(position: &[u8]) -> Option<Self> {
        let Position { heads } = serde_json::from_slice(position).ok()?;
        let heads = heads.into_iter();
        let heads = heads.map(|(lane, head)| {
            // The derived reader takes any format.
            let head = Head::decode(&head.encode()).ok()?;
            Some((Segment::lane(&lane).ok()?, head))
        });
        Some(Self {
            heads: heads.collect::<Option<_>>()?,
            ..Self::default()
        })
    }
}

/// Returns heads as bytes, for a disk.
#[must_use]
pub fn encode_heads(heads: &[(Segment, Head)]) -> Vec<u8> {
    let heads = heads.iter();
    let heads = heads.map(|(lane, head)| (lane.to_string(), head.clone()));
    let position = Position {
        heads: heads.collect(),
    };
    // Only maps with keys that are not texts fail.
    serde_json::to_vec(&position).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::Digest;
    use crate::names::PublishId;

    #[test]
    fn g25_heads_on_disk_are_read_back() {
        let head = |seq| Head::new(PublishId(7), Some(PublishId(6)), seq, Digest::default());
        let lane = |name| Segment::lane(name).expect("a lane");
        let heads = vec![(lane("edge"), head(3)), (lane("main"), head(4))];
        let bytes = encode_heads(&heads);
        let saved = SavedState::of_heads(&bytes).expect("readable");
        assert_eq!(saved.heads, heads);
        assert!(saved.resources.is_empty() && saved.matchers.is_empty());
    }

    #[test]
    fn g25_heads_that_cannot_be_read_are_none() {
        let head = Head::new(PublishId(7), None, 1, Digest::default());
        let valid = encode_heads(&[(Segment::lane("main").expect("a lane"), head)]);
        let valid = String::from_utf8(valid).expect("JSON");
        let newer = valid.replace("\"format\":1", "\"format\":2");
        let slash = valid.replace("main", "a/b");
        assert!(newer != valid && slash != valid);
        for text in ["", "{}", &newer, &slash] {
            assert!(SavedState::of_heads(text.as_bytes()).is_none(), "{text}");
        }
    }
}
