//! A writer for tests: the machine of publishes over the client.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use oxds_core::time::Instant;
use oxds_etcd::publisher::{
    FailureKind, PublishAnswer, PublishError, PublishEvent, PublishOptions, PublishOutcome,
    PublishRequest, Publisher, RequestFailure, Wanted,
};
use oxds_etcd::{Entry, Place, PublishId, Segment, Stored};
use oxds_server::Resource;
use oxds_server::store::etcd::client::{EtcdClient, EtcdError};
use oxds_testkit::etcd::ScriptedEtcd;

use super::prefix;
use crate::cluster;
use crate::etcd::connect;

/// A writer of one lane. Each publish is the whole state of the lane.
pub(super) struct Writer {
    pub(super) options: PublishOptions,
}

/// Content of a cluster: equal contents have equal versions.
pub(super) type Clusters<'a> = &'a [(&'a str, &'a str)];

impl Writer {
    pub(super) fn of_lane(lane: &str) -> Self {
        static ID: AtomicU64 = AtomicU64::new(1);
        let id = PublishId(u128::from(ID.fetch_add(1, Relaxed)) << 64);
        let lane = Segment::lane(lane).unwrap();
        let mut options = PublishOptions::new(prefix(), lane, id);
        options.prune = true;
        Self { options }
    }

    /// Publishes these clusters, and returns the seq.
    pub(super) async fn publish(
        self,
        etcd: &ScriptedEtcd,
        clusters: Clusters<'_>,
    ) -> Result<u64, PublishError> {
        let clusters = clusters.iter();
        let clusters = clusters.map(|(name, content)| resource(name, content));
        self.publish_resources(etcd, clusters).await
    }

    /// Publishes these resources, and returns the seq.
    pub(super) async fn publish_resources(
        self,
        etcd: &ScriptedEtcd,
        resources: impl IntoIterator<Item = Resource>,
    ) -> Result<u64, PublishError> {
        let entries = resources.into_iter().map(|resource| entry_of(&resource));
        let wanted: BTreeMap<_, _> = entries.collect();
        let mut machine = Publisher::new(self.options, Wanted::State(wanted.into()));
        let client = connect(etcd).await;
        // It does not wait for the time at which the machine goes on.
        let mut now = Instant::EPOCH;
        loop {
            while let Some(event) = machine.poll_event() {
                match event {
                    PublishEvent::Validate(_) => machine.handle_verdict(now, true),
                    PublishEvent::Done(Ok(PublishOutcome::Published { seq, .. })) => {
                        return Ok(seq);
                    }
                    PublishEvent::Done(Ok(other)) => panic!("{other:?}"),
                    PublishEvent::Done(Err(error)) => return Err(error),
                    PublishEvent::Completed { .. } | PublishEvent::Undone { .. } => {}
                }
            }
            now = machine.poll_timeout().map_or(now, |until| now.max(until));
            let request = machine.poll_transmit(now).unwrap();
            match answer(&client, request).await {
                Ok(answer) => machine.handle_answer(now, answer),
                Err(error) => {
                    let failure = RequestFailure::new(FailureKind::Refused, error.to_string());
                    machine.handle_failure(now, failure);
                }
            }
        }
    }
}

/// Returns the entry of a resource for all nodes.
pub(super) fn entry_of(resource: &Resource) -> (Entry, Arc<Stored>) {
    let of = resource.resource_type().clone();
    let place = Place::of_all(of, Arc::clone(resource.name()));
    let stored = Stored::of_resource(resource, None);
    (Entry::Resource(place), Arc::new(stored))
}

/// Returns a cluster with this content.
pub(super) fn resource(name: &str, content: &str) -> Resource {
    // Field 28 of a cluster, `alt_stat_name`.
    let length = u8::try_from(content.len()).unwrap();
    let mut rest = vec![0xe2, 0x01, length];
    rest.extend_from_slice(content.as_bytes());
    cluster(name, &rest)
}

async fn answer(client: &EtcdClient, request: PublishRequest) -> Result<PublishAnswer, EtcdError> {
    Ok(match request {
        PublishRequest::Range(range) => PublishAnswer::Range(client.range(range).await?),
        PublishRequest::Txn(txn) => PublishAnswer::Txn(client.txn(txn).await?),
        PublishRequest::Grant(grant) => PublishAnswer::Granted(client.lease_grant(grant).await?.id),
        PublishRequest::KeepAlive(lease) => {
            client.lease_keeper(lease.id).await?;
            PublishAnswer::KeptAlive
        }
        PublishRequest::Revoke(lease) => {
            client.lease_revoke(lease).await?;
            PublishAnswer::Revoked
        }
    })
}

/// Publishes these clusters to the lane `main`, and returns the seq.
pub(super) async fn publish(etcd: &ScriptedEtcd, clusters: Clusters<'_>) -> u64 {
    let published = Writer::of_lane("main").publish(etcd, clusters).await;
    published.unwrap()
}
