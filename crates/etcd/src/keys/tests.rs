//! Keys are built and parsed without loss (G-3).

use proptest::prelude::*;

use oxds_types::ResourceType;

use super::*;

fn prefix() -> Prefix {
    Prefix::new("/oxds/default").expect("valid")
}

fn lane() -> Segment {
    Segment::lane("main").expect("valid")
}

fn group() -> Segment {
    Segment::group("edge").expect("valid")
}

fn cluster(name: &str) -> Place {
    Place::of_all(ResourceType::CLUSTER, name)
}

/// Builds the key, compares it with the text, and parses it again.
fn check(key: &Key, text: &str) {
    let built = prefix().key(key);
    assert_eq!(
        String::from_utf8_lossy(&built),
        format!("/oxds/default/{text}")
    );
    assert_eq!(prefix().parse(&built).as_ref(), Ok(key));
}

#[test]
fn g3_keys_have_the_layout_of_the_specification() {
    let (lane, id) = (lane(), PublishId(0xab));
    let hex = "000000000000000000000000000000ab";
    let entry = Entry::Resource(cluster("blue"));
    let in_group = Place::of_group(group(), ResourceType::CLUSTER, "blue");
    let r = "r/envoy.config.cluster.v3.Cluster/blue";
    let l = || lane.clone();
    check(&Key::Format, "format");
    check(&Key::Head(l()), "l/main/head");
    check(&Key::Entry(l(), entry.clone()), &format!("l/main/{r}"));
    check(&Key::Entry(l(), Entry::Matcher(group())), "l/main/g/edge");
    check(
        &Key::Entry(l(), in_group.clone().into()),
        &format!("l/main/g/edge/{r}"),
    );
    check(&Key::Staged(l(), id, entry), &format!("l/main/s/{hex}/{r}"));
    check(&Key::Alive(l(), id), &format!("l/main/s/{hex}/alive"));
    check(&Key::Status(Segment::replica("r1").expect("valid")), "x/r1");
    check(
        &Key::Rollback(l(), in_group.clone()),
        &format!("w/main/g/edge/{r}"),
    );
    check(&Key::Lock(l()), "lock/main");
    let version = Version::of(b"content");
    let place = in_group;
    let bad = BadVersion {
        lane,
        place,
        version,
    };
    let nack = bad.report_key(&Segment::replica("r1").expect("valid"));
    check(&nack, &format!("n/main/g/edge/{r}/{version}/r1"));
}

#[test]
fn g3_names_are_unchanged_whatever_they_contain() {
    let long = "n".repeat(500);
    let names = [
        "a/b",
        "/",
        "a//",
        "?",
        "a?b=c&d",
        "größe",
        "head",
        "alive",
        "s/x",
        "r/a",
        " ",
        "a\nb",
        "xdstp://auth/envoy.config.cluster.v3.Cluster/a/b?x=1",
        &long,
    ];
    for name in names {
        let place = cluster(name);
        let version = Version::of(b"content");
        let replica = Segment::replica("r1").expect("valid");
        let keys = [
            Key::Entry(lane(), place.clone().into()),
            Key::Entry(
                lane(),
                Place {
                    group: Some(group()),
                    ..place.clone()
                }
                .into(),
            ),
            Key::Staged(lane(), PublishId(1), place.clone().into()),
            Key::Rollback(lane(), place.clone()),
            BadVersion {
                lane: lane(),
                place,
                version,
            }
            .report_key(&replica),
        ];
        for key in keys {
            assert_eq!(prefix().parse(&prefix().key(&key)), Ok(key));
        }
    }
}

#[test]
fn g3_own_types_need_no_table() {
    let (own, _) = ResourceType::from_message("acme.mesh.v1.Quota");
    let key = Key::Entry(lane(), Place::of_all(own, "gold").into());
    check(&key, "l/main/r/acme.mesh.v1.Quota/gold");
}

#[test]
fn g3_keys_outside_of_the_layout_are_errors() {
    let id = PublishId(1);
    let unknown = [
        "",
        "formats",
        "format/x",
        "l",
        "l/main",
        "l/main/",
        "l/main/heads",
        "l/main/head/x",
        "l//head",
        "l/main/r/Cluster/a",
        "l/main/r/envoy.config.cluster.v3.Cluster",
        "l/main/r/envoy.config.cluster.v3.Cluster/",
        "l/main/r/envoy.api.v2.Cluster/a",
        "l/main/g/",
        "l/main/g/edge/",
        "l/main/g/edge/x",
        "l/main/g//r/a.B/c",
        "l/main/s/1/alive",
        &format!("l/main/s/{id}"),
        &format!("l/main/s/{id}/"),
        "x/",
        "x/a/b",
        "w/main/g/edge",
        "lock/",
        "lock/a/b",
        "n/main/r/a.B/c/version/r1",
        "n/main/r/a.B/AAAAAAAAAAAAAAAA/r1",
    ];
    for text in unknown {
        let key = [prefix().as_str(), text].concat();
        let parsed = prefix().parse(key.as_bytes());
        assert!(parsed.is_err(), "{text}: {parsed:?}");
    }
    let outside = prefix().parse(b"/oxds/other/format").expect_err("outside");
    assert!(
        matches!(outside, KeyError::OutsidePrefix { .. }),
        "{outside}"
    );
    let bytes = prefix()
        .parse(b"/oxds/default/x/\xff")
        .expect_err("not UTF-8");
    assert!(matches!(bytes, KeyError::NotUtf8(_)), "{bytes}");
}

#[test]
fn ranges_hold_the_keys_of_their_owner_only() {
    let (a, b) = (
        Segment::lane("a").expect("valid"),
        Segment::lane("a0").expect("valid"),
    );
    let prefix = prefix();
    let head = |lane: &Segment| prefix.key(&Key::Head(lane.clone()));
    assert!(prefix.lane(&a).contains(&head(&a)) && !prefix.lane(&a).contains(&head(&b)));
    assert!(
        prefix.lanes().contains(&head(&b)) && !prefix.lanes().contains(&prefix.key(&Key::Format))
    );
    let staged = prefix.key(&Key::Alive(a.clone(), PublishId(1)));
    assert!(
        prefix.stage(&a, PublishId(1)).contains(&staged) && prefix.stages(&a).contains(&staged)
    );
    assert!(
        !prefix.stage(&a, PublishId(2)).contains(&staged) && !prefix.stages(&b).contains(&staged)
    );
    assert!(prefix.all().contains(&staged));
}

proptest! {
    #[test]
    fn g3_any_text_parses_to_a_key_that_is_written_alike(text in "(l|x|n|w|lock)/[a-z/]{0,8}(r/a\\.B|head|g|s)?[ -~/]{0,12}") {
        if let Ok(key) = Key::parse(&text) {
            prop_assert_eq!(key.to_string(), text);
        }
    }

    #[test]
    fn g3_any_name_survives_a_key(name in "\\PC{1,40}", group in prop::option::of("[^/]{1,10}")) {
        let group = group.map(|group| Segment::group(&group).expect("valid"));
        let place = Place { group, resource_type: ResourceType::CLUSTER, name: name.into() };
        let version = Version::of(b"content");
        let replica = Segment::replica("r").expect("valid");
        let key = BadVersion { lane: lane(), place, version }.report_key(&replica);
        prop_assert_eq!(prefix().parse(&prefix().key(&key)), Ok(key));
    }
}
