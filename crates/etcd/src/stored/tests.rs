//! Values keep the bytes that were written (G-2), and are accepted only with their own version.

use oxds_types::Glob;
use proptest::prelude::*;

use super::*;

fn origin() -> Origin {
    Origin {
        file: "clusters.yaml".into(),
        line: 3,
        text_hash: Version::of(b"text").to_string(),
    }
}

fn cluster(content: &[u8]) -> Resource {
    Resource::new(ResourceType::CLUSTER, "blue", content)
}

fn place() -> Place {
    Place::of_all(ResourceType::CLUSTER, "blue")
}

/// Field 99 999, which no build knows, with three bytes.
const UNKNOWN_FIELD: &[u8] = &[0xfa, 0xe9, 0x30, 0x03, 1, 2, 3];

#[test]
fn stored_resource_reads_back() {
    let written = cluster(b"\x0a\x04blue").with_ttl(Duration::new(5, 7));
    let stored = Stored::of_resource(&written, Some(origin()));
    let read = Stored::decode(stored.encoded().clone()).expect("valid");
    assert_eq!(
        (read.origin(), read.ttl()),
        (Some(&origin()), Some(Duration::new(5, 7)))
    );
    let resource = read.resource(&place()).expect("a resource");
    assert_eq!((&resource, resource.value()), (&written, written.value()));
}

#[test]
fn g2_fields_that_no_build_knows_keep_bytes_and_version() {
    let content = [b"\x0a\x04blue", UNKNOWN_FIELD].concat();
    let written = cluster(&content);
    let stored = Stored::of_resource(&written, None);
    // Unknown fields around it: of a later `Stored`, and of a later `Any`.
    let any = [any_of(&content), UNKNOWN_FIELD.to_vec()].concat();
    let fields = Encoded {
        any: any.into(),
        version: written.version().to_string(),
        format: FORMAT,
        ..Encoded::default()
    };
    let later: Bytes = [fields.encode_to_vec(), UNKNOWN_FIELD.to_vec()]
        .concat()
        .into();
    for value in [stored.encoded().clone(), later] {
        let read = Stored::decode(value.clone()).expect("valid");
        assert_eq!(*read.encoded(), value, "a move writes the same bytes");
        let resource = read.resource(&place()).expect("never withheld");
        assert_eq!(*resource.value(), content);
        assert_eq!(resource.version(), written.version());
    }
}

fn any_of(content: &[u8]) -> Vec<u8> {
    Any {
        type_url: ResourceType::CLUSTER.type_url().to_owned(),
        value: content.to_vec().into(),
    }
    .encode_to_vec()
}

fn encoded(change: impl FnOnce(&mut Encoded)) -> Bytes {
    let value = Stored::of_resource(&cluster(b"\x0a\x04blue"), None);
    let mut fields = Encoded::decode(value.encoded().clone()).expect("valid");
    change(&mut fields);
    fields.encode_to_vec().into()
}

#[test]
fn version_that_does_not_fit_the_content_is_an_error() {
    let other = encoded(|fields| fields.any = any_of(b"\x0a\x03red").into());
    let none = encoded(|fields| fields.version.clear());
    for value in [other, none] {
        let error = Stored::decode(value).expect_err("another version");
        assert!(matches!(error, StoredError::WrongVersion { .. }), "{error}");
    }
}

#[test]
fn g4_value_of_a_newer_format_states_both_numbers() {
    let error = Stored::decode(encoded(|fields| fields.format = 2)).expect_err("newer");
    assert_eq!(error, StoredError::Format(FormatError::Newer { found: 2 }));
    let none = Stored::decode(encoded(|fields| fields.format = 0)).expect_err("no format");
    assert!(
        matches!(none, StoredError::Format(FormatError::Malformed { .. })),
        "{none}"
    );
}

#[test]
fn invalid_ttl_is_an_error() {
    for ttl in [(-1, 0), (0, -1), (0, 1_000_000_000), (i64::MAX, 0)] {
        let (seconds, nanos) = ttl;
        let value = encoded(|fields| fields.ttl = Some(discovery::Duration { seconds, nanos }));
        assert_eq!(Stored::decode(value), Err(StoredError::InvalidTtl));
    }
}

#[test]
fn ttl_beyond_the_range_of_protobuf_becomes_the_longest() {
    let written = Stored::of_resource(&cluster(b"").with_ttl(Duration::MAX), None);
    let read = Stored::decode(written.encoded().clone()).expect("valid");
    assert_eq!(
        (written.ttl(), read.ttl()),
        (Some(LONGEST_DURATION), Some(LONGEST_DURATION))
    );
}

#[test]
fn content_of_another_type_than_the_key_is_an_error() {
    let stored = Stored::of_resource(&cluster(b""), None);
    let listener = Place::of_all(ResourceType::LISTENER, "blue");
    let errors = [
        stored.resource(&listener).expect_err("a cluster"),
        stored.matcher().expect_err("a cluster"),
    ];
    let matcher = Stored::of_matcher(&NodeMatcher::default(), None);
    for error in errors
        .into_iter()
        .chain([matcher.resource(&place()).expect_err("a matcher")])
    {
        assert!(matches!(error, StoredError::WrongType { .. }), "{error}");
    }
}

#[test]
fn digest_version_covers_content_and_ttl() {
    let stored = |content: &[u8], ttl: Option<u64>| {
        let resource = cluster(content);
        let resource = match ttl {
            Some(ttl) => resource.with_ttl(Duration::from_secs(ttl)),
            None => resource,
        };
        Stored::of_resource(&resource, Some(origin()))
    };
    let versions = [
        stored(b"a", None),
        stored(b"b", None),
        stored(b"a", Some(0)),
        stored(b"a", Some(1)),
        stored(b"b", Some(1)),
    ]
    .map(|stored| stored.digest_version());
    let different: std::collections::BTreeSet<_> = versions.iter().collect();
    assert_eq!(different.len(), versions.len());
    let without_origin = Stored::of_resource(&cluster(b"a"), None);
    assert_eq!(
        without_origin.digest_version(),
        versions[0],
        "origins are not content"
    );
    assert!(without_origin.is_same_content(&stored(b"a", None)));
    assert!(!without_origin.is_same_content(&stored(b"a", Some(1))));
}

fn matcher() -> NodeMatcher {
    NodeMatcher {
        id: Some(Glob::new("edge-*")),
        cluster: Some(Glob::exact("a*b")),
        user_agent: Some(Glob::new("envoy 1.40.*")),
        region: Some("eu".into()),
        zone: Some(String::new()),
        sub_zone: None,
        metadata: [("app.tier", "gold"), ("b", "")]
            .map(|(k, v)| (k.into(), v.into()))
            .into(),
    }
}

#[test]
fn matchers_read_back() {
    for matcher in [matcher(), NodeMatcher::default()] {
        let stored = Stored::of_matcher(&matcher, Some(origin()));
        let read = Stored::decode(stored.encoded().clone()).expect("valid");
        assert_eq!(read.matcher(), Ok(matcher));
    }
}

#[test]
fn matcher_with_unknown_conditions_is_an_error() {
    let value = [matcher::encode(&matcher()), UNKNOWN_FIELD.to_vec()].concat();
    let type_url = matcher::TYPE_URL.to_owned();
    let stored = Stored::new(
        Any {
            type_url,
            value: value.into(),
        },
        None,
        None,
    );
    let error = stored.matcher().expect_err("an unknown condition");
    assert!(error.to_string().contains("does not know"), "{error}");
}

#[test]
fn empty_staged_value_is_a_removal() {
    let put = Staged::Put(Stored::of_resource(&cluster(b""), None));
    for staged in [put, Staged::Removal] {
        assert_eq!(Staged::decode(staged.encoded()), Ok(staged));
    }
}

#[test]
fn debug_does_not_show_the_content() {
    let secret = Resource::new(ResourceType::SECRET, "key", b"-----BEGIN");
    let text = format!("{:?}", Stored::of_resource(&secret, None));
    assert!(
        text.contains("Secret@") && !text.contains("BEGIN"),
        "{text}"
    );
}

proptest! {
    #[test]
    fn damaged_values_are_errors_or_have_the_same_content(at in any::<prop::sample::Index>(), bit in 0..8u8, end in any::<prop::sample::Index>()) {
        let written = cluster(b"\x0a\x04blue").with_ttl(Duration::from_secs(5));
        let good = Stored::of_resource(&written, Some(origin()));
        let mut flipped = good.encoded().to_vec();
        let at = at.index(flipped.len());
        flipped[at] ^= 1 << bit;
        let cut = good.encoded().slice(..end.index(good.encoded().len()));
        for damaged in [Bytes::from(flipped), cut] {
            if let Ok(read) = Stored::decode(damaged) {
                prop_assert_eq!(read.version(), good.version());
            }
        }
    }
}
