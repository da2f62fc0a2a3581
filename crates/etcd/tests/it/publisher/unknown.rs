//! Requests whose outcome is unknown, and requests that fail (G-11).

use std::time::Duration;

use oxds_etcd::publisher::{
    FailureKind, PublishError, PublishOptions, PublishOutcome, PublishRequest, Wanted,
};

use super::history::{chain, latest, staged_keys};
use super::rig::{
    Fault, Writer, folder, lane, large, limited, many, publish_limited, send, state_of,
};
use crate::model::Etcd;

fn published() -> Etcd {
    let mut etcd = Etcd::default();
    publish_limited(&mut etcd, 1, folder([("before", "1")]));
    etcd
}

/// Contents of a small and of a large publish.
fn publishes() -> [Wanted; 2] {
    [folder([("a", "1")]), large()]
}

#[test]
fn g11_any_request_of_unknown_outcome_is_applied_once() {
    for wanted in publishes() {
        let steps = publish_limited(&mut published(), 2, wanted.clone())
            .requests
            .len();
        for step in 0..steps {
            for fault in [
                Fault::Unknown(FailureKind::Unknown),
                Fault::Lost(FailureKind::Unknown),
            ] {
                // Given one request whose answer is a timeout, whether or not it took effect:
                let mut etcd = published();
                let mut writer = Writer::new(limited(2), wanted.clone()).steps(&mut etcd, step);
                writer.step(&mut etcd, fault);
                let writer = writer.run(&mut etcd);
                // Then the publish succeeds, and seq has grown by one.
                assert_eq!(writer.seq(), 2, "{fault:?} at {step}");
                assert_eq!(
                    (chain(&etcd, &lane("main")).len(), staged_keys(&etcd)),
                    (2, 0)
                );
                let mut expected = state_of(&folder([("before", "1")]));
                expected.extend(state_of(&wanted));
                assert!(latest(&etcd, &lane("main")).1 == expected);
            }
        }
    }
}

#[test]
fn g11_commit_is_found_below_the_publishes_of_others() {
    for wanted in publishes() {
        let mut etcd = published();
        // Given a commit that took effect, whose answer is lost:
        let mut writer = Writer::new(limited(2), wanted);
        until_commit(&mut writer, &mut etcd, Fault::Unknown(FailureKind::Unknown));
        // When others publish before the writer looks:
        for id in 3..6 {
            publish_limited(&mut etcd, id, folder([("other", &*format!("{id}"))]));
        }
        // Then it finds its publish, and does not publish again.
        let writer = writer.run(&mut etcd);
        assert_eq!(writer.seq(), 2);
        assert_eq!(chain(&etcd, &lane("main")).len(), 5);
    }
}

#[test]
fn g11_lost_commit_is_made_again_on_top_of_others() {
    for wanted in publishes() {
        let mut etcd = published();
        let mut writer = Writer::new(limited(2), wanted.clone());
        until_commit(&mut writer, &mut etcd, Fault::Lost(FailureKind::Unknown));
        publish_limited(&mut etcd, 3, folder([("other", "1")]));
        publish_limited(&mut etcd, 4, folder([("other", "2")]));
        let writer = writer.run(&mut etcd);
        assert_eq!((writer.seq(), staged_keys(&etcd)), (4, 0));
        assert_eq!(chain(&etcd, &lane("main")).len(), 4);
    }
}

/// Does requests up to the commit, which has this fault.
fn until_commit(writer: &mut Writer, etcd: &mut Etcd, fault: Fault) {
    loop {
        // The commit is the first request that changes the head, so it is tried on a copy of the store.
        let mut copy = etcd.clone();
        let request = writer.next_request().expect("a request before the commit");
        send(&mut copy, request).ok();
        let is_commit = latest(&copy, &lane("main")).0.seq > latest(etcd, &lane("main")).0.seq;
        writer.answer(etcd, if is_commit { fault } else { Fault::None });
        if is_commit {
            return;
        }
    }
}

#[test]
fn g11_unknown_outcome_after_compaction_is_reported() {
    let mut etcd = published();
    let mut writer = Writer::new(limited(2), folder([("a", "1")]));
    until_commit(&mut writer, &mut etcd, Fault::Unknown(FailureKind::Unknown));
    publish_limited(&mut etcd, 3, folder([("other", "1")]));
    publish_limited(&mut etcd, 4, folder([("other", "2")]));
    etcd.compact(etcd.revision());
    let writer = writer.run(&mut etcd);
    assert!(
        matches!(writer.error(), PublishError::OutcomeUnknown { .. }),
        "{}",
        writer.error()
    );
}

#[test]
fn g11_no_space_is_reported_unless_the_publish_is_there() {
    for wanted in publishes() {
        // Given a full database:
        let mut etcd = published();
        etcd.no_space = true;
        let writer = publish_limited(&mut etcd, 2, wanted.clone());
        assert!(matches!(writer.error(), PublishError::Etcd(reason) if reason.contains("NoSpace")));
        assert_eq!(
            (latest(&etcd, &lane("main")).0.seq, staged_keys(&etcd)),
            (1, 0)
        );
        // Given an answer NOSPACE to a commit that took effect:
        let mut etcd = published();
        let mut writer = Writer::new(limited(2), wanted);
        until_commit(&mut writer, &mut etcd, Fault::Unknown(FailureKind::NoSpace));
        assert_eq!(writer.run(&mut etcd).seq(), 2);
        assert_eq!(
            (chain(&etcd, &lane("main")).len(), staged_keys(&etcd)),
            (2, 0)
        );
    }
}

/// given one or three members / when requests fail / then the delay doubles when each member was asked, up to 2 s.
#[test]
fn g11_delays_grow_after_each_round_of_the_members() {
    for (members, expected) in [
        (1, [100, 200, 400, 800, 1600, 2000, 2000]),
        (3, [100, 100, 100, 200, 200, 200, 400]),
    ] {
        let mut etcd = published();
        let options = PublishOptions {
            members,
            ..limited(2)
        };
        let mut writer = Writer::new(options, folder([("a", "1")]));
        let delays = expected.map(|_| {
            assert!(writer.step(&mut etcd, Fault::Lost(FailureKind::Unknown)));
            let until = writer.machine.poll_timeout().expect("a delay");
            (until - writer.now).as_millis()
        });
        assert_eq!(delays, expected, "{members} members");
    }
}

#[test]
fn g11_etcd_that_is_away_is_given_up_after_a_time() {
    let mut etcd = published();
    let give_up_after = Duration::from_secs(30);
    let mut writer = Writer::new(
        PublishOptions {
            give_up_after,
            ..limited(2)
        },
        folder([("a", "1")]),
    );
    while writer.step(&mut etcd, Fault::Lost(FailureKind::Unknown)) {}
    assert_eq!(writer.error(), &PublishError::Etcd("lost".into()));
    let waited = writer.now.since_epoch();
    assert!(
        waited >= give_up_after && waited < give_up_after * 2,
        "{waited:?}"
    );
    assert!(
        writer.requests.len() < 40,
        "{} requests",
        writer.requests.len()
    );
}

#[test]
fn g11_write_without_an_answer_is_looked_for_soon() {
    // Given members that answer reads, and lose each commit, as followers of a dead leader do:
    let mut etcd = published();
    let mut writer = Writer::new(limited(2), folder([("a", "1")]));
    let mut limits = Vec::new();
    while limits.len() < 3 {
        let request = writer.next_request().expect("a request");
        let limit = writer.machine.answer_limit();
        assert_eq!(
            limit.is_some(),
            matches!(request, PublishRequest::Txn(_)),
            "{request:?}: only writes get lost this way"
        );
        limits.extend(limit);
        let fault = match limit {
            Some(_) => Fault::Lost(FailureKind::Unknown),
            None => Fault::None,
        };
        writer.answer(&mut etcd, fault);
        assert_eq!(writer.machine.answer_limit(), None, "nothing is asked");
    }
    assert_eq!(limits, [1, 2, 4].map(Duration::from_secs));
    // When the next one is answered, then the publish succeeds.
    assert_eq!(writer.run(&mut etcd).seq(), 2);
}

#[test]
fn g11_publish_that_cannot_be_moved_is_a_success() {
    // Given a large publish, when etcd is away after its commit:
    let mut etcd = published();
    let mut writer = Writer::new(limited(2), large());
    while latest(&etcd, &lane("main")).0.seq == 1 {
        writer.step(&mut etcd, Fault::None);
    }
    while writer.step(&mut etcd, Fault::Lost(FailureKind::Unknown)) {}
    // Then the publish took effect, and the rest is left to the next writer.
    let PublishOutcome::Published {
        seq: 2,
        unfinished: Some(reason),
        ..
    } = writer.success()
    else {
        panic!("{:?}", writer.success());
    };
    assert_eq!(reason, "lost");
    publish_limited(&mut etcd, 3, folder([("after", "1")]));
    assert_eq!(staged_keys(&etcd), 0);
    assert_eq!(chain(&etcd, &lane("main")).len(), 3);
}

#[test]
fn refused_request_fails_without_a_retry() {
    let steps = publish_limited(&mut published(), 2, folder([("a", "1")]))
        .requests
        .len();
    for step in 0..steps {
        let mut etcd = published();
        let mut writer = Writer::new(limited(2), folder([("a", "1")])).steps(&mut etcd, step);
        writer.step(&mut etcd, Fault::Lost(FailureKind::Refused));
        assert_eq!(
            writer.error(),
            &PublishError::Etcd("lost".into()),
            "at {step}"
        );
        assert_eq!(latest(&etcd, &lane("main")).0.seq, 1);
    }
}

#[test]
fn read_of_a_compacted_revision_begins_again() {
    // Given a read of several pages, when its revision is compacted in the middle:
    let mut etcd = Etcd::default();
    publish_limited(&mut etcd, 1, many(1_000, "1"));
    let mut writer = Writer::new(limited(2), folder([("a", "1")])).steps(&mut etcd, 2);
    publish_limited(&mut etcd, 3, folder([("other", "1")]));
    etcd.compact(etcd.revision());
    // Then the writer reads everything again.
    while writer.step(&mut etcd, Fault::None) {}
    assert_eq!(writer.seq(), 3);
    assert_eq!(latest(&etcd, &lane("main")).1.len(), 1_002);
}
