//! Watches, and their faults (G-21): a test per fault shows that the script does what its name says.

use oxds_server::store::etcd::client::{EtcdClient, Reason, WatchStream};
use oxds_testkit::etcd::{ScriptedEtcd, WatchFault};
use oxds_types::etcd::{
    EventType, Request, TxnRequest, WatchProgressRequest, WatchRequestUnion, WatchResponse,
};

use super::{connect, operation, put, watch};

struct Watched {
    etcd: ScriptedEtcd,
    client: EtcdClient,
    stream: WatchStream,
}

impl Watched {
    async fn start() -> Self {
        let etcd = ScriptedEtcd::start().await.unwrap();
        let client = connect(&etcd).await;
        let (stream, created) = client.watch(watch("/oxds/", 0)).await.unwrap();
        assert!(created.created && !created.canceled);
        Self {
            etcd,
            client,
            stream,
        }
    }

    async fn next(&mut self) -> WatchResponse {
        tokio::time::timeout(crate::SOON, self.stream.next())
            .await
            .unwrap()
            .unwrap()
    }

    /// The revisions of the events of the next response, and whether it is a fragment.
    async fn revisions(&mut self) -> (Vec<i64>, bool) {
        let response = self.next().await;
        let events = response.events.iter().filter_map(|event| event.kv.as_ref());
        (
            events.map(|kv| kv.mod_revision).collect(),
            response.fragment,
        )
    }

    /// Requests progress, and returns the next response, which must be the answer.
    async fn progress(&mut self) -> i64 {
        self.stream
            .send(WatchRequestUnion::Progress(WatchProgressRequest {}));
        let response = self.next().await;
        assert_eq!((response.watch_id, response.events.len()), (-1, 0));
        response.header.unwrap().revision
    }
}

fn two_puts() -> TxnRequest {
    TxnRequest {
        success: vec![
            operation(Request::Put(put("/oxds/a", "1"))),
            operation(Request::Put(put("/oxds/b", "1"))),
        ],
        ..TxnRequest::default()
    }
}

#[tokio::test]
async fn g17_watch_resumes_after_a_revision() {
    let mut watched = Watched::start().await;
    let first = watched.etcd.put("/oxds/a", "1");
    assert_eq!(watched.revisions().await, (vec![first], false));
    watched.etcd.put("/other", "1");
    let second = watched.etcd.delete("/oxds/a");
    let response = watched.next().await;
    assert_eq!(response.events[0].r#type(), EventType::Delete);

    let (mut resumed, _) = watched
        .client
        .watch(watch("/oxds/", first + 1))
        .await
        .unwrap();
    let events = resumed.next().await.unwrap().events;
    assert_eq!(events[0].kv.as_ref().unwrap().mod_revision, second);
}

#[tokio::test]
async fn g19_catch_up_comes_in_marked_fragments() {
    let etcd = ScriptedEtcd::start().await.unwrap();
    for _ in 0..4 {
        etcd.put("/oxds/a", "x".repeat(1 << 20));
    }
    let client = connect(&etcd).await;
    let (mut stream, _) = client.watch(watch("/oxds/", 1)).await.unwrap();
    let mut marks = Vec::new();
    while marks.last() != Some(&false) {
        let response = stream.next().await.unwrap();
        assert_eq!(response.events.len(), 1);
        marks.push(response.fragment);
    }
    assert_eq!(marks, [true, true, true, false]);
}

#[tokio::test]
async fn g18_watch_from_compacted_revision_ends_with_the_first_one() {
    let etcd = ScriptedEtcd::start().await.unwrap();
    etcd.put("/oxds/a", "1");
    let last = etcd.put("/oxds/a", "2");
    etcd.compact(last).unwrap();
    let client = connect(&etcd).await;
    let (mut stream, created) = client.watch(watch("/oxds/", last - 1)).await.unwrap();
    assert_eq!(client.canceled(&created), None);
    let ended = stream.next().await.unwrap();
    let error = client.canceled(&ended).unwrap();
    assert_eq!(error.reason(), &Reason::Compacted { first: Some(last) });
    etcd.reach(|activity| activity.watches == 0).await.unwrap();
}

#[tokio::test]
async fn g20_watch_ends_when_the_member_loses_its_leader() {
    let mut watched = Watched::start().await;
    watched.etcd.set_leaderless(true);
    let error = watched.stream.next().await.unwrap_err();
    assert_eq!(error.reason(), &Reason::NoLeader);
    let error = watched.client.watch(watch("/oxds/", 0)).await.unwrap_err();
    assert_eq!(error.reason(), &Reason::NoLeader);
}

#[tokio::test]
async fn g20_progress_is_answered_with_the_revision() {
    let mut watched = Watched::start().await;
    let revision = watched.etcd.put("/other", "1");
    assert_eq!(watched.progress().await, revision);
}

#[tokio::test]
async fn g21_duplicate_comes_twice() {
    let mut watched = Watched::start().await;
    watched.etcd.break_watch(WatchFault::Duplicate);
    let revision = watched.etcd.put("/oxds/a", "1");
    for _ in 0..2 {
        assert_eq!(watched.revisions().await, (vec![revision], false));
    }
    assert_eq!(watched.progress().await, revision);
}

#[tokio::test]
async fn g21_dropped_event_never_comes() {
    let mut watched = Watched::start().await;
    watched.etcd.break_watch(WatchFault::Drop);
    watched.etcd.put("/oxds/a", "1");
    let second = watched.etcd.put("/oxds/b", "1");
    assert_eq!(watched.revisions().await, (vec![second], false));
}

#[tokio::test]
async fn g21_swapped_events_come_in_the_wrong_order() {
    let mut watched = Watched::start().await;
    watched.etcd.break_watch(WatchFault::Swap);
    let first = watched.etcd.put("/oxds/a", "1");
    let second = watched.etcd.put("/oxds/b", "1");
    assert_eq!(watched.revisions().await, (vec![second], false));
    assert_eq!(watched.revisions().await, (vec![first], false));
}

#[tokio::test]
async fn g21_split_revision_comes_in_fragments() {
    for (fault, mark) in [
        (WatchFault::Split, true),
        (WatchFault::SplitUnmarked, false),
    ] {
        let mut watched = Watched::start().await;
        watched.etcd.break_watch(fault);
        watched.etcd.txn(&two_puts()).unwrap();
        let revision = watched.etcd.revision();
        assert_eq!(watched.revisions().await, (vec![revision], mark));
        assert_eq!(watched.revisions().await, (vec![revision], false));
    }
}

#[tokio::test]
async fn g21_delayed_event_comes_before_progress() {
    let mut watched = Watched::start().await;
    watched.etcd.break_watch(WatchFault::Delay);
    let revision = watched.etcd.put("/oxds/a", "1");
    watched
        .stream
        .send(WatchRequestUnion::Progress(WatchProgressRequest {}));
    watched
        .etcd
        .reach(|activity| activity.progress_requests == 1)
        .await
        .unwrap();
    watched.etcd.release();
    assert_eq!(watched.revisions().await, (vec![revision], false));
    assert_eq!(watched.next().await.watch_id, -1);
}

#[tokio::test]
async fn g21_false_progress_comes_before_the_event() {
    let mut watched = Watched::start().await;
    watched.etcd.break_watch(WatchFault::FalseProgress);
    let revision = watched.etcd.put("/oxds/a", "1");
    assert_eq!(watched.progress().await, revision);
    watched.etcd.release();
    assert_eq!(watched.revisions().await, (vec![revision], false));
}

#[tokio::test]
async fn g21_history_goes_back_in_time() {
    let mut watched = Watched::start().await;
    let first = watched.etcd.put("/oxds/a", "1");
    assert_eq!(watched.revisions().await, (vec![first], false));
    watched.etcd.break_watch(WatchFault::BackInTime);
    let second = watched.etcd.put("/oxds/a", "2");
    assert_eq!(watched.revisions().await, (vec![second], false));
    assert_eq!(watched.revisions().await, (vec![first], false));
}

#[tokio::test]
async fn g21_omitted_deletion_never_comes() {
    let mut watched = Watched::start().await;
    watched.etcd.put("/oxds/a", "1");
    watched.revisions().await;
    watched.etcd.break_watch(WatchFault::OmitDeletes);
    watched.etcd.delete("/oxds/a");
    let after = watched.etcd.put("/oxds/b", "1");
    assert_eq!(watched.revisions().await, (vec![after], false));
}
