//! An etcd cluster of three members, and its writer.

use std::ops::Range;
use std::time::{Duration, Instant};

use oxds_etcd::fleet::Fleet as Statuses;
use oxds_etcd::{Prefix, Segment};
use oxds_server::store::etcd::client::{ClientOptions, Endpoint, Endpoints, EtcdClient};
use oxds_server::store::etcd::writer;
use oxds_types::etcd::{
    CompactionRequest, PutRequest, RangeRequest, Request, RequestOp, TxnRequest, prefix_end,
};

use super::super::resources::{resource, resource_name};
use super::members::Members;
use super::text::text;
use super::writer::Writer;
use crate::roles::Holding;

/// Replicas of the configuration.
pub(super) const REPLICAS: usize = 3;
/// A step that takes longer has failed.
pub(super) const LIMIT: Duration = Duration::from_secs(120);
/// Prefix of the configuration of `oxds serve --etcd`.
pub(super) const PREFIX: &str = "/oxds/default/";
/// Time in which the members must elect a leader.
const START: Duration = Duration::from_secs(60);
/// Pause between two reads of the replicas' status.
const POLL: Duration = Duration::from_millis(50);
/// The first key, and as the end of a range: all keys after its start.
pub(super) const ZERO: &[u8] = b"\0";
/// Operations of a transaction that etcd takes by default.
const BATCH: usize = 128;
/// Keys per page of a read, as a replica reads them.
const PAGE: i64 = 5_000;

/// A running cluster.
pub(super) struct Etcd {
    pub(super) members: Members,
    /// URLs of its members, as `--etcd` takes them.
    pub(super) urls: String,
    pub(super) client: EtcdClient,
    writer: Writer,
}

impl Etcd {
    /// Starts the cluster, and waits until it takes writes.
    pub(super) async fn start() -> Result<Self, String> {
        let members = Members::start()?;
        let urls = members.urls().join(",");
        let endpoints: Endpoints = urls.parse().map_err(text)?;
        let options = ClientOptions::new(&endpoints, None).map_err(text)?;
        let options = options.timeout(START);
        let first = endpoints.iter().next().ok_or("no member")?;
        Ok(Self {
            members,
            client: connect(first, &options).await?,
            writer: Writer::new(endpoints, options),
            urls,
        })
    }

    /// Starts the members that are dead, and waits until each takes writes.
    pub(super) async fn restart(&mut self) -> Result<(), String> {
        self.members.restart()?;
        let endpoints: Endpoints = self.urls.parse().map_err(text)?;
        let options = ClientOptions::new(&endpoints, None).map_err(text)?;
        // The first member last: its client stays.
        for member in endpoints.iter().collect::<Vec<_>>().into_iter().rev() {
            self.client = connect(member, &options).await?;
        }
        Ok(())
    }

    /// When the last publish was ready to be written, and when etcd had committed it.
    pub(super) fn commit(&self) -> (Instant, Instant) {
        self.writer.commit
    }

    /// Publishes this many clusters below a prefix.
    pub(super) async fn fill(&mut self, prefix: &str, count: usize) -> Result<(), String> {
        self.writer.fill(prefix, count).await
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
        self.writer.change(prefix, clusters).await.map(drop)
    }

    /// Writes this many clusters, each as a key below a prefix of its own: for the plain alternative.
    pub(super) async fn fill_plain(&mut self, prefix: &str, count: usize) -> Result<(), String> {
        self.put_plain(prefix, count, 0).await
    }

    /// Changes the first clusters of the plain alternative.
    pub(super) async fn change_plain(&mut self, prefix: &str, count: usize) -> Result<(), String> {
        self.writer.generation += 1;
        let begun = Instant::now();
        self.put_plain(prefix, count, self.writer.generation)
            .await?;
        self.writer.commit = (begun, Instant::now());
        Ok(())
    }

    /// Writes them in transactions of as many keys as etcd takes by default.
    async fn put_plain(&self, prefix: &str, count: usize, generation: usize) -> Result<(), String> {
        let all: Vec<_> = (0..count).collect();
        for batch in all.chunks(BATCH) {
            let success = batch.iter().map(|&index| RequestOp {
                request: Some(Request::Put(plain(prefix, index, generation))),
            });
            let transaction = TxnRequest {
                success: success.collect(),
                ..TxnRequest::default()
            };
            self.client.txn(transaction).await.map_err(text)?;
        }
        Ok(())
    }

    /// Returns the revision of the store: the number of transactions that have written, of all writers. Leases have
    /// none.
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

    /// Discards the history before the present revision.
    pub(super) async fn compact(&self) -> Result<(), String> {
        let compaction = CompactionRequest {
            revision: self.revision().await?,
            physical: true,
        };
        self.client.compact(compaction).await.map_err(text)?;
        Ok(())
    }

    /// Waits until every replica reports this many streams, and all of them have accepted the latest publish.
    pub(super) async fn settled(
        &mut self,
        prefix: &str,
        streams: usize,
    ) -> Result<Statuses, String> {
        let prefix = Prefix::new(prefix).map_err(text)?;
        let deadline = Instant::now() + LIMIT;
        loop {
            let statuses = writer::read_fleet(&mut self.writer.session, &prefix);
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

    /// Waits for the same, and returns the number of replicas whose digest is not that of the head.
    pub(super) async fn strayed(&mut self, prefix: &str, streams: usize) -> Result<usize, String> {
        let statuses = self.settled(prefix, streams).await?;
        let lane = Segment::lane("main").map_err(text)?;
        let head = statuses.heads.get(&lane).ok_or("no head")?;
        let served = statuses.replicas.values().map(|one| one.lane(&lane));
        let others = served.filter(|served| !served.is_some_and(|served| served.is_of(head)));
        Ok(others.count())
    }

    /// Reads all keys below a prefix, in pages at one revision, without a look at the values. Returns the time that it
    /// took.
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

/// Connects to a member. Tries again until it answers, and the cluster has a leader.
async fn connect(member: &Endpoint, options: &ClientOptions) -> Result<EtcdClient, String> {
    let deadline = Instant::now() + START;
    loop {
        let connected = EtcdClient::connect(member, options).await;
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

fn plain(prefix: &str, index: usize, generation: usize) -> PutRequest {
    PutRequest {
        key: format!("{prefix}{}", resource_name(index)).into(),
        value: resource(Holding::Clusters, index, generation).value(),
        ..PutRequest::default()
    }
}
