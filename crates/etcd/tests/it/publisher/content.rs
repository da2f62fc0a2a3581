//! Content of publishes, and what is not written (G-1, G-6, G-9, G-12, G-13, G-15).

use std::collections::BTreeMap;
use std::sync::Arc;

use oxds_core::group::NodeMatcher;
use oxds_core::snapshot::Resource;
use oxds_etcd::publisher::{ChangeCounts, PublishError, PublishOptions, PublishOutcome, Wanted};
use oxds_etcd::{Entry, Key, Origin, Place, Segment, Stored};
use oxds_types::{Glob, ResourceType};

use super::history::{latest, served};
use super::rig::{
    Fault, Writer, cluster, folder, lane, large, limited, options, prefix, publish, state_of,
    stored,
};
use crate::model::Etcd;

fn group() -> Segment {
    Segment::group("edge").unwrap()
}

/// A cluster for all nodes, one of a group, and the matcher of the group.
fn folder_with_group() -> Wanted {
    let matcher = NodeMatcher {
        id: Some(Glob::new("edge-*")),
        ..NodeMatcher::default()
    };
    let in_group = Place::of_group(group(), ResourceType::CLUSTER, "blue").into();
    let mut entries = BTreeMap::from([cluster("blue"), in_group].map(|entry| {
        let stored = stored(&entry, b"content");
        (entry, stored)
    }));
    let origin = Origin {
        file: "groups/edge/group.yaml".into(),
        line: 1,
        text_hash: String::new(),
    };
    let matcher = Stored::of_matcher(&matcher, Some(origin));
    entries.insert(Entry::Matcher(group()), Arc::new(matcher));
    Wanted::State(entries.into())
}

#[test]
fn g1_first_publish_has_seq_1_and_groups_and_matchers() {
    // Given an empty prefix, when a folder is published:
    let mut etcd = Etcd::default();
    let writer = publish(&mut etcd, 1, folder_with_group());
    // Then the head has seq 1, and everything reads back as it was written.
    let (head, state) = latest(&etcd, &lane("main"));
    assert_eq!((writer.seq(), head.seq, head.parent), (1, 1, None));
    assert_eq!(state, state_of(&folder_with_group()));
    assert_eq!((&*head.by, head.at), ("writer-1", 1001));
    assert!(
        head.version_of(&ResourceType::CLUSTER).is_some()
            && head.version_of(&ResourceType::LISTENER).is_none()
    );
    let format = prefix().key(&Key::Format);
    assert_eq!(
        &*etcd.keys(std::str::from_utf8(&format).unwrap())[0].value,
        b"1"
    );
}

#[test]
fn g1_empty_folder_is_a_publish() {
    let mut etcd = Etcd::default();
    let empty = folder([]);
    assert_eq!(publish(&mut etcd, 1, empty.clone()).seq(), 1);
    assert_eq!(
        publish(&mut etcd, 2, empty).success(),
        &PublishOutcome::Unchanged { seq: 1 }
    );
}

#[test]
fn g13_same_folder_again_writes_nothing() {
    let mut etcd = Etcd::default();
    publish(&mut etcd, 1, folder_with_group());
    let revision = etcd.revision();
    let again = publish(&mut etcd, 2, folder_with_group());
    assert_eq!(again.success(), &PublishOutcome::Unchanged { seq: 1 });
    assert_eq!(etcd.revision(), revision);
}

#[test]
fn g13_moved_line_alone_is_no_change() {
    let at_line = |line| {
        let resource = Resource::new(ResourceType::CLUSTER, "blue", b"content");
        let origin = Origin {
            file: "a.yaml".into(),
            line,
            text_hash: String::new(),
        };
        let stored = Stored::of_resource(&resource, Some(origin));
        Wanted::State(BTreeMap::from([(cluster("blue"), Arc::new(stored))]).into())
    };
    let mut etcd = Etcd::default();
    publish(&mut etcd, 1, at_line(1));
    assert_eq!(
        publish(&mut etcd, 2, at_line(7)).success(),
        &PublishOutcome::Unchanged { seq: 1 }
    );
}

#[test]
fn g13_dry_run_lists_changes_by_type_and_group() {
    // Given a published folder, when another one is published as a dry run, with removals:
    let mut etcd = Etcd::default();
    publish(&mut etcd, 1, folder_with_group());
    let revision = etcd.revision();
    let listener: Entry = Place::of_all(ResourceType::LISTENER, "in").into();
    let wanted = BTreeMap::from([
        (cluster("blue"), stored(&cluster("blue"), b"changed")),
        (listener.clone(), stored(&listener, b"new")),
    ]);
    let wanted = Wanted::State(wanted.into());
    let options = PublishOptions {
        dry_run: true,
        prune: true,
        ..options(2)
    };
    let writer = Writer::new(options, wanted).run(&mut etcd);
    // Then nothing is written, and the changes are listed.
    assert_eq!(etcd.revision(), revision);
    let PublishOutcome::DryRun(summary) = writer.success() else {
        panic!("{:?}", writer.success());
    };
    let counts: Vec<_> = summary.counts().into_iter().collect();
    let count = |added, changed, removed| ChangeCounts {
        added,
        changed,
        removed,
    };
    assert_eq!(
        counts,
        [
            ((None, Some(ResourceType::CLUSTER)), count(0, 1, 0)),
            ((None, Some(ResourceType::LISTENER)), count(1, 0, 0)),
            ((Some(group()), None), count(0, 0, 1)),
            ((Some(group()), Some(ResourceType::CLUSTER)), count(0, 0, 1)),
        ]
    );
}

#[test]
fn g13_dry_run_leaves_an_unfinished_publish_alone() {
    // Given a large publish whose writer was killed after the commit:
    let mut etcd = Etcd::default();
    let wanted = large();
    let mut killed = Writer::new(limited(1), wanted.clone());
    while served(&etcd, &lane("main"), etcd.revision()).is_none() {
        assert!(killed.step(&mut etcd, Fault::None));
    }
    // When a dry run reads it:
    let revision = etcd.revision();
    let options = PublishOptions {
        dry_run: true,
        ..options(2)
    };
    let writer = Writer::new(options, wanted).run(&mut etcd);
    // Then it sees the published state, and writes nothing.
    assert_eq!(writer.success(), &PublishOutcome::Unchanged { seq: 1 });
    assert_eq!(etcd.revision(), revision);
}

#[test]
fn g12_rejected_state_is_not_written() {
    let mut etcd = Etcd::default();
    publish(&mut etcd, 1, folder([("a", "1")]));
    let other = PublishOptions {
        lane: lane("other"),
        ..options(2)
    };
    Writer::new(other, folder([("b", "1")])).run(&mut etcd);
    let revision = etcd.revision();
    let mut writer = Writer::new(options(3), folder([("c", "1")]));
    writer.verdict = false;
    let writer = writer.run(&mut etcd);
    assert_eq!(writer.error(), &PublishError::Invalid);
    assert_eq!(etcd.revision(), revision);
    // The caller has seen the whole state: the folder, what was published before, and the other lane.
    let entries = writer.merged().entries.iter();
    let names: Vec<_> = entries
        .map(|(lane, entry, _)| (&**lane, entry.clone()))
        .collect();
    assert_eq!(
        names,
        [
            ("main", cluster("a")),
            ("main", cluster("c")),
            ("other", cluster("b"))
        ]
    );
}

#[test]
fn g6_place_of_another_lane_is_an_error() {
    let mut etcd = Etcd::default();
    publish(&mut etcd, 1, folder([("a", "1")]));
    let revision = etcd.revision();
    let other = PublishOptions {
        lane: lane("other"),
        force: true,
        ..options(2)
    };
    let writer = Writer::new(other, folder([("a", "1")])).run(&mut etcd);
    let expected = PublishError::OtherLane {
        entry: cluster("a"),
        lane: lane("main"),
    };
    assert_eq!(writer.error(), &expected);
    assert_eq!(etcd.revision(), revision);
}

#[test]
fn g9_too_large_resource_fails_before_a_request() {
    let large = "x".repeat(1536 * 1024);
    let mut etcd = Etcd::default();
    let writer = publish(&mut etcd, 1, folder([("small", "1"), ("large", &large)]));
    assert!(writer.requests.is_empty());
    let error = writer.error().to_string();
    let parts = [
        "r/envoy.config.cluster.v3.Cluster/large",
        "1572864",
        "--max-request-bytes",
    ];
    assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    let PublishError::TooLarge { size, limit, .. } = writer.error() else {
        panic!("{error}");
    };
    assert!(size > limit && error.contains(&size.to_string()), "{error}");
}

#[test]
fn g9_largest_resource_is_published() {
    // Given the largest content that is not refused at once:
    let fits = |size: usize| {
        let content = "x".repeat(size);
        let writer = Writer::new(options(1), folder([("a", &*content)]));
        writer.outcome().is_none()
    };
    let limit = 1536 * 1024;
    let (mut low, mut high) = (limit - 4096, limit);
    while high - low > 1 {
        let middle = (low + high) / 2;
        if fits(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    assert!(fits(low) && !fits(high));
    // Then etcd takes it, together with a small one.
    let mut etcd = Etcd::default();
    let wanted = folder([("a", &*"x".repeat(low)), ("b", "1")]);
    assert_eq!(publish(&mut etcd, 1, wanted.clone()).seq(), 1);
    assert_eq!(latest(&etcd, &lane("main")).1, state_of(&wanted));
}

#[test]
fn g15_secrets_need_an_option() {
    let secret: Entry = Place::of_all(ResourceType::SECRET, "key").into();
    let wanted = BTreeMap::from([(secret.clone(), stored(&secret, b"-----BEGIN"))]);
    let wanted = Wanted::State(wanted.into());
    let mut etcd = Etcd::default();
    let writer = publish(&mut etcd, 1, wanted.clone());
    let expected = PublishError::Secrets {
        first: secret,
        count: 1,
    };
    assert_eq!((writer.error(), writer.requests.len()), (&expected, 0));
    assert!(writer.error().to_string().contains("--with-secrets"));
    let allowed = PublishOptions {
        with_secrets: true,
        ..options(2)
    };
    let writer = Writer::new(allowed, wanted).run(&mut etcd);
    assert_eq!(writer.seq(), 1);
    let events = format!(
        "{:?} {:?} {:?}",
        writer.events, writer.requests, writer.machine
    );
    assert!(!events.contains("BEGIN"), "events go to logs: {events}");
}

#[test]
fn g4_newer_format_stops_a_writer() {
    let mut etcd = Etcd::default();
    publish(&mut etcd, 1, folder([("a", "1")]));
    let key = prefix().key(&Key::Format);
    etcd.put(std::str::from_utf8(&key).unwrap(), "2");
    let revision = etcd.revision();
    let writer = publish(&mut etcd, 2, folder([("a", "2")]));
    let error = writer.error().to_string();
    assert!(
        error.contains("format is 2") && error.contains("format 1"),
        "{error}"
    );
    assert_eq!(etcd.revision(), revision);
}

#[test]
fn g27_publish_after_a_restore_needs_accept_restored() {
    // Given a replica that serves publish 120, and a store that went back to publish 1:
    let mut etcd = Etcd::default();
    publish(&mut etcd, 1, folder([("a", "1")]));
    let status = prefix().key(&Key::Status(Segment::replica("r1").unwrap()));
    let status = std::str::from_utf8(&status).unwrap();
    etcd.put(status, r#"{"lanes":{"main":{"seq":120}}}"#);
    let revision = etcd.revision();
    // When a folder is published without the option, then nothing is written.
    let writer = publish(&mut etcd, 2, folder([("a", "2")]));
    let expected = PublishError::WentBack {
        serving: 120,
        store: 1,
    };
    assert_eq!(writer.error(), &expected);
    assert!(
        expected
            .to_string()
            .contains("store went back: serving 120, store has 1")
    );
    assert_eq!(etcd.revision(), revision);
    // With it, replicas follow: the seq is greater than theirs. Also if nothing else changed.
    let accepted = PublishOptions {
        accept_restored: true,
        ..options(3)
    };
    let writer = Writer::new(accepted, folder([("a", "1")])).run(&mut etcd);
    assert_eq!(
        (writer.seq(), latest(&etcd, &lane("main")).0.seq),
        (121, 121)
    );
}
