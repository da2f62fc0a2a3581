//! A writer: the publishes of `oxds publish`, without its folder.

use std::collections::BTreeMap;
use std::future::ready;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use oxds_etcd::publisher::{PublishOptions, PublishOutcome, Wanted};
use oxds_etcd::{Entry, Place, Prefix, PublishId, Segment, Stored};
use oxds_server::store::etcd::client::{ClientOptions, Endpoints};
use oxds_server::store::etcd::writer::{self, Session};

use super::super::resources::resource;
use super::text::text;
use crate::roles::Holding;

/// A writer with a connection of its own.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) session: Session,
    /// Number of the last change of a resource: no two are equal.
    pub(super) generation: usize,
    /// When the last publish was ready to be written, and when etcd had committed it.
    pub(super) commit: (Instant, Instant),
}

impl Writer {
    pub(super) fn new(endpoints: Endpoints, options: ClientOptions) -> Self {
        Self {
            session: Session::new(endpoints, options),
            generation: 0,
            commit: (Instant::now(), Instant::now()),
        }
    }

    /// Publishes this many clusters below a prefix.
    pub(super) async fn fill(&mut self, prefix: &str, count: usize) -> Result<(), String> {
        let entries = (0..count).map(|index| entry(index, 0)).collect();
        self.publish(prefix, Wanted::State(Arc::new(entries)))
            .await
            .map(drop)
    }

    /// Publishes a change of each of these clusters: a single transaction if they are few. Returns the id of the
    /// publish.
    pub(super) async fn change(
        &mut self,
        prefix: &str,
        clusters: Range<usize>,
    ) -> Result<PublishId, String> {
        self.generation += 1;
        let changed = clusters.map(|index| {
            let (entry, stored) = entry(index, self.generation);
            (entry, Some(stored))
        });
        let changed: BTreeMap<_, _> = changed.collect();
        self.publish(prefix, Wanted::Changes(changed)).await
    }

    async fn publish(&mut self, prefix: &str, wanted: Wanted) -> Result<PublishId, String> {
        let prefix = Prefix::new(prefix).map_err(text)?;
        let lane = Segment::lane("main").map_err(text)?;
        let options = PublishOptions::new(prefix, lane, writer::publish_id());
        let mut begun = Instant::now();
        // The last thing before the first write.
        let judge = |_: &_| {
            begun = Instant::now();
            true
        };
        let outcome = writer::publish(
            &mut self.session,
            options,
            ready(Some(wanted)),
            judge,
            |_| {},
        )
        .await;
        self.commit = (begun, Instant::now());
        match outcome.map_err(text)? {
            PublishOutcome::Published {
                publish,
                unfinished: None,
                ..
            } => Ok(publish),
            other => Err(format!("{other:?}")),
        }
    }
}

/// Returns a cluster as it is published.
pub(super) fn entry(index: usize, generation: usize) -> (Entry, Arc<Stored>) {
    let resource = resource(Holding::Clusters, index, generation);
    let place = Place {
        group: None,
        resource_type: resource.resource_type().clone(),
        name: Arc::clone(resource.name()),
    };
    (place.into(), Arc::new(Stored::of_resource(&resource, None)))
}
