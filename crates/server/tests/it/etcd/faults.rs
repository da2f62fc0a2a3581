//! Calls that go wrong, and who is to blame.

use oxds_server::store::etcd::client::{Blame, Reason};
use oxds_testkit::etcd::{CallFault, ScriptedEtcd, refusal};
use oxds_types::etcd::{AlarmAction, AlarmRequest, AlarmType, DeleteRangeRequest, RangeRequest};

use super::{SHORT, connect, put, read};

#[tokio::test]
async fn g11_write_that_took_effect_ends_with_unknown_outcome() {
    let etcd = ScriptedEtcd::start().await.unwrap();
    let client = connect(&etcd).await;
    for status in [
        refusal::timed_out(),
        refusal::leader_changed(),
        refusal::no_space(),
    ] {
        etcd.break_call("Put", CallFault::EffectAndError(status.clone()));
        let before = etcd.revision();
        let error = client.put(put("a", "1")).await.unwrap_err();
        assert!(error.is_outcome_unknown(), "{error}");
        assert_eq!(etcd.revision(), before + 1, "{status}: it is not repeated");
    }
    etcd.break_call("Put", CallFault::EffectAndSilence);
    let before = etcd.revision();
    let error = client
        .with_timeout(SHORT)
        .put(put("a", "1"))
        .await
        .unwrap_err();
    assert_eq!(error.reason(), &Reason::Timeout(SHORT));
    assert!(error.is_outcome_unknown());
    assert_eq!(etcd.revision(), before + 1);
}

#[tokio::test]
async fn g20_silent_member_ends_calls_by_their_limit() {
    let etcd = ScriptedEtcd::start().await.unwrap();
    let client = connect(&etcd).await.with_timeout(SHORT);
    etcd.set_silent(true);
    let error = client.range(read("a")).await.unwrap_err();
    assert_eq!(
        (error.reason(), error.blame()),
        (&Reason::Timeout(SHORT), Blame::Member)
    );
    assert_eq!(error.member(), etcd.url());

    // When the member continues, the connection does too
    etcd.set_silent(false);
    let client = client.with_timeout(crate::SOON);
    client.range(read("a")).await.unwrap();
    assert_eq!(etcd.activity().accepted, 1);
}

#[tokio::test]
async fn g24_killed_member_ends_calls_and_the_client() {
    let etcd = ScriptedEtcd::start().await.unwrap();
    let client = connect(&etcd).await;
    etcd.break_call("Range", CallFault::Silence);
    let request = client.range(read("a"));
    let kill = async {
        etcd.reach(|activity| activity.calls.contains_key("Range"))
            .await
            .unwrap();
        etcd.kill();
    };
    let (answer, ()) = tokio::join!(request, kill);
    let error = answer.unwrap_err();
    assert!(
        matches!(error.reason(), Reason::Disconnected(_)),
        "{error:?}"
    );
    assert_eq!(error.blame(), Blame::Member);

    // Then the client does not connect again by itself, whatever answers at the address
    etcd.restart().await.unwrap();
    assert!(!client.is_open());
    let error = client.put(put("a", "1")).await.unwrap_err();
    assert!(
        matches!(error.reason(), Reason::Unreachable(_)),
        "{error:?}"
    );
    assert!(!error.is_outcome_unknown(), "the request was never sent");
    connect(&etcd).await.put(put("a", "1")).await.unwrap();
}

#[tokio::test]
async fn g24_without_quorum_only_local_reads_succeed() {
    let etcd = ScriptedEtcd::start().await.unwrap();
    etcd.put("a", "1");
    let client = connect(&etcd).await;
    etcd.set_leaderless(true);
    for error in [
        client.put(put("a", "2")).await.unwrap_err(),
        client.range(read("a")).await.unwrap_err(),
    ] {
        assert!(
            matches!(error.reason(), Reason::Unavailable(_)),
            "{error:?}"
        );
        assert_eq!(error.blame(), Blame::Member);
    }
    let local = RangeRequest {
        serializable: true,
        ..read("a")
    };
    assert_eq!(client.range(local).await.unwrap().count, 1);
    assert_eq!(client.status().await.unwrap().leader, 0);
}

#[tokio::test]
async fn g26_full_etcd_reads_and_deletes_until_disarmed() {
    let etcd = ScriptedEtcd::start().await.unwrap();
    let client = connect(&etcd).await;
    client.put(put("a", "1")).await.unwrap();
    etcd.set_full(true);

    let error = client.put(put("a", "2")).await.unwrap_err();
    assert_eq!(
        (error.reason(), error.blame()),
        (&Reason::NoSpace, Blame::Operator)
    );
    assert!(error.to_string().contains("disarm"), "{error}");
    assert_eq!(client.range(read("a")).await.unwrap().count, 1);
    let alarm = |action: AlarmAction, member_id: u64, alarm: AlarmType| AlarmRequest {
        action: action.into(),
        member_id,
        alarm: alarm.into(),
    };
    let raised = client
        .alarm(alarm(AlarmAction::Get, 0, AlarmType::None))
        .await
        .unwrap();
    assert_eq!(raised.alarms[0].alarm(), AlarmType::NoSpace);
    let deletion = DeleteRangeRequest {
        key: "a".into(),
        ..DeleteRangeRequest::default()
    };
    assert_eq!(client.delete_range(deletion).await.unwrap().deleted, 1);

    // Only the alarm of the named member is cleared.
    let disarm = |member_id| alarm(AlarmAction::Deactivate, member_id, AlarmType::NoSpace);
    client.alarm(disarm(0)).await.unwrap();
    let error = client.put(put("a", "2")).await.unwrap_err();
    assert_eq!(error.reason(), &Reason::NoSpace);
    client
        .alarm(disarm(raised.alarms[0].member_id))
        .await
        .unwrap();
    client.put(put("a", "2")).await.unwrap();
}

#[tokio::test]
async fn g22_stale_answer_shows_its_older_revision() {
    let etcd = ScriptedEtcd::start().await.unwrap();
    let old = etcd.put("a", "1");
    let new = etcd.put("a", "2");
    let client = connect(&etcd).await;
    etcd.set_stale(Some(old));
    let stale = client.range(read("a")).await.unwrap();
    assert_eq!(
        (stale.header.unwrap().revision, &stale.kvs[0].value[..]),
        (old, &b"1"[..])
    );
    etcd.set_stale(None);
    let fresh = client.range(read("a")).await.unwrap();
    assert_eq!(
        (fresh.header.unwrap().revision, &fresh.kvs[0].value[..]),
        (new, &b"2"[..])
    );
}

#[tokio::test]
async fn g27_restored_etcd_has_a_lower_revision_and_the_same_id() {
    let etcd = ScriptedEtcd::start().await.unwrap();
    let kept = etcd.put("a", "1");
    let backup = etcd.backup();
    etcd.put("a", "2");
    let before = connect(&etcd).await;
    etcd.restore(&backup).await.unwrap();
    let after = connect(&etcd).await;
    assert_eq!(before.identity(), after.identity());
    let read = after.range(read("a")).await.unwrap();
    assert_eq!(
        (read.header.unwrap().revision, &read.kvs[0].value[..]),
        (kept, &b"1"[..])
    );
}

#[tokio::test]
async fn g29_other_cluster_has_another_id() {
    let etcd = ScriptedEtcd::start().await.unwrap();
    etcd.put("a", "1");
    let before = connect(&etcd).await;
    etcd.replace_cluster().await.unwrap();
    let after = connect(&etcd).await;
    assert_ne!(before.identity().cluster, after.identity().cluster);
    assert_eq!(after.range(read("a")).await.unwrap().count, 0);
}
