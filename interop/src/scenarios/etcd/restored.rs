//! Etcds that lost publishes: restored from a backup, or replaced by another cluster (G-27, G-28, G-29).

use std::time::Duration;

use serde_json::Value;

use super::shared::{Content, InEtcd, count, status_key};
use super::{SOON, Scenario};
use crate::gate::Gate;
use crate::peers::etcd::{Etcd, Release, Setup};
use crate::peers::replica::Replica;
use crate::subscriber::Subscriber;
use crate::wait::until;
use crate::wire::Protocol;
use crate::{Context, Fallible};

/// From a restoration until replicas have connected again.
const RETURN: Duration = Duration::from_secs(60);

pub(super) fn scenarios(release: Release) -> Vec<Scenario> {
    let name = |what| format!("etcd_{}_{what}", release.name());
    let mut scenarios = vec![
        Scenario::new(name("g27_restored_etcd_is_held"), move |cx| {
            held(cx, release, false)
        }),
        Scenario::new(
            name("g28_restored_and_written_etcd_is_followed"),
            move |cx| overtaken(cx, release),
        ),
        Scenario::new(
            name("g29_another_cluster_is_held_then_followed"),
            move |cx| replaced(cx, release),
        ),
    ];
    // etcd 3.4 has no such options.
    if release == Release::Current {
        scenarios.push(Scenario::new(
            name("g27_restored_and_bumped_etcd_is_held"),
            move |cx| held(cx, release, true),
        ));
    }
    scenarios
}

/// given two replicas at publish 3 / when three members are restored from a backup of publish 1 / then the replicas
/// hold, stay ready and report it; a replica that starts then is not ready; a publish fails without
/// `--accept-restored`; with it, all replicas serve it, and clients get only the difference.
async fn held(cx: Context, release: Release, is_bumped: bool) -> Fallible {
    let mut etcd = Etcd::start_three(&cx, release).await?;
    etcd.connect().await?;
    let urls = etcd.urls();
    let content = Content::new(&cx, "content", &urls)?;
    content.replace(&[("a", "1"), ("b", "1")]).await?;
    let backup = cx.dir.join("backup.db");
    etcd.back_up(&backup).await?;
    content.replace(&[("a", "2"), ("b", "1")]).await?;
    content.replace(&[("a", "3"), ("c", "3")]).await?;
    let replicas = [
        Replica::start(&cx, &urls, "replica-0").await?,
        Replica::start(&cx, &urls, "replica-1").await?,
    ];
    for replica in &replicas {
        replica.serves(3, SOON).await?;
    }
    let all = [("a", "3"), ("c", "3")];
    let client = Subscriber::start(vec![replicas[0].grpc], Protocol::Delta);
    client.has_only(&all, SOON).await?;
    let mark = client.mark();

    etcd.restore(&backup, is_bumped).await?;
    let after = etcd.connect().await?;
    for replica in &replicas {
        let text = "store went back: serving 3, store has 1";
        replica.finds("went-back", &[text], RETURN).await?;
        let store = replica.store().await?;
        if store["lanes"][0]["held"] != true || store["lanes"][0]["seq"] != 3 {
            return Err(format!("not held: {store}").into());
        }
        replica.is_ready(true, SOON).await?;
        // Its status key is there again, which a new replica and writers read.
        let key = status_key(&replica.id)?;
        until("the status key", SOON, async || {
            Ok((count(&after, &key).await? == 1).then_some(()))
        })
        .await?;
    }
    let new = Replica::start(&cx, &urls, "new").await?;
    new.finds("went-back", &["serves 3, store has 1"], SOON)
        .await?;
    new.is_ready(false, SOON).await?;

    content.set(&[("a", "3"), ("c", "4")])?;
    let refused = content.command(&["--prune"]).run().await?;
    refused.expect(1, &["store went back", "--accept-restored"])?;
    InEtcd::read(&urls).await?.expect(1, &["a", "b"])?;
    client.received_nothing(mark)?;

    content.publish(&["--prune", "--accept-restored"]).await?;
    for replica in replicas.iter().chain([&new]) {
        replica.serves(4, SOON).await?;
        replica.finds_no("went-back", SOON).await?;
        replica.is_ready(true, SOON).await?;
    }
    client.has_only(&[("a", "3"), ("c", "4")], SOON).await?;
    client.received_once(mark, &[("c", "4")], &[])?;
    InEtcd::read(&urls).await?.expect(4, &["a", "c"])
}

/// given a replica that etcd is away for / when etcd is restored, and then written past the old revision and seq / then
/// the chain of heads reveals it: the replica reads everything again and follows, and its client gets the difference.
async fn overtaken(cx: Context, release: Release) -> Fallible {
    let mut etcd = Etcd::start(&cx, release, &[]).await?;
    etcd.connect().await?;
    let address = etcd.members[0].address;
    let gate = Gate::before(address).await?;
    let content = Content::new(&cx, "content", &etcd.urls())?;
    content.replace(&[("a", "1"), ("b", "1")]).await?;
    let backup = cx.dir.join("backup.db");
    etcd.back_up(&backup).await?;
    content.replace(&[("a", "2"), ("b", "1")]).await?;
    let replica = Replica::start(&cx, &gate.url(), "replica").await?;
    let client = Subscriber::start(vec![replica.grpc], Protocol::Delta);
    client.has_only(&[("a", "2"), ("b", "1")], SOON).await?;
    let (mark, reads) = (client.mark(), replica.store().await?["reads"].as_u64());

    gate.close();
    etcd.restore(&backup, false).await?;
    etcd.connect().await?;
    for text in ["x", "y", "z"] {
        content.replace(&[("a", text), ("b", "1")]).await?;
    }
    gate.open(address);
    replica.serves(4, RETURN).await?;
    let is_read = |store: &Value| store["reads"].as_u64() > reads;
    replica.shows("another read", RETURN, is_read).await?;
    client.has_only(&[("a", "z"), ("b", "1")], SOON).await?;
    client.received_once(mark, &[("a", "z")], &[])?;
    replica.finds_no("went-back", SOON).await
}

/// given a replica at publish 2 / when another cluster answers at the address / then it is held while that has an
/// earlier publish, and followed when it has a later one. No watch is resumed: everything is read.
async fn replaced(cx: Context, release: Release) -> Fallible {
    let etcd = Etcd::start(&cx, release, &[]).await?;
    etcd.connect().await?;
    let setup = Setup {
        name: "other",
        ..Setup::default()
    };
    let other = Etcd::start_as(&cx, release, setup).await?;
    other.connect().await?;
    let gate = Gate::before(etcd.members[0].address).await?;
    let content = Content::new(&cx, "content", &etcd.urls())?;
    content.replace(&[("a", "1"), ("b", "1")]).await?;
    content.replace(&[("a", "2"), ("b", "1")]).await?;
    let foreign = Content::new(&cx, "foreign", &other.urls())?;
    foreign.replace(&[("a", "other"), ("b", "1")]).await?;
    let replica = Replica::start(&cx, &gate.url(), "replica").await?;
    let client = Subscriber::start(vec![replica.grpc], Protocol::Delta);
    client.has_only(&[("a", "2"), ("b", "1")], SOON).await?;
    let (mark, reads) = (client.mark(), replica.store().await?["reads"].as_u64());

    gate.open(other.members[0].address);
    let text = "serving 2, store has 1";
    replica.finds("went-back", &[text], RETURN).await?;
    replica.is_ready(true, SOON).await?;
    client.received_nothing(mark)?;
    // It is stopped, so that it does not see the publishes in between.
    gate.close();
    foreign.set(&[("a", "later"), ("c", "1")])?;
    foreign.publish(&["--prune", "--accept-restored"]).await?;
    foreign.replace(&[("a", "last"), ("b", "1")]).await?;
    gate.open(other.members[0].address);
    let is_read = |store: &Value| store["reads"].as_u64() > reads;
    replica.shows("another read", RETURN, is_read).await?;
    client
        .has_only(&[("a", "last"), ("b", "1")], RETURN)
        .await?;
    client.received_once(mark, &[("a", "last")], &[])?;
    replica.finds_no("went-back", SOON).await
}
