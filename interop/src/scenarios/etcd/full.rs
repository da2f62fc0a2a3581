//! A full database (alarm NOSPACE).

use std::ffi::OsString;

use oxds_server::store::etcd::client::Reason;
use oxds_types::etcd::{
    AlarmAction, AlarmRequest, AlarmType, CompactionRequest, DeleteRangeRequest, prefix_end,
};

use serde_json::Value;

use super::shared::{Content, equal, put, read, refused};
use super::{SOON, Scenario};
use crate::peers::etcd::{Etcd, Release};
use crate::peers::replica::Replica;
use crate::subscriber::Subscriber;
use crate::wire::Protocol;
use crate::{Context, Fallible};

/// Quota of the database.
const MEGABYTES: usize = 16;

pub(super) fn scenarios(release: Release) -> Vec<Scenario> {
    let name = |what| format!("etcd_{}_{what}", release.name());
    vec![
        Scenario::new(name("g26_full_database_is_repaired"), move |cx| {
            full(cx, release)
        }),
        Scenario::new(name("g26_replicas_outlive_a_full_database"), move |cx| {
            replicas(cx, release)
        }),
    ]
}

/// Starts a member with the small quota.
async fn small(cx: &Context, release: Release) -> Fallible<Etcd> {
    let options: [OsString; 2] = [
        "--quota-backend-bytes".into(),
        (MEGABYTES << 20).to_string().into(),
    ];
    Etcd::start(cx, release, &options).await
}

/// given a database that fills up / when it has more than half of its quota / then a replica warns, if etcd reports its
/// quota; when it is full, replicas serve, a new one, too, which reports its missing status key; a publish fails with
/// the remedy. After the remedy, publishes arrive and nothing is reported.
async fn replicas(cx: Context, release: Release) -> Fallible {
    let etcd = small(&cx, release).await?;
    let direct = etcd.connect().await?;
    let urls = etcd.urls();
    let content = Content::new(&cx, "content", &urls)?;
    content.replace(&[("a", "1")]).await?;
    let replica = Replica::start(&cx, &urls, "replica").await?;
    let client = Subscriber::start(vec![replica.grpc], Protocol::Delta);
    client.has_only(&[("a", "1")], SOON).await?;
    replica.finds_no("space", SOON).await?;

    let half = i64::try_from(MEGABYTES << 19)?;
    let value = "x".repeat(1 << 18);
    while direct.status().await?.db_size <= half {
        direct.put(put("/full", &value)).await?;
    }
    // Sizes are read once a minute, and by a new replica at once.
    let warned = Replica::start(&cx, &urls, "warned").await?;
    let is_known = |store: &Value| store["space"]["size"].as_u64() > Some((MEGABYTES as u64) << 19);
    let store = warned.shows("the size", SOON, is_known).await?;
    match release {
        Release::Current => {
            equal("quota", &store["space"]["quota"], &(MEGABYTES << 20).into())?;
            let text = "of its quota of 16 MiB";
            warned.finds("space", &[text, "defragment"], SOON).await?;
        }
        // It does not report its quota, so the default counts.
        Release::Debian => {
            equal("quota", &store["space"]["quota"], &(2_u64 << 30).into())?;
            warned.finds_no("space", SOON).await?;
        }
    }

    for number in 0.. {
        match direct.put(put("/full", &value)).await {
            Ok(_) if number > 8 * MEGABYTES => return Err("there is no quota".into()),
            Ok(_) => {}
            Err(error) => {
                equal("reason", error.reason(), &Reason::NoSpace)?;
                break;
            }
        }
    }
    let mark = client.mark();
    content.set(&[("a", "2")])?;
    let refused = content.command(&[]).run().await?;
    refused.expect(
        1,
        &[
            "not published",
            "NOSPACE",
            "compact",
            "defragment",
            "disarm",
        ],
    )?;
    let new = Replica::start(&cx, &urls, "new").await?;
    new.finds("status-key", &["NOSPACE"], SOON).await?;
    new.finds("space", &["NOSPACE", "disarm"], SOON).await?;
    for replica in [&replica, &new] {
        replica.is_ready(true, SOON).await?;
        replica.serves(1, SOON).await?;
        let other = Subscriber::start(vec![replica.grpc], Protocol::Sotw);
        other.has_only(&[("a", "1")], SOON).await?;
    }
    client.received_nothing(mark)?;

    // The remedy, by the commands that operators use.
    let read = direct.range(read("/full")).await?;
    let revision = read.header.unwrap_or_default().revision.to_string();
    etcd.etcdctl(&["compact", &revision]).await?;
    etcd.etcdctl(&["defrag"]).await?;
    etcd.etcdctl(&["alarm", "disarm"]).await?;
    content.publish(&[]).await?;
    client.has_only(&[("a", "2")], SOON).await?;
    client.received_once(mark, &[("a", "2")], &[])?;
    new.serves(2, SOON).await?;
    new.finds_no("status-key", SOON).await
}

async fn full(cx: Context, release: Release) -> Fallible {
    let etcd = small(&cx, release).await?;
    let client = etcd.connect().await?;
    let value = "x".repeat(1 << 20);
    let mut written = 0;
    let error = loop {
        match client.put(put(&format!("/full/{written}"), &value)).await {
            Ok(_) if written > 2 * MEGABYTES => return Err("there is no quota".into()),
            Ok(_) => written += 1,
            Err(error) => break error,
        }
    };
    equal("reason", error.reason(), &Reason::NoSpace)?;

    // Reads and deletions succeed, and the alarm shows.
    equal("read", client.range(read("/full/0")).await?.count, 1)?;
    // An alarm is listed for all members, and cleared only for the given one.
    let alarm = |action: AlarmAction, member_id: u64| AlarmRequest {
        action: action.into(),
        member_id,
        alarm: AlarmType::NoSpace.into(),
    };
    let raised = client.alarm(alarm(AlarmAction::Get, 0)).await?.alarms;
    let raised = raised
        .first()
        .map(|raised| (raised.member_id, raised.alarm()));
    let member = client.identity().member;
    equal("alarm", raised, Some((member, AlarmType::NoSpace)))?;
    let deletion = DeleteRangeRequest {
        key: "/full/".into(),
        range_end: prefix_end(b"/full/").into(),
    };
    let deleted = client.delete_range(deletion).await?;
    let revision = deleted.header.unwrap_or_default().revision;
    refused(
        client.put(put("/a", "1")).await,
        "put after deletion",
        &Reason::NoSpace,
    )?;

    // The steps that the error names.
    let compaction = CompactionRequest {
        revision,
        physical: true,
    };
    client.compact(compaction).await?;
    etcd.etcdctl(&["defrag"]).await?;
    client.alarm(alarm(AlarmAction::Deactivate, member)).await?;
    client.put(put("/a", "1")).await?;
    Ok(())
}
