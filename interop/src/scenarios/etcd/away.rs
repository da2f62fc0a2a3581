//! Etcd is away, in part or as a whole, and its members stand still (G-18, G-20, G-24, G-25).

use std::time::Duration;

use oxds_types::etcd::CompactionRequest;

use super::shared::{Content, InEtcd};
use super::{SOON, Scenario};
use crate::gate::Gate;
use crate::peers::etcd::{Etcd, Member, Release};
use crate::peers::replica::Replica;
use crate::process::Signal;
use crate::subscriber::Subscriber;
use crate::wire::Protocol;
use crate::{Context, Fallible};

/// From the death of a leader until the others have one, and a replica has found it.
const ELECTION: Duration = Duration::from_secs(60);

pub(super) fn scenarios(release: Release) -> Vec<Scenario> {
    let name = |what| format!("etcd_{}_{what}", release.name());
    vec![
        Scenario::new(name("g24_quorum_is_lost_and_returns"), move |cx| {
            quorum(cx, release)
        }),
        Scenario::new(name("g24_g25_replicas_outlive_etcd"), move |cx| {
            away(cx, release)
        }),
        Scenario::new(name("g20_stopped_member_is_left"), move |cx| {
            stopped(cx, release)
        }),
        Scenario::new(name("g18_compaction_while_away_is_followed"), move |cx| {
            compacted(cx, release)
        }),
    ]
}

/// given three members / when two of them die / then the replica keeps serving, shows that it is not connected, and a
/// publish fails; when one returns, the next publish arrives, and the client gets nothing else.
async fn quorum(cx: Context, release: Release) -> Fallible {
    let mut etcd = Etcd::start_three(&cx, release).await?;
    etcd.connect().await?;
    let content = Content::new(&cx, "content", &etcd.urls())?;
    content.replace(&[("a", "1"), ("b", "1")]).await?;
    let replica = Replica::start(&cx, &etcd.urls(), "replica").await?;
    let client = Subscriber::start(vec![replica.grpc], Protocol::Delta);
    client.has_only(&[("a", "1"), ("b", "1")], SOON).await?;

    let mark = client.mark();
    for member in &mut etcd.members[..2] {
        member.kill().await?;
    }
    let is_away = |store: &serde_json::Value| store["connected"] == false;
    let store = replica.shows("no quorum", ELECTION, is_away).await?;
    if store["cause"].is_null() || store["lanes"][0]["seq"] != 1 {
        return Err(format!("no cause, or no seq: {store}").into());
    }
    replica.is_ready(true, SOON).await?;
    content.set(&[("a", "2"), ("b", "1")])?;
    content
        .command(&[])
        .run()
        .await?
        .expect(1, &["not published"])?;
    // A new client is served, too.
    let new = Subscriber::start(vec![replica.grpc], Protocol::Sotw);
    new.has_only(&[("a", "1"), ("b", "1")], SOON).await?;
    client.received_nothing(mark)?;

    etcd.members[0].restart()?;
    replica.serves(1, ELECTION).await?;
    content.publish(&[]).await?;
    client.has_only(&[("a", "2"), ("b", "1")], SOON).await?;
    client.received_once(mark, &[("a", "2")], &[])?;
    InEtcd::read(&etcd.urls()).await?.expect(2, &["a", "b"])
}

/// given a replica, and another one with a state on disk / when all of etcd is away / then both serve, the second one
/// after a restart, too, marked as stale; a third one without a state is not ready, its client waits, and its log has
/// the cause. When etcd returns, clients get only the difference.
async fn away(cx: Context, release: Release) -> Fallible {
    let mut etcd = Etcd::start_three(&cx, release).await?;
    etcd.connect().await?;
    let urls = etcd.urls();
    let content = Content::new(&cx, "content", &urls)?;
    content.replace(&[("a", "1"), ("b", "1")]).await?;
    let all = [("a", "1"), ("b", "1")];
    let replica = Replica::start(&cx, &urls, "replica").await?;
    let mut kept = Replica::with_state(&cx, &urls, "kept").await?;
    let client = Subscriber::start(vec![replica.grpc], Protocol::Delta);
    let returning = Subscriber::start(vec![kept.grpc], Protocol::Delta);
    client.has_only(&all, SOON).await?;
    returning.has_only(&all, SOON).await?;
    let is_saved = |store: &serde_json::Value| {
        store["state"]["saves"].as_u64() > Some(0) && store["state"]["unsaved_seconds"].is_null()
    };
    kept.shows("a saved state", SOON, is_saved).await?;

    let marks = (client.mark(), returning.mark());
    etcd.kill().await?;
    let is_away = |store: &serde_json::Value| store["connected"] == false;
    replica.shows("etcd is away", SOON, is_away).await?;
    replica.is_ready(true, SOON).await?;
    kept.kill().await?;
    kept.restart().await?;
    kept.is_ready(true, SOON).await?;
    let is_stale = |store: &serde_json::Value| store["stale"]["age_seconds"].is_number();
    kept.shows("the age of its state", SOON, is_stale).await?;
    for served in [&replica, &kept] {
        let new = Subscriber::start(vec![served.grpc], Protocol::Sotw);
        new.has_only(&all, SOON).await?;
    }
    let empty = Replica::start(&cx, &urls, "empty").await?;
    let waiting = Subscriber::start(vec![empty.grpc], Protocol::Delta);
    empty.is_ready(false, SOON).await?;
    empty.logs(&["WARN", "etcd", "cause="], SOON).await?;
    if waiting.mark() != 0 {
        return Err("a replica without a state has answered".into());
    }

    etcd.restart()?;
    waiting.has_only(&all, ELECTION).await?;
    for replica in [&replica, &kept, &empty] {
        replica.serves(1, ELECTION).await?;
    }
    let is_fresh = |store: &serde_json::Value| store["stale"].is_null();
    kept.shows("a current state", SOON, is_fresh).await?;
    content.replace(&[("a", "2")]).await?;
    for (client, mark) in [(&client, marks.0), (&returning, marks.1)] {
        client.has_only(&[("a", "2")], SOON).await?;
        // A client that reconnects with its versions may get an empty response.
        let received = client.since(mark);
        let more = received
            .iter()
            .filter(|one| !one.changed.is_empty() || !one.removed.is_empty());
        let more: Vec<_> = more.collect();
        let [one] = more.as_slice() else {
            return Err(format!("received {more:?}, expected the difference").into());
        };
        if one.changed.len() != 1 || one.removed != ["b"] {
            return Err(format!("received {one:?}, expected the difference").into());
        }
    }
    Ok(())
}

/// given a replica / when the member that it uses is stopped by SIGSTOP / then it uses another one, status and log name
/// it, and the next publish arrives.
async fn stopped(cx: Context, release: Release) -> Fallible {
    let mut etcd = Etcd::start_three(&cx, release).await?;
    etcd.connect().await?;
    let urls = etcd.urls();
    let content = Content::new(&cx, "content", &urls)?;
    content.replace(&[("a", "1")]).await?;
    let replica = Replica::start(&cx, &urls, "replica").await?;
    let client = Subscriber::start(vec![replica.grpc], Protocol::Delta);
    client.has_only(&[("a", "1")], SOON).await?;
    let mark = client.mark();
    let used = replica.store().await?["member"].clone();
    let member = etcd.members.iter_mut().find(|member| used == member.url());
    let member = member.ok_or("the replica names no member")?;
    let stopped = member.url();
    member.signal(Signal::Stop).await?;
    let has_left = |store: &serde_json::Value| {
        store["connected"] == true && store["member"].is_string() && store["member"] != used
    };
    replica.shows("another member", ELECTION, has_left).await?;
    replica
        .logs(&["etcd connection failed", &stopped], SOON)
        .await?;
    // The writer would try the stopped member for as long.
    let rest = etcd.members.iter().map(Member::url);
    let rest: Vec<_> = rest.filter(|url| *url != stopped).collect();
    let writer = Content::new(&cx, "content", &rest.join(","))?;
    writer.replace(&[("a", "2")]).await?;
    client.has_only(&[("a", "2")], ELECTION).await?;
    client.received_once(mark, &[("a", "2")], &[])?;
    for member in &mut etcd.members {
        member.signal(Signal::Continue).await?;
    }
    replica.serves(2, ELECTION).await
}

/// given a replica without a connection to etcd / when publishes with a removal are made and compacted / then the
/// replica reads everything, and its client gets exactly the difference.
async fn compacted(cx: Context, release: Release) -> Fallible {
    let etcd = Etcd::start(&cx, release, &[]).await?;
    let direct = etcd.connect().await?;
    let gate = Gate::before(etcd.members[0].address).await?;
    let content = Content::new(&cx, "content", &etcd.urls())?;
    content
        .replace(&[("a", "1"), ("b", "1"), ("c", "1")])
        .await?;
    let replica = Replica::start(&cx, &gate.url(), "replica").await?;
    let client = Subscriber::start(vec![replica.grpc], Protocol::Delta);
    client
        .has_only(&[("a", "1"), ("b", "1"), ("c", "1")], SOON)
        .await?;
    let (mark, reads) = (client.mark(), replica.store().await?["reads"].as_u64());

    gate.close();
    let is_away = |store: &serde_json::Value| store["connected"] == false;
    replica.shows("etcd is away", SOON, is_away).await?;
    content.replace(&[("a", "2"), ("c", "1")]).await?;
    content.replace(&[("a", "3"), ("c", "1")]).await?;
    let revision = direct
        .range(super::shared::read(super::shared::HEAD))
        .await?;
    let compaction = CompactionRequest {
        revision: revision.header.unwrap_or_default().revision,
        physical: true,
    };
    direct.compact(compaction).await?;
    gate.open(etcd.members[0].address);
    replica.serves(3, ELECTION).await?;
    client.has_only(&[("a", "3"), ("c", "1")], SOON).await?;
    client.received_once(mark, &[("a", "3")], &["b"])?;
    let again = replica.store().await?["reads"].as_u64();
    if again == reads.map(|reads| reads + 1) {
        Ok(())
    } else {
        Err(format!("{reads:?} reads, then {again:?}: expected one more").into())
    }
}
