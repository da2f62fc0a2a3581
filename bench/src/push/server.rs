//! Our server in the push scenarios, and the lines that control it.
//!
//! | line | what happens | answer |
//! |---|---|---|
//! | `change` | the next resource changes | – |
//! | `poison BATCH` | of the first resources, 0 becomes large and the others a little larger, all at once | – |
//! | `graph ROUTES` | a listener `graph` comes, with this number of routes to the clusters | – |
//! | `replace bytes`, `replace messages` | the whole state is replaced, from encoded resources or from messages; the next resource is different | – |
//! | `storm RATE MILLIS` | changes at this rate per second for so long | how many |
//! | `cpu` | – | CPU time of the process, in microseconds |
//! | `heap` | garbage is collected | bytes of the objects in use; `-` if they are not counted |
//!
//! The go-control-plane server of `peers/` obeys the same lines, as far as its caches can.

#![allow(
    clippy::print_stdout,
    reason = "parts talk to their parent over standard output"
)]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cpu_time::ProcessTime;
use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use oxds_core::group::NodeMatcher;
use oxds_core::snapshot::Resource;
use oxds_server::{Cache, Limits, Security, Server};
use oxds_types::{Glob, ResourceType};
use prost::Message as _;

use super::resources;
use crate::LiveHeap;
use crate::keys;
use crate::roles::Holding;
use crate::serve::{ANY_PORT, obey};

/// Serves until the parent ends. Its hello has the addresses of the gRPC port and the HTTP port.
pub(crate) async fn serve(
    holding: Holding,
    count: usize,
    groups: usize,
    keys: Option<&Path>,
    live_heap: LiveHeap,
) -> Result<(), String> {
    let mut source = Source::new(holding, count, groups);
    let cache = source.cache.clone();
    let mut limits = Limits::default();
    // The generator holds many streams on few connections where connections are not measured.
    limits.streams_per_connection = 10_000;
    let server = Server::builder()
        .grpc(ANY_PORT)
        .http(ANY_PORT)
        .limits(limits)
        .cache(cache)
        .security(keys.map_or(Ok(Security::default()), keys::security)?)
        .bind()
        .await
        .map_err(|error| error.to_string())?;
    let http = server.http_addr().ok_or("no HTTP port")?;
    println!("{} {http}", server.grpc_addr());
    let obey_line = move |line: &str| match (line, live_heap) {
        ("heap", Some(bytes)) => Some(bytes().to_string()),
        ("heap", None) => Some("-".to_owned()),
        (line, _) => source.obey(line),
    };
    server.run(obey(obey_line)).await;
    Ok(())
}

/// One in this many of a group's resources is its own.
pub(super) const OWN: usize = 100;

/// Name of a group, and of the one node in it.
pub(super) fn node_of(group: usize) -> String {
    format!("node-{group}")
}

fn only(id: &str) -> NodeMatcher {
    NodeMatcher {
        id: Some(Glob::exact(id)),
        ..NodeMatcher::default()
    }
}

/// Makes resources and changes them.
struct Source {
    cache: Cache,
    holding: Holding,
    count: usize,
    generation: usize,
    /// Argument of `replace bytes`, made at its first call.
    encoded: Vec<Resource>,
    /// Argument of `replace messages`, made at its first call.
    messages: Vec<Cluster>,
}

impl Source {
    fn new(holding: Holding, count: usize, groups: usize) -> Self {
        let cache = Cache::new();
        // A group's own resources are not visible to all nodes.
        let shared = if groups == 0 {
            count
        } else {
            count - count / OWN
        };
        cache.replace((0..shared).map(|index| resources::resource(holding, index, 0)));
        for group in 0..groups {
            let own = (shared..count).map(|index| resources::resource(holding, index, 1 + group));
            cache.replace_group(&node_of(group), only(&node_of(group)), own);
        }
        Self {
            cache,
            holding,
            count,
            generation: 0,
            encoded: Vec::new(),
            messages: Vec::new(),
        }
    }

    fn obey(&mut self, line: &str) -> Option<String> {
        let mut words = line.split(' ');
        let word = words.next()?;
        if let Some(form) = line.strip_prefix("replace ") {
            return self.replace(form);
        }
        let mut number = || words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
        match word {
            "cpu" => return Some(ProcessTime::now().as_duration().as_micros().to_string()),
            "change" => self.change(),
            "graph" => self.apply(resources::graph(number() as usize, self.count)),
            "poison" => {
                let others = (1..number() as usize).map(resources::marked);
                self.apply(std::iter::once(resources::poison(0)).chain(others));
            }
            "storm" => {
                let changes = self.storm(number(), Duration::from_millis(number()));
                return Some(changes.to_string());
            }
            other => return Some(format!("error: unknown line {other}")),
        }
        None
    }

    fn apply(&self, resources: impl IntoIterator<Item = Resource>) {
        self.cache.apply(resources.into_iter().collect());
    }

    fn change(&mut self) {
        self.generation += 1;
        let index = self.generation % self.count;
        self.apply([resources::resource(self.holding, index, self.generation)]);
    }

    fn replace(&mut self, form: &str) -> Option<String> {
        self.generation += 1;
        let changed = self.generation % self.count;
        match form {
            "bytes" => self.replace_from_bytes(changed),
            "messages" => self.replace_from_messages(changed),
            other => return Some(format!("error: unknown form {other}")),
        }
        None
    }

    /// From messages, as a program makes them.
    fn replace_from_messages(&mut self, changed: usize) {
        if self.messages.is_empty() {
            let all = (0..self.count).map(|index| resources::message(index, 0));
            self.messages = all.collect();
        }
        self.messages[changed] = resources::message(changed, self.generation);
        let encoded = |message: &Cluster| {
            let bytes = message.encode_to_vec();
            Resource::new(ResourceType::CLUSTER, message.name.as_str(), &bytes)
        };
        self.cache.replace(self.messages.iter().map(encoded));
    }

    /// From encoded messages, as a store has them.
    fn replace_from_bytes(&mut self, changed: usize) {
        if self.encoded.is_empty() {
            let all = (0..self.count).map(|index| resources::resource(self.holding, index, 0));
            self.encoded = all.collect();
        }
        self.encoded[changed] = resources::resource(self.holding, changed, self.generation);
        let kind = self.holding.resource_type();
        let again =
            |held: &Resource| Resource::new(kind.clone(), Arc::clone(held.name()), &held.value());
        self.cache.replace(self.encoded.iter().map(again));
    }

    /// Changes are due at fixed times: a late one is not dropped, unless the time is over.
    fn storm(&mut self, rate: u64, length: Duration) -> usize {
        let start = Instant::now();
        let every = Duration::from_secs(1) / u32::try_from(rate).unwrap_or(1).max(1);
        let mut changes = 0;
        while start.elapsed() < length {
            self.change();
            changes += 1;
            std::thread::sleep((every * changes).saturating_sub(start.elapsed()));
        }
        changes as usize
    }
}
