//! Keys that are changed with `etcdctl`, without a publish (G-14).

use super::shared::{CLUSTERS, Content, InEtcd, put, read};
use super::{SOON, Scenario};
use crate::peers::etcd::{Etcd, Release};
use crate::peers::replica::Replica;
use crate::subscriber::Subscriber;
use crate::wire::Protocol;
use crate::{Context, Fallible};

pub(super) fn scenarios(release: Release) -> Vec<Scenario> {
    vec![Scenario::new(
        format!(
            "etcd_{}_g14_changed_keys_are_named_not_served",
            release.name()
        ),
        move |cx| changed(cx, release),
    )]
}

/// given a published state / when a key is deleted, another one overwritten and a third one added with `etcdctl` / then
/// none is served, and findings name them; a publish fails until `--repair`, which restores the published state, and
/// clients have got nothing.
async fn changed(cx: Context, release: Release) -> Fallible {
    let etcd = Etcd::start(&cx, release, &[]).await?;
    let direct = etcd.connect().await?;
    let urls = etcd.urls();
    let content = Content::new(&cx, "content", &urls)?;
    content.replace(&[("a", "1"), ("b", "1")]).await?;
    let replica = Replica::start(&cx, &urls, "replica").await?;
    let client = Subscriber::start(vec![replica.grpc], Protocol::Delta);
    let all = [("a", "1"), ("b", "1")];
    client.has_only(&all, SOON).await?;
    let mark = client.mark();

    let key = |name: &str| format!("{CLUSTERS}{name}");
    // Bytes of another resource, which etcdctl cannot write: a value that could be served.
    let other = direct.range(read(&key("b"))).await?.kvs.pop();
    let mut copied = put(&key("d"), "");
    copied.value = other.ok_or("no value")?.value;
    direct.put(copied).await?;
    etcd.etcdctl(&["del", &key("a")]).await?;
    etcd.etcdctl(&["put", &key("c"), "no resource"]).await?;
    for name in ["a", "c", "d"] {
        let file = format!("Cluster/{name}\"");
        replica.finds("unpublished", &[&file], SOON).await?;
    }
    let new = Subscriber::start(vec![replica.grpc], Protocol::Sotw);
    new.has_only(&all, SOON).await?;

    content.set(&[("a", "1"), ("b", "2")])?;
    let refused = content.command(&[]).run().await?;
    refused.expect(
        1,
        &["without a publish", "Cluster/a", "--repair", "--adopt"],
    )?;
    client.received_nothing(mark)?;
    content.publish(&["--repair"]).await?;
    client.has_only(&[("a", "1"), ("b", "2")], SOON).await?;
    client.received_once(mark, &[("b", "2")], &[])?;
    replica.finds_no("unpublished", SOON).await?;
    InEtcd::read(&urls).await?.expect(2, &["a", "b"])
}
