//! Watches: resumption, fragments, progress, compaction.

use oxds_server::store::etcd::client::{EtcdClient, Reason, WatchStream};
use oxds_types::etcd::{CompactionRequest, WatchProgressRequest, WatchRequestUnion, WatchResponse};
use tokio::time::timeout;

use super::shared::{equal, put, watch};
use super::{SOON, Scenario};
use crate::peers::etcd::{Etcd, Release};
use crate::{Context, Fallible};

/// Size of the values that a watch catches up with.
const MEGABYTE: usize = 1 << 20;

pub(super) fn scenarios(release: Release) -> Vec<Scenario> {
    let name = |what| format!("etcd_{}_{what}", release.name());
    vec![
        Scenario::new(name("g17_g19_watch_resumes_in_fragments"), move |cx| {
            resumed(cx, release)
        }),
        Scenario::new(name("g18_compacted_watch_has_first_revision"), move |cx| {
            compacted(cx, release)
        }),
    ]
}

async fn next(stream: &mut WatchStream) -> Fallible<WatchResponse> {
    Ok(timeout(SOON, stream.next()).await??)
}

async fn resumed(cx: Context, release: Release) -> Fallible {
    let etcd = Etcd::start(&cx, release, &[]).await?;
    let client = etcd.connect().await?;
    let first = revision(&client, "start").await?;
    let value = "x".repeat(MEGABYTE);
    for _ in 0..20 {
        client.put(put("/w/a", &value)).await?;
    }
    let (mut stream, created) = client.watch(watch("/w/", first + 1)).await?;
    equal(
        "created",
        (created.created, created.canceled),
        (true, false),
    )?;
    let (mut revisions, mut largest, mut fragments) = (Vec::new(), 0, 0);
    while revisions.len() < 20 {
        let response = next(&mut stream).await?;
        let events = response.events.iter().filter_map(|event| event.kv.as_ref());
        let bytes: usize = events.clone().map(|kv| kv.value.len()).sum();
        largest = largest.max(bytes);
        fragments += usize::from(response.fragment);
        revisions.extend(events.map(|kv| kv.mod_revision));
    }
    equal("revisions", revisions, (first + 1..=first + 20).collect())?;
    if largest > 2 * MEGABYTE || fragments == 0 {
        return Err(format!("{fragments} fragments, the largest of {largest} bytes").into());
    }

    // Progress comes without a change of the watched keys. etcd 3.4 answers it before the watch is synced.
    let last = revision(&client, "end").await?;
    stream.send(WatchRequestUnion::Progress(WatchProgressRequest {}));
    let progress = next(&mut stream).await?;
    let reached = progress.header.unwrap_or_default().revision;
    equal(
        "progress",
        (progress.watch_id, progress.events.len()),
        (-1, 0),
    )?;
    equal("revision of the progress", reached, last)
}

/// Writes a key outside of the watched ones, and returns the revision.
async fn revision(client: &EtcdClient, value: &str) -> Fallible<i64> {
    let answer = client.put(put("/other", value)).await?;
    Ok(answer.header.unwrap_or_default().revision)
}

async fn compacted(cx: Context, release: Release) -> Fallible {
    let etcd = Etcd::start(&cx, release, &[]).await?;
    let client = etcd.connect().await?;
    client.put(put("/w/a", "1")).await?;
    let last = revision(&client, "end").await?;
    let compaction = CompactionRequest {
        revision: last,
        physical: true,
    };
    client.compact(compaction).await?;
    let (mut stream, created) = client.watch(watch("/w/", last - 1)).await?;
    equal("created", client.canceled(&created).is_some(), false)?;
    let ended = next(&mut stream).await?;
    let reason = client.canceled(&ended);
    let reason = reason.as_ref().map(|error| error.reason().clone());
    equal(
        "reason",
        reason,
        Some(Reason::Compacted { first: Some(last) }),
    )
}
