//! A full database (alarm NOSPACE).

use std::ffi::OsString;

use oxds_server::store::etcd::client::Reason;
use oxds_types::etcd::{
    AlarmAction, AlarmRequest, AlarmType, CompactionRequest, DeleteRangeRequest, prefix_end,
};

use super::Scenario;
use super::shared::{equal, put, read, refused};
use crate::peers::etcd::{Etcd, Release};
use crate::{Context, Fallible};

/// Quota of the database.
const MEGABYTES: usize = 16;

pub(super) fn scenarios(release: Release) -> Vec<Scenario> {
    vec![Scenario::new(
        format!("etcd_{}_g26_full_database_is_repaired", release.name()),
        move |cx| full(cx, release),
    )]
}

async fn full(cx: Context, release: Release) -> Fallible {
    let options: [OsString; 2] = [
        "--quota-backend-bytes".into(),
        (MEGABYTES << 20).to_string().into(),
    ];
    let etcd = Etcd::start(&cx, release, &options).await?;
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
