//! A replica that joins under load: clients move to it, and none of them notices (G-39).

use super::shared::Content;
use super::{SOON, Scenario};
use crate::backend::Backend;
use crate::peers::etcd::{Etcd, Release};
use crate::peers::replica::Replica;
use crate::scenarios::clients::{Clients, mesh};
use crate::subscriber::{Clusters, Subscriber};
use crate::wait::until;
use crate::wire::{Protocol, Wire};
use crate::{Context, Fallible};

/// Clients in addition to those in four languages. With fewer, replicas do not move clients.
const SUBSCRIBERS: usize = 24;
/// Fewest clients of the replica that joined at the end: within 20 % of the mean of both.
const SHARE: u64 = 11;
/// Calls of each client after the last move.
const CALLS: usize = 60;

pub(super) fn scenarios(release: Release) -> Vec<Scenario> {
    vec![Scenario::new(
        format!("etcd_{}_g39_clients_move_to_a_new_replica", release.name()),
        move |cx| join(cx, release),
    )]
}

/// given one replica with all clients: Envoy, gRPC in three languages, our channel, and subscribers / when a second one
/// joins / then clients move to it until it has its share, no subscriber gets a resource again, and no call fails.
async fn join(cx: Context, release: Release) -> Fallible {
    let backend = Backend::start("a").await?;
    let folder = mesh(&cx, &backend)?;
    let etcd = Etcd::start_three(&cx, release).await?;
    etcd.connect().await?;
    let urls = etcd.urls();
    Content::of(&cx, folder.path(), &urls).publish(&[]).await?;
    let first = Replica::start(&cx, &urls, "first").await?;
    first.serves(1, SOON).await?;
    // The port of the second one, which does not listen yet.
    let mut second = Replica::start(&cx, &urls, "second").await?;
    second.kill().await?;
    let both = vec![first.grpc, second.grpc];
    let sotw = Wire::balance(both.clone(), Protocol::Sotw, &cx.dir).await?;
    let delta = Wire::balance(both.clone(), Protocol::Delta, &cx.dir).await?;
    let clients = Clients::start(&cx, delta.address, sotw.address).await?;
    clients.served_by("a").await?;
    let subscribers: Vec<_> = (0..SUBSCRIBERS)
        .map(|_| Subscriber::start(both.clone(), Protocol::Delta))
        .collect();
    for subscriber in &subscribers {
        let has = |clusters: &Clusters| clusters.contains_key("blue");
        subscriber.has("the cluster", SOON, has).await?;
    }

    let marks: Vec<_> = subscribers.iter().map(Subscriber::mark).collect();
    second.restart().await?;
    until("the share of the new replica", SOON * 3, async || {
        let (old, new) = (first.clients().await?, second.clients().await?);
        if new >= SHARE && old >= SHARE {
            Ok(Some(()))
        } else {
            Err(format!("{old} and {new} clients").into())
        }
    })
    .await?;
    clients.call(CALLS).await?;
    for (subscriber, mark) in subscribers.iter().zip(marks) {
        // A new stream has a first response, which is empty.
        let again = subscriber.since(mark).into_iter();
        let mut again = again.filter(|one| !one.changed.is_empty() || !one.removed.is_empty());
        if let Some(response) = again.next() {
            return Err(format!("sent again: {response:?}").into());
        }
    }
    clients.none_failed()
}
