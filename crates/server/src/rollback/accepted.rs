//! Acceptance of the served versions by the clients.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use oxds_core::rollback::{Acceptance, RollbackKey, Served};
use oxds_core::snapshot::Resource;

use crate::cache::Cache;
use crate::clients::Clients;

/// The served resources of some keys, each with what the clients made of it.
#[derive(Debug, Default)]
pub(super) struct Accepted {
    cache: Cache,
    keys: BTreeMap<RollbackKey, Tally>,
}

#[derive(Debug)]
struct Tally {
    served: Arc<Resource>,
    /// Some client sees the version.
    seen: bool,
    /// Some client that sees it has not accepted it.
    lacking: bool,
}

impl Accepted {
    pub(super) fn of(cache: &Cache, clients: &Clients, keys: BTreeSet<RollbackKey>) -> Self {
        let tallies = keys.into_iter().filter_map(|key| {
            let tally = Tally {
                served: served(cache, &key)?,
                seen: false,
                lacking: false,
            };
            Some((key, tally))
        });
        let mut keys: BTreeMap<_, _> = tallies.collect();
        if !keys.is_empty() {
            clients.each(cache, |client, snapshot| {
                // A client in sync lacks nothing; it only shows that a client sees the resource.
                let in_sync = client.is_in_sync(snapshot);
                for (key, tally) in &mut keys {
                    if tally.lacking || in_sync && tally.seen {
                        continue;
                    }
                    let (resource_type, name) = (&key.resource_type, &*key.name);
                    if snapshot.get(resource_type, name) == Some(&tally.served)
                        && let Some(status) = client.resource(resource_type, name)
                    {
                        tally.seen = true;
                        tally.lacking = status.acked != Some(tally.served.version());
                    }
                }
            });
        }
        Self {
            cache: cache.clone(),
            keys,
        }
    }
}

impl Served for Accepted {
    fn served(&self, key: &RollbackKey) -> Option<Arc<Resource>> {
        match self.keys.get(key) {
            Some(tally) => Some(Arc::clone(&tally.served)),
            None => served(&self.cache, key),
        }
    }

    fn acceptance(&self, key: &RollbackKey) -> Acceptance {
        match self.keys.get(key) {
            Some(tally) if tally.lacking => Acceptance::Lacking,
            Some(tally) if tally.seen => Acceptance::All,
            _ => Acceptance::Unseen,
        }
    }
}

fn served(cache: &Cache, key: &RollbackKey) -> Option<Arc<Resource>> {
    match &key.group {
        None => cache.snapshot().get(&key.resource_type, &key.name).cloned(),
        Some(group) => cache.of_group(group, &key.resource_type, &key.name),
    }
}
