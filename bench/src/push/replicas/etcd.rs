//! An etcd cluster of three members, its writer, and a watch that tells when it commits.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use oxds_core::etcd::fleet::Fleet as Statuses;
use oxds_core::etcd::publisher::{PublishOptions, PublishOutcome, Publisher, Wanted};
use oxds_core::etcd::{Entry, Place, Prefix, Segment, Stored};
use oxds_server::store::etcd::client::{ClientOptions, Endpoints, EtcdClient};
use oxds_server::store::etcd::writer::{self, Session};
use oxds_types::etcd::prefix_end;
use oxds_types::etcd::{
    PutRequest, RangeRequest, Request, RequestOp, TxnRequest, WatchCreateRequest,
};
use tempfile::TempDir;
use tokio::net::TcpSocket;
use tokio::sync::mpsc;

use super::super::holding::{Holding, resource_name};
use crate::program::program;
use crate::roles::{Part, Processors};

/// Replicas of the configuration.
pub(super) const REPLICAS: usize = 3;
/// A step that takes longer has failed.
pub(super) const LIMIT: Duration = Duration::from_secs(120);
/// Prefix of the configuration of `oxds serve --etcd`.
pub(super) const PREFIX: &str = "/oxds/default/";
/// Members of the cluster.
const MEMBERS: usize = 3;
/// Time in which the members must elect a leader.
const START: Duration = Duration::from_secs(60);
/// Pause between two reads of the replicas' status.
const POLL: Duration = Duration::from_millis(50);
/// The first key, and as the end of a range: all keys after its start.
const ZERO: &[u8] = b"\0";
/// Operations of a transaction that etcd takes by default.
const BATCH: usize = 128;
/// Keys per page of a read, as a replica reads them.
const PAGE: i64 = 5_000;

/// A running cluster.
pub(super) struct Etcd {
    _members: Vec<Part>,
    /// URLs of its members, as `--etcd` takes them.
    pub(super) urls: String,
    pub(super) client: EtcdClient,
    session: Session,
    /// Number of the last change of a resource: no two are equal.
    generation: usize,
    /// When the last publish was ready to be written, and when etcd had committed it.
    pub(super) commit: (Instant, Instant),
    _folder: TempDir,
    /// The members' ports: nothing else gets them.
    _held: Vec<TcpSocket>,
}

impl Etcd {
    /// Starts the cluster, and waits until it takes writes.
    pub(super) async fn start() -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(text)?;
        let mut held = Vec::new();
        let mut url = || {
            // It does not listen, so that a server may: both allow the reuse of addresses.
            let socket = TcpSocket::new_v4().map_err(text)?;
            socket.set_reuseaddr(true).map_err(text)?;
            socket.bind((Ipv4Addr::LOCALHOST, 0).into()).map_err(text)?;
            let address = socket.local_addr().map_err(text)?;
            held.push(socket);
            Ok::<_, String>(format!("http://{address}"))
        };
        let mut addresses = Vec::new();
        for member in 0..MEMBERS {
            addresses.push((format!("m{member}"), url()?, url()?));
        }
        let all: Vec<_> = addresses
            .iter()
            .map(|(name, _, peer)| format!("{name}={peer}"))
            .collect();
        let etcd = program("OXDS_BENCH_ETCD")?;
        let mut members = Vec::new();
        for (name, client, peer) in &addresses {
            let arguments = [
                format!("--name={name}"),
                format!("--data-dir={}", folder.path().join(name).display()),
                format!(
                    "--log-outputs={}",
                    folder.path().join(format!("{name}.log")).display()
                ),
                format!("--listen-client-urls={client}"),
                format!("--advertise-client-urls={client}"),
                format!("--listen-peer-urls={peer}"),
                format!("--initial-advertise-peer-urls={peer}"),
                format!("--initial-cluster={}", all.join(",")),
            ];
            members.push(Part::start_program_measuring(
                &etcd,
                Processors::Alone,
                &arguments,
            )?);
        }
        let urls: Vec<_> = addresses.into_iter().map(|(_, client, _)| client).collect();
        let urls = urls.join(",");
        let endpoints: Endpoints = urls.parse().map_err(text)?;
        let options = ClientOptions::new(&endpoints, None)
            .map_err(text)?
            .timeout(START);
        Ok(Self {
            _members: members,
            client: connect(&endpoints, &options).await?,
            session: Session::new(endpoints, options),
            urls,
            generation: 0,
            commit: (Instant::now(), Instant::now()),
            _folder: folder,
            _held: held,
        })
    }

    /// Publishes this many clusters below a prefix.
    pub(super) async fn fill(&mut self, prefix: &str, count: usize) -> Result<(), String> {
        let entries = (0..count).map(|index| entry(index, 0)).collect();
        self.publish(prefix, Wanted::State(entries)).await
    }

    /// Publishes a change of each of the first clusters.
    pub(super) async fn change(&mut self, prefix: &str, clusters: usize) -> Result<(), String> {
        self.change_some(prefix, 0..clusters).await
    }

    /// Publishes a change of each of these clusters: a single transaction if they are few.
    pub(super) async fn change_some(
        &mut self,
        prefix: &str,
        clusters: Range<usize>,
    ) -> Result<(), String> {
        self.generation += 1;
        let changed = clusters.map(|index| {
            let (entry, stored) = entry(index, self.generation);
            (entry, Some(stored))
        });
        let changed: BTreeMap<_, _> = changed.collect();
        self.publish(prefix, Wanted::Changes(changed)).await
    }

    async fn publish(&mut self, prefix: &str, wanted: Wanted) -> Result<(), String> {
        let prefix = Prefix::new(prefix).map_err(text)?;
        let lane = Segment::lane("main").map_err(text)?;
        let options = PublishOptions::new(prefix, lane, writer::publish_id());
        let publisher = Publisher::new(options, wanted);
        let mut begun = Instant::now();
        // The last thing before the first write.
        let judge = |_: &_| {
            begun = Instant::now();
            true
        };
        let outcome = writer::publish(&mut self.session, publisher, judge, |_| {}).await;
        self.commit = (begun, Instant::now());
        match outcome.map_err(text)? {
            PublishOutcome::Published {
                unfinished: None, ..
            } => Ok(()),
            other => Err(format!("{other:?}")),
        }
    }

    /// Writes this many clusters, each as a key below a prefix of its own: for the plain alternative.
    pub(super) async fn fill_plain(&mut self, prefix: &str, count: usize) -> Result<(), String> {
        let all: Vec<_> = (0..count).collect();
        for batch in all.chunks(BATCH) {
            let success = batch.iter().map(|&index| RequestOp {
                request: Some(Request::Put(plain(prefix, index, 0))),
            });
            let transaction = TxnRequest {
                success: success.collect(),
                ..TxnRequest::default()
            };
            self.client.txn(transaction).await.map_err(text)?;
        }
        Ok(())
    }

    /// Changes the first cluster of the plain alternative.
    pub(super) async fn change_plain(&mut self, prefix: &str) -> Result<(), String> {
        self.generation += 1;
        let put = plain(prefix, 0, self.generation);
        let begun = Instant::now();
        self.client.put(put).await.map_err(text)?;
        self.commit = (begun, Instant::now());
        Ok(())
    }

    /// Watches a prefix, and returns the time when each revision arrived.
    pub(super) async fn watch(
        &self,
        prefix: &str,
    ) -> Result<mpsc::UnboundedReceiver<Instant>, String> {
        watch(&self.client, prefix).await
    }

    /// Does the same with a watch of each member: they apply what is committed at different times.
    pub(super) async fn watch_all(
        &self,
        prefix: &str,
    ) -> Result<Vec<mpsc::UnboundedReceiver<Instant>>, String> {
        let endpoints: Endpoints = self.urls.parse().map_err(text)?;
        let options = ClientOptions::new(&endpoints, None).map_err(text)?;
        let mut all = Vec::new();
        for member in endpoints.iter() {
            let client = EtcdClient::connect(member, &options).await.map_err(text)?;
            all.push(watch(&client, prefix).await?);
        }
        Ok(all)
    }

    /// Returns the revision of the store: the number of transactions that have written, of all writers. Leases have none.
    pub(super) async fn revision(&self) -> Result<i64, String> {
        let any = RangeRequest {
            key: ZERO.into(),
            count_only: true,
            ..RangeRequest::default()
        };
        let answer = self.client.range(any).await.map_err(text)?;
        let header = answer.header.ok_or("an answer without a header")?;
        Ok(header.revision)
    }

    /// Returns the number of keys that were written or deleted since a revision.
    pub(super) async fn keys_since(&self, revision: i64) -> Result<usize, String> {
        let now = self.revision().await?;
        let create = WatchCreateRequest {
            key: ZERO.into(),
            range_end: ZERO.into(),
            start_revision: revision + 1,
            ..WatchCreateRequest::default()
        };
        let (mut stream, _) = self.client.watch(create).await.map_err(text)?;
        let (mut keys, mut reached) = (0, revision);
        while reached < now {
            let response = tokio::time::timeout(LIMIT, stream.next());
            let response = response.await.map_err(text)?.map_err(text)?;
            for kv in response.events.iter().filter_map(|event| event.kv.as_ref()) {
                keys += 1;
                reached = kv.mod_revision;
            }
        }
        Ok(keys)
    }

    /// Waits until every replica reports this many streams, and that all of them have accepted what is published.
    pub(super) async fn settled(
        &mut self,
        prefix: &str,
        streams: usize,
    ) -> Result<Statuses, String> {
        let prefix = Prefix::new(prefix).map_err(text)?;
        let deadline = Instant::now() + LIMIT;
        loop {
            let statuses = writer::read_fleet(&mut self.session, &prefix);
            let statuses = statuses.await.map_err(text)?;
            let mut replicas = statuses.replicas.values();
            let in_sync = replicas.all(|one| [one.streams, one.in_sync] == [streams as u64; 2]);
            if in_sync && statuses.replicas.len() == REPLICAS && statuses.unsettled().is_empty() {
                return Ok(statuses);
            }
            if Instant::now() > deadline {
                return Err(format!("not settled within {LIMIT:?}: {statuses:?}"));
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Reads all keys below a prefix, in pages at one revision, without a look at the values. Returns the time that it took.
    pub(super) async fn read(&self, prefix: &str) -> Result<Duration, String> {
        let start = Instant::now();
        let end = prefix_end(prefix.as_bytes());
        let (mut key, mut revision) = (prefix.as_bytes().to_vec(), 0);
        loop {
            let page = RangeRequest {
                key: key.into(),
                range_end: end.clone().into(),
                limit: PAGE,
                revision,
                ..RangeRequest::default()
            };
            let page = self.client.range(page).await.map_err(text)?;
            revision = page.header.map_or(0, |header| header.revision);
            let Some(last) = page.kvs.last().filter(|_| page.more) else {
                return Ok(start.elapsed());
            };
            key = last.key.to_vec();
            key.push(0);
        }
    }
}

/// Watches a prefix over one connection. See [`Etcd::watch`].
async fn watch(
    client: &EtcdClient,
    prefix: &str,
) -> Result<mpsc::UnboundedReceiver<Instant>, String> {
    let create = WatchCreateRequest {
        key: prefix.as_bytes().to_vec().into(),
        range_end: prefix_end(prefix.as_bytes()).into(),
        fragment: true,
        ..WatchCreateRequest::default()
    };
    let (mut stream, _) = client.watch(create).await.map_err(text)?;
    let (sender, times) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut reached = 0;
        while let Ok(response) = stream.next().await {
            // etcd sends several revisions in one response, and parts of one in several.
            for kv in response.events.iter().filter_map(|event| event.kv.as_ref()) {
                if kv.mod_revision == reached {
                    continue;
                }
                reached = kv.mod_revision;
                if sender.send(Instant::now()).is_err() {
                    return;
                }
            }
        }
    });
    Ok(times)
}

/// Tries again until the cluster has a leader.
async fn connect(endpoints: &Endpoints, options: &ClientOptions) -> Result<EtcdClient, String> {
    let first = endpoints.iter().next().ok_or("no member")?;
    let deadline = Instant::now() + START;
    loop {
        let connected = EtcdClient::connect(first, options).await;
        let written = match connected {
            Ok(client) => {
                let put = PutRequest {
                    key: b"/started"[..].into(),
                    ..PutRequest::default()
                };
                client.put(put).await.map(|_| client)
            }
            Err(error) => Err(error),
        };
        match written {
            Ok(client) => return Ok(client),
            Err(error) if Instant::now() > deadline => return Err(text(error)),
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// Returns a cluster as it is published.
pub(super) fn entry(index: usize, generation: usize) -> (Entry, Arc<Stored>) {
    let resource = Holding::Clusters.resource(index, generation);
    let place = Place {
        group: None,
        resource_type: resource.resource_type().clone(),
        name: Arc::clone(resource.name()),
    };
    (place.into(), Arc::new(Stored::of_resource(&resource, None)))
}

fn plain(prefix: &str, index: usize, generation: usize) -> PutRequest {
    PutRequest {
        key: format!("{prefix}{}", resource_name(index)).into(),
        value: Holding::Clusters.resource(index, generation).value(),
        ..PutRequest::default()
    }
}

pub(super) fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
