//! A writer that is alone: it knows the head, so a publish is one transaction, whatever the number of clusters.
//!
//! `oxds publish` reads the published state first, which takes a second with 100,000 clusters.

use std::collections::HashMap;
use std::sync::Arc;

use oxds_etcd::{Head, Key, Prefix, Segment, Stored};
use oxds_server::store::etcd::client::EtcdClient;
use oxds_server::store::etcd::writer::publish_id;
use oxds_types::etcd::{PutRequest, RangeRequest, Request, RequestOp, TxnRequest};

use super::etcd::Etcd;
use super::text::text;
use super::writer::entry;

/// The writer.
pub(super) struct QuickWriter {
    client: EtcdClient,
    prefix: Prefix,
    lane: Segment,
    /// The head that it wrote last, or found.
    head: Head,
    /// Changed clusters as they are published, by number.
    published: HashMap<usize, Arc<Stored>>,
    clusters: usize,
    /// Number of the last change.
    generation: usize,
}

impl Etcd {
    /// Makes a writer of a prefix that was filled with this many clusters, and not changed since.
    pub(super) async fn quick_writer(
        &self,
        prefix: &str,
        clusters: usize,
    ) -> Result<QuickWriter, String> {
        let prefix = Prefix::new(prefix).map_err(text)?;
        let lane = Segment::lane("main").map_err(text)?;
        let request = RangeRequest {
            key: prefix.key(&Key::Head(lane.clone())),
            ..RangeRequest::default()
        };
        let answer = self.client.range(request).await.map_err(text)?;
        let head = answer.kvs.first().ok_or("no head")?;
        Ok(QuickWriter {
            client: self.client.clone(),
            prefix,
            lane,
            head: Head::decode(&head.value).map_err(text)?,
            published: HashMap::new(),
            clusters,
            generation: 0,
        })
    }
}

impl QuickWriter {
    /// Publishes a change of the next cluster.
    pub(super) async fn change(&mut self) -> Result<(), String> {
        self.generation += 1;
        let number = self.generation % self.clusters;
        let (place, stored) = entry(number, self.generation);
        let known = self.published.get(&number);
        let old = known.cloned().unwrap_or_else(|| entry(number, 0).1);
        let (old, new) = (old.digest_version(), stored.digest_version());
        let mut head = self.head.clone();
        (head.parent, head.publish) = (Some(head.publish), publish_id());
        head.seq += 1;
        head.digest.replace(&place, Some(&old), Some(&new));
        let put = |key, value| RequestOp {
            request: Some(Request::Put(PutRequest {
                key: self.prefix.key(&key),
                value,
                ..PutRequest::default()
            })),
        };
        let transaction = TxnRequest {
            success: vec![
                put(
                    Key::Entry(self.lane.clone(), place),
                    stored.encoded().clone(),
                ),
                put(Key::Head(self.lane.clone()), head.encode().into()),
            ],
            ..TxnRequest::default()
        };
        self.client.txn(transaction).await.map_err(text)?;
        self.head = head;
        self.published.insert(number, stored);
        Ok(())
    }
}
