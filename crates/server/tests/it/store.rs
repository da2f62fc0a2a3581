//! Stores of a program: what the server tells them, and where updates come from.

use std::sync::Arc;

use oxds_server::{ChangeSet, Demand, Origin, ResourceType, Server, Store, Update};

use crate::client::{CDS, DELTA, Stream, ack_delta, ask, subscribe};
use crate::{Running, cluster, until};

/// A store that has each cluster that clients name, and no other.
#[derive(Default)]
struct OnDemand {
    demand: Option<Demand>,
    served: Vec<Arc<str>>,
}

impl Store for OnDemand {
    fn watch_demand(&mut self, demand: Demand) {
        self.demand = Some(demand);
    }

    async fn next(&mut self) -> Option<Update> {
        let demand = self.demand.as_mut()?;
        loop {
            let mut wanted = demand.by_type();
            let clusters = wanted.remove(&ResourceType::CLUSTER).unwrap_or_default();
            let wanted: Vec<Arc<str>> = clusters.names.into_iter().collect();
            if wanted == self.served {
                demand.changed().await;
                continue;
            }
            let added = wanted.iter().filter(|name| !self.served.contains(name));
            let removed = self.served.iter().filter(|name| !wanted.contains(name));
            let key = |name: &Arc<str>| (ResourceType::CLUSTER, Arc::clone(name));
            let mut update = Update::from(ChangeSet {
                upserts: added.map(|name| Arc::new(cluster(name, b""))).collect(),
                removals: removed.map(key).collect(),
            });
            update.origin = Origin::new("on-demand");
            self.served = wanted;
            return Some(update);
        }
    }
}

/// Given a store that fetches resources on demand, when a client subscribes to a name, then the store learns it and the
/// client gets the resource. When no client needs it any more, then the store learns that, too.
#[tokio::test]
async fn store_follows_the_demand_of_clients() {
    let server = Running::start(Server::builder().store(OnDemand::default())).await;
    let mut stream = Stream::open(server.grpc, DELTA).await;
    stream.send(&subscribe(CDS, &["a"]));
    let response = stream.delta().await;
    assert_eq!(response.resources[0].name, "a");
    stream.send(&ack_delta(&response));

    let other = Stream::open(server.grpc, crate::client::SOTW).await;
    other.send(&ask(CDS, &["b"]));
    let served = || {
        let snapshot = server.cache.snapshot();
        let clusters = snapshot.of_type(&ResourceType::CLUSTER).collection();
        let names = clusters.iter().map(|cluster| cluster.name().to_string());
        names.collect::<Vec<_>>()
    };
    until("both clusters", async || {
        (served() == ["a", "b"]).then_some(())
    })
    .await;
    drop(stream);
    until("only b", async || (served() == ["b"]).then_some(())).await;
}

/// Given a client that only reports loads, then it is no demand: it subscribes to nothing.
#[tokio::test]
async fn load_reports_are_no_demand() {
    struct Watching(tokio::sync::mpsc::UnboundedSender<Demand>);
    impl Store for Watching {
        fn watch_demand(&mut self, demand: Demand) {
            self.0.send(demand).unwrap();
        }
        async fn next(&mut self) -> Option<Update> {
            None
        }
    }
    let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
    let server = Running::start(Server::builder().store(Watching(sender))).await;
    let demand = receiver.recv().await.unwrap();
    server.cache.apply(crate::upsert(&["a"]));
    let mut stream = Stream::open(server.grpc, crate::load::LRS).await;
    stream.send(&crate::load::hello(&[]));
    let _: envoy_types::pb::envoy::service::load_stats::v3::LoadStatsResponse =
        stream.message().await;
    assert!(demand.by_type().is_empty());

    let mut stream = Stream::open(server.grpc, DELTA).await;
    stream.send(&subscribe(CDS, &[]));
    stream.delta().await;
    let wanted = demand.by_type();
    assert!(wanted[&ResourceType::CLUSTER].wildcard);
    assert!(wanted[&ResourceType::CLUSTER].names.is_empty());
}
