//! Statuses of the replicas: how far they are (G-27).

use std::collections::BTreeMap;

use oxds_types::etcd::KeyValue;
use serde::Deserialize;

use crate::etcd::names::Segment;

/// Part of the value of `x/<id>` that a writer reads. Other fields are ignored.
#[derive(Deserialize)]
struct Status {
    #[serde(default)]
    lanes: BTreeMap<String, Served>,
}

/// Publish of a lane that a replica serves.
#[derive(Deserialize)]
struct Served {
    seq: u64,
}

/// Returns the greatest seq of a lane that a replica serves; 0 if there is none. Values that cannot be read are ignored: the
/// replicas' keys must not stop a writer.
pub(super) fn greatest_seq(statuses: &[KeyValue], lane: &Segment) -> u64 {
    let statuses = statuses
        .iter()
        .filter_map(|kv| serde_json::from_slice::<Status>(&kv.value).ok());
    let served = statuses.filter_map(|status| Some(status.lanes.get(&**lane)?.seq));
    served.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g27_greatest_seq_is_of_the_lane_and_ignores_other_values() {
        let values = [
            r#"{"id":"a","lanes":{"main":{"seq":7,"publish":"x"},"other":{"seq":9}},"streams":3}"#,
            r#"{"lanes":{"main":{"seq":5}}}"#,
            r#"{"id":"new"}"#,
            "not JSON",
        ];
        let statuses = values.map(|value| KeyValue {
            value: value.into(),
            ..KeyValue::default()
        });
        let lane = |name| Segment::lane(name).expect("valid");
        assert_eq!(greatest_seq(&statuses, &lane("main")), 7);
        assert_eq!(greatest_seq(&statuses, &lane("other")), 9);
        assert_eq!(greatest_seq(&statuses, &lane("none")), 0);
    }
}
