//! Reads, writes, transactions and leases.

use oxds_server::store::etcd::client::Reason;
use oxds_types::etcd::{
    CompactionRequest, LeaseGrantRequest, LeaseRevokeRequest, PutRequest, RangeRequest, Request,
};

use super::shared::{equal, put, read, refused, transaction};
use super::{SOON, Scenario};
use crate::peers::etcd::{Etcd, Release};
use crate::wait::until;
use crate::{Context, Fallible};

pub(super) fn scenarios(release: Release) -> Vec<Scenario> {
    let name = |what| format!("etcd_{}_{what}", release.name());
    vec![
        Scenario::new(name("g16_pages_are_read_at_one_revision"), move |cx| {
            pages(cx, release)
        }),
        Scenario::new(name("g7_g9_limits_of_requests"), move |cx| {
            limits(cx, release)
        }),
        Scenario::new(name("g37_leases_end"), move |cx| leases(cx, release)),
    ]
}

async fn pages(cx: Context, release: Release) -> Fallible {
    let etcd = Etcd::start(&cx, release, &[]).await?;
    let client = etcd.connect().await?;
    let version = &client.identity().version;
    if !version.starts_with(release.version()) {
        return Err(format!(
            "the peer is etcd {version}, expected {}…",
            release.version()
        )
        .into());
    }
    for number in 0..25 {
        client.put(put(&format!("/k/{number:02}"), "old")).await?;
    }
    let mut page = RangeRequest {
        limit: 10,
        ..read("/k/")
    };
    let mut keys = Vec::new();
    loop {
        let answer = client.range(page.clone()).await?;
        let revision = answer.header.unwrap_or_default().revision;
        keys.extend(answer.kvs);
        let Some(last) = keys.last().filter(|_| answer.more) else {
            break;
        };
        page.key = [&last.key[..], b"\0"].concat().into();
        page.revision = if page.revision == 0 {
            revision
        } else {
            page.revision
        };
        // A change between two pages is not in the next one.
        client.put(put("/k/24", "new")).await?;
        client.put(put("/k/25", "new")).await?;
    }
    let is_old = keys.iter().all(|kv| &kv.value[..] == b"old");
    equal("pages", (keys.len(), is_old), (25, true))?;

    let now = client.range(read("/k/")).await?;
    let revision = now.header.unwrap_or_default().revision;
    let compaction = CompactionRequest {
        revision,
        physical: true,
    };
    client.compact(compaction).await?;
    let compacted = Reason::Compacted { first: None };
    refused(
        client.range(page).await,
        "read of compacted revision",
        &compacted,
    )?;
    refused(
        client.compact(compaction).await,
        "second compaction",
        &compacted,
    )?;
    let future = RangeRequest {
        revision: revision + 1,
        ..read("/k/")
    };
    refused(
        client.range(future).await,
        "future",
        &Reason::FutureRevision,
    )
}

async fn limits(cx: Context, release: Release) -> Fallible {
    let etcd = Etcd::start(&cx, release, &[]).await?;
    let client = etcd.connect().await?;
    let nested = |outer: usize, inner: usize| {
        let key = |group: usize, key: usize| format!("/n/{group}/{key}");
        transaction((0..outer).map(|group| {
            let puts = (0..inner).map(|number| Request::Put(put(&key(group, number), "v")));
            Request::Txn(transaction(puts))
        }))
    };
    let done = client.txn(nested(64, 64)).await?;
    let revision = done.header.unwrap_or_default().revision;
    let all = client.range(read("/n/")).await?;
    equal("nested writes", all.count, 4096)?;
    let is_one = all.kvs.iter().all(|kv| kv.mod_revision == revision);
    equal("one revision", is_one, true)?;
    for (outer, inner) in [(64, 65), (65, 64)] {
        let answer = client.txn(nested(outer, inner)).await;
        refused(answer, "too many operations", &Reason::TooManyOperations)?;
    }
    let twice = ["1", "2"].map(|value| Request::Put(put("/n/a", value)));
    refused(
        client.txn(transaction(twice)).await,
        "twice",
        &Reason::DuplicateKey,
    )?;
    client.put(put("/large", &"x".repeat(1_400_000))).await?;
    // Over etcd's own limit, and over that of its gRPC server.
    for size in [1_600_000, 4_000_000] {
        let answer = client.put(put("/large", &"x".repeat(size))).await;
        refused(answer, "too large", &Reason::RequestTooLarge)?;
    }
    Ok(())
}

async fn leases(cx: Context, release: Release) -> Fallible {
    let etcd = Etcd::start(&cx, release, &[]).await?;
    let client = etcd.connect().await?;
    let grant = LeaseGrantRequest { ttl: 2, id: 0 };
    let lease = client.lease_grant(grant).await?.id;
    let leased = |key| PutRequest {
        lease,
        ..put(key, "alive")
    };
    client.put(leased("/x/1")).await?;
    client.lease_keeper(lease).await?.renew().await?;
    until("the end of the lease", SOON, async || {
        let left = client.range(read("/x/")).await?.count;
        Ok((left == 0).then_some(()))
    })
    .await?;
    let ended = Reason::LeaseNotFound;
    refused(client.lease_keeper(lease).await, "renewal", &ended)?;
    refused(client.put(leased("/x/2")).await, "put", &ended)?;
    let revoke = LeaseRevokeRequest { id: lease };
    refused(client.lease_revoke(revoke).await, "revocation", &ended)
}
