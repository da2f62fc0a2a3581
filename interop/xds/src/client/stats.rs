//! Statistics of calls by answering host: since the start, and for the next calls from a moment on.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tonic::metadata::{KeyAndValueRef, MetadataMap};
use tonic::{Code, Status};

use crate::messages::{
    LoadBalancerAccumulatedStatsResponse, LoadBalancerStatsRequest, LoadBalancerStatsResponse,
    MetadataEntry, MetadataType, MethodStats, RpcMetadata, RpcType,
};

/// Response of a successful call.
#[derive(Clone, Debug, Default)]
pub(super) struct Answer {
    /// Host that answered; empty if the response has no host.
    pub(super) host: String,
    pub(super) initial: MetadataMap,
    pub(super) trailing: MetadataMap,
}

/// The counts of one client.
#[derive(Debug, Default)]
pub(super) struct Stats(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    /// Number of the next call.
    next: u64,
    totals: BTreeMap<RpcType, MethodStats>,
    /// Key of the next watcher.
    key: u64,
    watchers: BTreeMap<u64, Watcher>,
}

/// A watcher of the next calls.
#[derive(Debug)]
struct Watcher {
    /// The watched calls: those that start next, whichever end first.
    calls: Range<u64>,
    /// Number of watched calls that have not ended.
    left: u64,
    keys_requested: RequestedKeys,
    seen: LoadBalancerStatsResponse,
    ended: Option<oneshot::Sender<()>>,
}

/// Requested metadata keys.
#[derive(Debug)]
enum RequestedKeys {
    All,
    /// In lower case.
    Keys(Vec<String>),
}

impl Stats {
    /// Registers the start of a call and returns its number.
    pub(super) fn begin(&self, kind: RpcType) -> u64 {
        let mut counts = self.lock();
        counts.totals.entry(kind).or_default().rpcs_started += 1;
        let call = counts.next;
        counts.next += 1;
        call
    }

    /// Registers the end of a call.
    pub(super) fn end(&self, call: u64, kind: RpcType, outcome: &Result<Answer, Status>) {
        let code = outcome.as_ref().map_or_else(Status::code, |_| Code::Ok);
        let mut counts = self.lock();
        let results = &mut counts.totals.entry(kind).or_default().result;
        *results.entry(code as i32).or_default() += 1;
        for watcher in counts.watchers.values_mut() {
            if watcher.calls.contains(&call) {
                watcher.end(kind, outcome.as_ref().ok());
            }
        }
    }

    /// Counts since the start.
    pub(super) fn accumulated(&self) -> LoadBalancerAccumulatedStatsResponse {
        let counts = self.lock();
        let mut response = LoadBalancerAccumulatedStatsResponse::default();
        for (kind, stats) in &counts.totals {
            let name = kind.name().to_owned();
            let ended: i32 = stats.result.values().sum();
            let succeeded = stats.result.get(&0).copied().unwrap_or(0);
            let r = &mut response;
            r.num_rpcs_started_by_method
                .insert(name.clone(), stats.rpcs_started);
            r.num_rpcs_succeeded_by_method
                .insert(name.clone(), succeeded);
            r.num_rpcs_failed_by_method
                .insert(name.clone(), ended - succeeded);
            r.stats_per_method.insert(name, stats.clone());
        }
        response
    }

    /// Waits for the next calls to end, for the time of the request. Dropping the future removes the watcher.
    pub(super) async fn next(
        &self,
        request: &LoadBalancerStatsRequest,
    ) -> Result<LoadBalancerStatsResponse, Status> {
        let number = |name: &str, value: i32| {
            u64::try_from(value)
                .map_err(|_| Status::invalid_argument(format!("{name}: {value} is less than 0")))
        };
        let calls = number("num_rpcs", request.num_rpcs)?;
        let limit = Duration::from_secs(number("timeout_sec", request.timeout_sec)?);
        let (registration, ended) = self.watch(calls, &request.metadata_keys);
        if calls > 0 {
            // The calls that ended in time are the response.
            let _ = tokio::time::timeout(limit, ended).await;
        }
        Ok(registration.take())
    }

    fn watch(&self, calls: u64, keys: &[String]) -> (Registration<'_>, oneshot::Receiver<()>) {
        let (ended, end) = oneshot::channel();
        let mut counts = self.lock();
        let watcher = Watcher {
            calls: counts.next..counts.next.saturating_add(calls),
            left: calls,
            keys_requested: RequestedKeys::of(keys),
            seen: LoadBalancerStatsResponse::default(),
            ended: Some(ended),
        };
        let key = counts.key;
        counts.key += 1;
        counts.watchers.insert(key, watcher);
        (Registration { stats: self, key }, end)
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Registration of a watcher; dropping it removes the watcher.
struct Registration<'a> {
    stats: &'a Stats,
    key: u64,
}

impl Registration<'_> {
    /// Returns the counts so far; calls that did not end count as failed.
    fn take(self) -> LoadBalancerStatsResponse {
        let watcher = self.stats.lock().watchers.remove(&self.key);
        let mut seen = LoadBalancerStatsResponse::default();
        if let Some(watcher) = watcher {
            let left = i32::try_from(watcher.left).unwrap_or(i32::MAX);
            seen = watcher.seen;
            seen.num_failures = seen.num_failures.saturating_add(left);
        }
        seen
    }
}

impl Drop for Registration<'_> {
    fn drop(&mut self) {
        self.stats.lock().watchers.remove(&self.key);
    }
}

impl Watcher {
    fn end(&mut self, kind: RpcType, answer: Option<&Answer>) {
        match answer.filter(|answer| !answer.host.is_empty()) {
            None => self.seen.num_failures += 1,
            Some(answer) => self.answered(kind, answer),
        }
        self.left = self.left.saturating_sub(1);
        if self.left == 0
            && let Some(ended) = self.ended.take()
        {
            // The requester may have disconnected.
            let _ = ended.send(());
        }
    }

    fn answered(&mut self, kind: RpcType, answer: &Answer) {
        let host = &answer.host;
        let method = kind.method().to_owned();
        *self.seen.rpcs_by_peer.entry(host.clone()).or_default() += 1;
        let of_method = self.seen.rpcs_by_method.entry(method).or_default();
        *of_method.rpcs_by_peer.entry(host.clone()).or_default() += 1;
        if self.keys_requested.nothing() {
            return;
        }
        let mut metadata = self
            .keys_requested
            .pick(&answer.initial, MetadataType::Initial);
        metadata.extend(
            self.keys_requested
                .pick(&answer.trailing, MetadataType::Trailing),
        );
        let of_peer = self.seen.metadatas_by_peer.entry(host.clone()).or_default();
        of_peer.rpc_metadata.push(RpcMetadata { metadata });
    }
}

impl RequestedKeys {
    fn of(keys: &[String]) -> Self {
        if keys.iter().any(|key| key == "*") {
            return Self::All;
        }
        Self::Keys(keys.iter().map(|key| key.to_ascii_lowercase()).collect())
    }

    fn nothing(&self) -> bool {
        matches!(self, Self::Keys(keys) if keys.is_empty())
    }

    fn wants(&self, key: &str) -> bool {
        match self {
            Self::All => true,
            Self::Keys(keys) => keys.iter().any(|own| own == key),
        }
    }

    fn pick(&self, metadata: &MetadataMap, kind: MetadataType) -> Vec<MetadataEntry> {
        let entries = metadata.iter().map(|entry| match entry {
            KeyAndValueRef::Ascii(key, value) => (key.as_str(), value.as_encoded_bytes()),
            KeyAndValueRef::Binary(key, value) => (key.as_str(), value.as_encoded_bytes()),
        });
        let requested = entries.filter(|(key, _)| self.wants(key));
        requested
            .map(|(key, value)| MetadataEntry {
                key: key.to_owned(),
                value: String::from_utf8_lossy(value).into_owned(),
                kind: kind.into(),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests;
