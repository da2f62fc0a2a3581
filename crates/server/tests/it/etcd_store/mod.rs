//! The store for several replicas: servers with real clients, against a scripted etcd.

mod faults;
mod following;
mod loss;
mod publishing;
mod rollback;
mod spreading;
mod start;
mod status_key;
mod writer;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use http::StatusCode;
use oxds_etcd::ReplicaStatus;
use oxds_server::store::etcd::client::{ClientOptions, Endpoints};
use oxds_server::store::etcd::{EtcdStore, EtcdStoreOptions, Prefix, Segment, Unusable};
use oxds_server::{Builder, OnNack, ResourceType, SavedState, Server};
use oxds_testkit::etcd::ScriptedEtcd;
use oxds_types::discovery::{DeltaDiscoveryResponse, Node};
use serde_json::Value;

use crate::admin;
use crate::client::{CDS, DELTA, Stream, ack_delta, subscribe};
use crate::{Running, until};
use publishing::publish;

fn prefix() -> Prefix {
    Prefix::new("/oxds/default").unwrap()
}

/// Options of a replica of these members, which looks for lost events and at the size of the database often.
fn options(members: &[&ScriptedEtcd]) -> EtcdStoreOptions {
    let urls: Vec<String> = members.iter().map(|member| member.url()).collect();
    let endpoints: Endpoints = urls.join(",").parse().unwrap();
    let client = ClientOptions::new(&endpoints, None).unwrap();
    static REPLICAS: AtomicU64 = AtomicU64::new(1);
    let replica = format!("replica-{}", REPLICAS.fetch_add(1, Relaxed));
    let replica = Segment::replica(&replica).unwrap();
    let mut options = EtcdStoreOptions::new(endpoints, client, prefix(), replica);
    options.timing.probe = Duration::from_millis(100);
    options.space_interval = Duration::from_millis(100);
    options
}

/// A replica: a server with an etcd store.
struct Replica {
    server: Running,
    unusable: Unusable,
    id: String,
}

impl Replica {
    async fn start(members: &[&ScriptedEtcd]) -> Self {
        Self::of(options(members), None).await
    }

    /// Starts a replica that rolls back, with the others, what more than this number of nodes NACK.
    async fn rolling_back(members: &[&ScriptedEtcd], threshold: usize) -> Self {
        let options = options(members);
        let builder = Server::builder().on_nack(OnNack::Rollback { threshold });
        Self::build(builder, options).await
    }

    async fn build(builder: Builder, options: EtcdStoreOptions) -> Self {
        let id = options.replica.to_string();
        let (store, unusable) = EtcdStore::new(options);
        let server = Running::start(builder.store(store)).await;
        Self {
            server,
            unusable,
            id,
        }
    }

    /// Starts a replica that keeps its state in a folder.
    async fn with_state(members: &[&ScriptedEtcd], folder: &Path) -> Self {
        Self::of(options(members), Some(folder)).await
    }

    async fn of(mut options: EtcdStoreOptions, folder: Option<&Path>) -> Self {
        let mut builder = Server::builder();
        if let Some(folder) = folder {
            let state = SavedState::open(folder, EtcdStoreOptions::state(&prefix())).unwrap();
            options.last_good = state.last_good();
            builder = builder.state(state);
        }
        Self::build(builder, options).await
    }

    /// Stops in order, so that the state is saved.
    async fn stop(mut self) {
        self.server.stop();
        (&mut self.server.task).await.unwrap();
    }

    /// Returns the part of the status page about the store.
    async fn store(&self) -> Value {
        admin::json(self.server.http).await["store"].take()
    }

    /// Waits until the status of the store is like this.
    async fn shows(&self, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        until(what, async || {
            let store = self.store().await;
            is_so(&store).then_some(store)
        })
        .await
    }

    /// Waits until this publish of the lane `main` is served.
    async fn serves(&self, seq: u64) {
        let is_served =
            |store: &Value| store["lanes"][0]["seq"] == seq && store["connected"] == true;
        self.shows(&format!("publish {seq}"), is_served).await;
    }

    async fn ready(&self) -> (StatusCode, String) {
        admin::get(self.server.http, "/readyz").await
    }

    /// Waits until the status key of this replica is like this.
    async fn reports(
        &self,
        etcd: &ScriptedEtcd,
        what: &str,
        is_so: impl Fn(&ReplicaStatus) -> bool,
    ) -> ReplicaStatus {
        until(what, async || {
            let value = etcd.get(self.key().as_bytes())?.value;
            assert!(value.len() < 1024, "{} bytes", value.len());
            ReplicaStatus::decode(&value).filter(&is_so)
        })
        .await
    }

    /// Returns its status key.
    fn key(&self) -> String {
        format!("/oxds/default/x/{}", self.id)
    }

    /// Returns the names and versions of the clusters for all nodes.
    fn clusters(&self) -> BTreeMap<String, String> {
        let snapshot = self.server.cache.snapshot();
        let clusters = snapshot.of_type(&ResourceType::CLUSTER).collection();
        let clusters = clusters.iter();
        clusters
            .map(|one| (one.name().to_string(), one.version().to_string()))
            .collect()
    }

    fn names(&self) -> Vec<String> {
        self.clusters().into_keys().collect()
    }
}

/// A client that subscribes to all clusters, and counts what it is sent.
struct Client {
    stream: Stream,
    has: BTreeMap<String, String>,
}

impl Client {
    async fn connect(replica: &Replica) -> Self {
        Self::with(replica, BTreeMap::new()).await
    }

    /// Connects as the client of another node.
    async fn of_node(replica: &Replica, id: &str) -> Self {
        let stream = Stream::open(replica.server.grpc, DELTA).await;
        let mut request = subscribe(CDS, &[]);
        request.node = Some(Node {
            id: id.to_owned(),
            ..request.node.unwrap_or_default()
        });
        stream.send(&request);
        Self {
            stream,
            has: BTreeMap::new(),
        }
    }

    /// Connects with what it has from another replica.
    async fn with(replica: &Replica, has: BTreeMap<String, String>) -> Self {
        let stream = Stream::open(replica.server.grpc, DELTA).await;
        let mut request = subscribe(CDS, &[]);
        request.initial_resource_versions = has.clone().into_iter().collect();
        stream.send(&request);
        Self { stream, has }
    }

    /// Returns the next response after it was accepted.
    async fn next(&mut self) -> DeltaDiscoveryResponse {
        let response = self.stream.delta().await;
        for resource in &response.resources {
            self.has
                .insert(resource.name.clone(), resource.version.clone());
        }
        for name in &response.removed_resources {
            self.has.remove(name);
        }
        self.stream.send(&ack_delta(&response));
        response
    }

    /// Checks that the next response adds or changes exactly these resources, and removes those.
    async fn gets(&mut self, changed: &[&str], removed: &[&str]) {
        let response = self.next().await;
        let mut names: Vec<_> = response.resources.iter().map(|one| &*one.name).collect();
        names.sort_unstable();
        assert_eq!(
            (&names[..], response.removed_resources),
            (changed, owned(removed))
        );
    }
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Starts an etcd, and another member of it that no replica uses: writers do.
async fn etcd() -> (ScriptedEtcd, ScriptedEtcd) {
    let etcd = ScriptedEtcd::start().await.unwrap();
    let writers = etcd.join().await.unwrap();
    (etcd, writers)
}

/// Key of a cluster of the lane `main`.
fn key(name: &str) -> String {
    format!("/oxds/default/l/main/r/envoy.config.cluster.v3.Cluster/{name}")
}

/// Returns whether a replica serves this publish of the lane `main`.
fn served(seq: u64) -> impl Fn(&ReplicaStatus) -> bool {
    move |status| status.lanes.get("main").map(|lane| lane.seq) == Some(seq)
}

/// Returns the value of a key.
fn value(etcd: &ScriptedEtcd, key: &str) -> Arc<[u8]> {
    etcd.get(key.as_bytes()).unwrap().value.to_vec().into()
}
