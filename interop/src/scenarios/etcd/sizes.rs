//! Publishes of all sizes are one change set on each replica (G-7).

use std::time::Duration;

use super::shared::{Content, InEtcd};
use super::{SOON, Scenario};
use crate::peers::etcd::{Etcd, Release};
use crate::peers::replica::Replica;
use crate::subscriber::Subscriber;
use crate::wire::Protocol;
use crate::{Context, Fallible};

/// Publishes of this many clusters, each with a text of this many bytes: by number at both limits of a transaction,
/// then by bytes at the limit of a request.
const SIZES: [(usize, usize); 7] = [
    (1, 1),
    (127, 1),
    (128, 1),
    (4_032, 1),
    (4_033, 1),
    (70, 20_000),
    (80, 20_000),
];
/// The large publishes: 8,000 clusters, and 16 MiB.
const LARGE: [(usize, usize); 2] = [(8_000, 1), (168, 100_000)];
/// In their place with the variable [`ALL`]: 100,000 clusters, and 50 MiB. A build for tests needs minutes.
const LARGEST: [(usize, usize); 2] = [(100_000, 1), (525, 100_000)];
/// Variable that asks for the largest publishes.
const ALL: &str = "OXDS_INTEROP_LARGE";
/// Deadline of a publish of the greatest size.
const LONG: Duration = Duration::from_secs(100);

pub(super) fn scenarios(release: Release) -> Vec<Scenario> {
    let name = |what| format!("etcd_{}_{what}", release.name());
    let mut scenarios = vec![Scenario::new(
        name("g7_each_size_is_one_change_set"),
        move |cx| sizes(cx, release, SIZES.to_vec()),
    )];
    // One run: the limits of both releases are the same.
    if release == Release::Current {
        scenarios.push(Scenario::new(
            name("g7_large_publish_is_one_change_set"),
            move |cx| {
                let is_all = std::env::var_os(ALL).is_some();
                let sizes = if is_all { LARGEST } else { LARGE };
                self::sizes(cx, release, sizes.to_vec())
            },
        ));
    }
    scenarios
}

/// given two replicas with a SotW and a delta client / when publishes of all sizes are made / then each replica applies
/// one update per publish; every response of SotW has a whole publish, and delta brings each cluster once.
async fn sizes(cx: Context, release: Release, sizes: Vec<(usize, usize)>) -> Fallible {
    let etcd = Etcd::start(&cx, release, &[]).await?;
    etcd.connect().await?;
    let urls = etcd.urls();
    let content = Content::new(&cx, "content", &urls)?;
    content.set(&[("first", "0")])?;
    content.publish(&[]).await?;
    let replicas = [
        Replica::start(&cx, &urls, "replica-0").await?,
        Replica::start(&cx, &urls, "replica-1").await?,
    ];
    let sotw = Subscriber::start(vec![replicas[0].grpc], Protocol::Sotw);
    let delta = Subscriber::start(vec![replicas[1].grpc], Protocol::Delta);
    sotw.has_only(&[("first", "0")], SOON).await?;
    delta.has_only(&[("first", "0")], SOON).await?;

    let mut totals = vec![1];
    for (seq, (count, bytes)) in (2..).zip(sizes) {
        let mut updates = Vec::new();
        for replica in &replicas {
            updates.push(replica.store().await?["updates"].as_u64());
        }
        let (in_sotw, in_delta) = (sotw.mark(), delta.mark());
        let text = "x".repeat(bytes);
        content.set_all((0..count).map(|n| (format!("p{seq}-{n:06}"), &*text)))?;
        content.publish(&[]).await?;
        let total = totals.last().copied().unwrap_or_default() + count;
        totals.push(total);
        let what = format!("publish {seq} of {count} clusters with {bytes} bytes");
        for client in [&sotw, &delta] {
            client.has(&what, LONG, |has| has.len() == total).await?;
        }
        for (replica, before) in replicas.iter().zip(updates) {
            replica.serves(seq, LONG).await?;
            let after = replica.store().await?["updates"].as_u64();
            if after != before.map(|before| before + 1) {
                let id = &replica.id;
                return Err(format!("{what}: {id} had {before:?} updates, now {after:?}").into());
            }
        }
        // Every response of SotW has all clusters, so its number is that of a publish.
        let seen: Vec<_> = sotw.since(in_sotw).iter().map(|one| one.total).collect();
        if seen != [total] {
            return Err(format!("{what}: SotW had {seen:?} clusters, expected {total}").into());
        }
        let received = delta.since(in_delta);
        let changed: usize = received.iter().map(|one| one.changed.len()).sum();
        if changed != count || received.iter().any(|one| !one.removed.is_empty()) {
            return Err(format!("{what}: delta brought {changed} clusters").into());
        }
        let in_etcd = InEtcd::read(&urls).await?;
        if (in_etcd.seq, in_etcd.names.len(), in_etcd.staged) != (seq, total, 0) {
            let (seq, staged) = (in_etcd.seq, in_etcd.staged);
            return Err(format!("{what}: in etcd seq {seq}, {staged} staged keys").into());
        }
    }
    Ok(())
}
