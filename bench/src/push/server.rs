//! Our server in the push scenarios, and the lines that control it.
//!
//! | line | what happens | answer |
//! |---|---|---|
//! | `change` | the next resource changes | – |
//! | `poison` | resource 0 becomes large | – |
//! | `replace` | the whole state is replaced; the next resource is different | – |
//! | `storm RATE MILLIS` | changes at this rate per second for so long | how many |
//! | `cpu` | – | CPU time of the process, in microseconds |
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
use oxds_core::group::NodeMatcher;
use oxds_core::snapshot::Resource;
use oxds_server::{Cache, Limits, Security, Server};
use oxds_types::Glob;

use super::holding::Holding;
use super::keys;
use crate::serve::{ANY_PORT, obey};

/// Serves until the parent ends. Its hello has the addresses of the gRPC port and the HTTP port.
pub(crate) async fn serve(
    holding: Holding,
    count: usize,
    groups: usize,
    keys: Option<&Path>,
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
    server.run(obey(move |line| source.obey(line))).await;
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
    /// Argument of [`Self::replace`], made at its first call.
    encoded: Vec<Resource>,
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
        cache.replace((0..shared).map(|index| holding.resource(index, 0)));
        for group in 0..groups {
            let own = (shared..count).map(|index| holding.resource(index, 1 + group));
            cache.replace_group(&node_of(group), only(&node_of(group)), own);
        }
        Self {
            cache,
            holding,
            count,
            generation: 0,
            encoded: Vec::new(),
        }
    }

    fn obey(&mut self, line: &str) -> Option<String> {
        let mut words = line.split(' ');
        let word = words.next()?;
        let mut number = || words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
        match word {
            "cpu" => return Some(ProcessTime::now().as_duration().as_micros().to_string()),
            "change" => self.change(),
            "poison" => self.apply([self.holding.poison(0)]),
            "replace" => self.replace(),
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
        self.apply([self.holding.resource(index, self.generation)]);
    }

    /// From encoded messages, as a store has them.
    fn replace(&mut self) {
        self.generation += 1;
        let changed = self.generation % self.count;
        if self.encoded.is_empty() {
            let all = (0..self.count).map(|index| self.holding.resource(index, 0));
            self.encoded = all.collect();
        }
        self.encoded[changed] = self.holding.resource(changed, self.generation);
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
