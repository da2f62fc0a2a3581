//! Publishes of any size are one change (G-7).

use oxds_etcd::publisher::{PublishOptions, PublishRequest, Wanted};
use oxds_types::etcd::{Request, RequestOp, TxnRequest};

use super::history::{chain, latest, served, staged_keys};
use super::rig::{Writer, folder, lane, many, options, publish, state_of};
use crate::model::Etcd;

/// Returns whether a request put a staged key.
fn is_staged(writer: &Writer) -> bool {
    writer
        .requests
        .iter()
        .any(|request| matches!(request, PublishRequest::Grant(_)))
}

#[test]
fn g7_publish_of_any_number_is_one_change() {
    for (count, staged) in [
        (1, false),
        (126, false),
        (127, false),
        (128, false),
        (4_032, false),
        (4_033, true),
    ] {
        // Given a published state, when this number of entries changes:
        let mut etcd = Etcd::default();
        publish(&mut etcd, 1, many(4_100, "1"));
        let mut after = state_of(&many(4_100, "1"));
        after.extend(state_of(&many(count, "2")));
        let writer = publish(&mut etcd, 2, many(count, "2"));
        // Then at each revision the old or the new state is published, and nothing in between.
        let chain = chain(&etcd, &lane("main"));
        let states: Vec<_> = chain.iter().map(|link| &link.state).collect();
        assert!(
            states == [&state_of(&many(4_100, "1")), &after],
            "{count} changes"
        );
        assert_eq!(
            (writer.seq(), is_staged(&writer), staged_keys(&etcd)),
            (2, staged, 0),
            "{count}"
        );
    }
}

#[test]
fn g7_small_publish_has_one_write() {
    let mut etcd = Etcd::default();
    publish(&mut etcd, 1, many(4_032, "1"));
    for (count, ops) in [(127, 128), (128, 3), (4_032, 64)] {
        let revision = etcd.revision();
        let content = format!("{count}");
        let writer = publish(&mut etcd, count as u128, many(count, &content));
        assert_eq!(etcd.revision(), revision + 1, "one revision");
        let commit = writer
            .requests
            .iter()
            .rev()
            .find_map(|request| match request {
                PublishRequest::Txn(txn) => Some(txn),
                _ => None,
            });
        let TxnRequest { success, .. } = commit.expect("a commit");
        assert_eq!(success.len(), ops, "{count} changes: {}", kinds(success));
    }
}

fn kinds(operations: &[RequestOp]) -> String {
    let nested = operations
        .iter()
        .filter(|op| matches!(op.request, Some(Request::Txn(_))))
        .count();
    format!("{nested} nested")
}

#[test]
fn g7_publish_of_100_000_changes_is_one_change() {
    // Given a published state, when 100,000 entries are added:
    let mut etcd = Etcd::default();
    let before = folder([("before", "1")]);
    publish(&mut etcd, 1, before.clone());
    let wanted = many(100_000, "1");
    let start = etcd.revision() + 1;
    let writer = publish(&mut etcd, 2, wanted.clone());
    assert_eq!((writer.seq(), staged_keys(&etcd)), (2, 0));
    // Then a replica that reads between the batches of the stage, or between the moves, sees none or all of them.
    let revisions: Vec<i64> = etcd.events(start).map(|(revision, _)| revision).collect();
    assert!(revisions.len() > 50, "{} revisions", revisions.len());
    let publish_at = |at: usize| served(&etcd, &lane("main"), revisions[at]).expect("a head");
    assert_eq!(publish_at(revisions.len() / 4).1, state_of(&before));
    let (head, state) = publish_at(revisions.len() * 3 / 4);
    assert!(head.staged.is_some() && state.len() == 100_001);
    let (head, state) = latest(&etcd, &lane("main"));
    assert!(head.staged.is_none() && state.len() == 100_001);
}

#[test]
fn g7_removal_of_any_number_is_one_change() {
    let mut etcd = Etcd::default();
    publish(&mut etcd, 1, many(4_033, "1"));
    let options = PublishOptions {
        prune: true,
        ..options(2)
    };
    let writer = Writer::new(options, folder([])).run(&mut etcd);
    assert_eq!(
        (writer.seq(), is_staged(&writer), staged_keys(&etcd)),
        (2, true, 0)
    );
    let chain = chain(&etcd, &lane("main"));
    assert_eq!((chain.len(), chain[1].state.len()), (2, 0));
}

#[test]
fn g7_publish_of_any_size_is_one_change() {
    let mib = |tenths: usize| tenths * 1024 * 1024 / 10;
    for (size, value, staged) in [
        (mib(14) - 8_000, 50_000, false),
        (mib(16), 50_000, true),
        (mib(500), 500_000, true),
    ] {
        let content = "x".repeat(value);
        let wanted: Wanted = many(size / value, &content);
        let mut etcd = Etcd::default();
        publish(&mut etcd, 1, folder([("before", "1")]));
        let writer = publish(&mut etcd, 2, wanted.clone());
        assert_eq!(
            (writer.seq(), is_staged(&writer), staged_keys(&etcd)),
            (2, staged, 0),
            "{size} bytes"
        );
        let (_, state) = latest(&etcd, &lane("main"));
        assert_eq!(state.len(), size / value + 1);
        assert!(
            state_of(&wanted)
                .iter()
                .all(|(entry, stored)| state.get(entry) == Some(stored))
        );
    }
}
