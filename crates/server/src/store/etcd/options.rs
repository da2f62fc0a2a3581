//! Options of the store.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use oxds_etcd::follower::{FollowerConfig, FollowerTiming};
use oxds_etcd::{Prefix, Segment};

use super::client::{ClientOptions, Endpoints};
use crate::store::{LastGood, StateOptions};

/// Options of an [`EtcdStore`](super::EtcdStore).
#[derive(Debug, Clone)]
pub struct EtcdStoreOptions {
    /// Members of the cluster.
    pub endpoints: Endpoints,
    /// Options of connections to them.
    pub client: ClientOptions,
    /// Prefix of the configuration.
    pub prefix: Prefix,
    /// Id of this replica: another one for each process.
    pub replica: Segment,
    /// Host at which other machines reach this replica, for its status key. Default: the addresses that the server
    /// listens on.
    pub advertise: Option<String>,
    /// Follow a store that went back to an earlier publish, instead of holding the served state (G-27). Default: false.
    pub accept_restored: bool,
    /// State that an earlier process of this prefix kept ([`SavedState::last_good`](crate::SavedState::last_good)).
    pub last_good: Option<Arc<LastGood>>,
    /// Interval at which the size of the database is read (G-26). Default: 1 minute.
    pub space_interval: Duration,
    /// Intervals and deadlines.
    pub timing: FollowerTiming,
}

impl EtcdStoreOptions {
    /// Makes options with the default intervals.
    #[must_use]
    pub fn new(
        endpoints: Endpoints,
        client: ClientOptions,
        prefix: Prefix,
        replica: Segment,
    ) -> Self {
        Self {
            endpoints,
            client,
            prefix,
            replica,
            advertise: None,
            accept_restored: false,
            last_good: None,
            space_interval: Duration::from_secs(60),
            timing: FollowerTiming::default(),
        }
    }

    /// Returns the options for a [`SavedState`](crate::SavedState) of a store with this prefix. The members do not
    /// count: they are replaced one by one, and the heads tell whether the content is another one.
    #[must_use]
    pub fn state(prefix: &Prefix) -> StateOptions {
        StateOptions::new(format!("etcd:{prefix}"))
    }

    /// Returns the configuration of the machine. Jitter is random.
    pub(super) fn follower(&self) -> FollowerConfig {
        FollowerConfig {
            members: self.endpoints.iter().count(),
            accept_restored: self.accept_restored,
            seed: random(),
            timing: self.timing,
            ..FollowerConfig::new(self.prefix.clone(), self.replica.clone())
        }
    }
}

/// Returns a random number: for jitter and the first member, not for secrets.
pub(super) fn random() -> u64 {
    RandomState::new().hash_one(0)
}
