//! Watches: when etcd has committed a publish, and its content.

use std::time::Instant;

use oxds_server::store::etcd::client::{ClientOptions, Endpoints, EtcdClient};
use oxds_types::etcd::{KeyValue, WatchCreateRequest, prefix_end};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::etcd::{Etcd, LIMIT, ZERO};
use super::text::text;

/// Time when each revision arrived.
pub(super) type Times = mpsc::UnboundedReceiver<Instant>;

impl Etcd {
    /// Watches a prefix, and returns the time when each revision arrived.
    pub(super) async fn watch(&self, prefix: &str) -> Result<Times, String> {
        watch(&self.client, prefix).await
    }

    /// Does the same with a watch of each member: members apply a commit at different times.
    pub(super) async fn watch_all(&self, prefix: &str) -> Result<Vec<Times>, String> {
        let endpoints: Endpoints = self.urls.parse().map_err(text)?;
        let options = ClientOptions::new(&endpoints, None).map_err(text)?;
        let mut all = Vec::new();
        for member in endpoints.iter() {
            let client = EtcdClient::connect(member, &options).await.map_err(text)?;
            all.push(watch(&client, prefix).await?);
        }
        Ok(all)
    }

    /// Returns the number of keys that were written or deleted since a revision.
    pub(super) async fn keys_since(&self, revision: i64) -> Result<usize, String> {
        let all = (ZERO.to_vec(), ZERO.to_vec());
        let now = self.revision().await?;
        Ok(self.history(all, revision, now).await?.len())
    }

    /// Returns all events of a range of keys after a revision, up to the last one, which has a change of such a key. An
    /// empty end is a single key.
    pub(super) async fn history(
        &self,
        (key, range_end): (Vec<u8>, Vec<u8>),
        after: i64,
        last: i64,
    ) -> Result<Vec<KeyValue>, String> {
        let create = WatchCreateRequest {
            key: key.into(),
            range_end: range_end.into(),
            start_revision: after + 1,
            ..WatchCreateRequest::default()
        };
        let (mut stream, _) = self.client.watch(create).await.map_err(text)?;
        let (mut all, mut reached) = (Vec::new(), after);
        while reached < last {
            let response = timeout(LIMIT, stream.next());
            let response = response.await.map_err(text)?.map_err(text)?;
            all.extend(response.events.into_iter().filter_map(|event| event.kv));
            reached = all.last().map_or(after, |kv: &KeyValue| kv.mod_revision);
        }
        Ok(all)
    }
}

/// Watches a prefix over one connection. See [`Etcd::watch`].
async fn watch(client: &EtcdClient, prefix: &str) -> Result<Times, String> {
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
