//! The store of `oxds serve`: a folder, or etcd.

use std::future;
use std::net::SocketAddr;
use std::path::PathBuf;

use oxds_server::dir::Reload;
use oxds_server::{Builder, DirStore, SavedState, StateOptions};
use oxds_types::runtime::Runtime;

use super::args::lifecycle::LifecycleArgs;
use super::followed_policy::{self, FollowedPolicy};
use super::{files, state, unreadable};
use crate::exit::Failure;

/// Source of the configuration.
#[derive(Debug)]
pub(super) enum Source {
    Folder(PathBuf),
    #[cfg(feature = "etcd")]
    Etcd(Box<EtcdSource>),
}

/// A configuration in etcd, for one replica.
#[cfg(feature = "etcd")]
#[derive(Debug)]
pub(super) struct EtcdSource {
    pub(super) access: super::args::etcd::EtcdTarget,
    /// Id of the replica, if the operator has set it.
    pub(super) replica: Option<String>,
    /// Host at which other machines reach the replica, if the operator has set it.
    pub(super) advertise: Option<String>,
    pub(super) accept_restored: bool,
}

/// Options of a folder that is served.
#[derive(Debug)]
pub(super) struct FolderOptions {
    pub(super) options: oxds_server::dir::Options,
    pub(super) lifecycle: LifecycleArgs,
}

/// The running store, as far as the command deals with it.
#[derive(Default)]
pub(super) struct RunningStore {
    reload: Option<Reload>,
    followed: Option<FollowedPolicy>,
    #[cfg(feature = "etcd")]
    unusable: Option<oxds_server::store::etcd::Unusable>,
}

impl Source {
    /// Returns the options of the state on disk for this source, if it may be in this folder.
    pub(super) fn state(&self, folder: &std::path::Path) -> Result<StateOptions, Failure> {
        match self {
            Self::Folder(dir) => {
                state::check(dir, folder)?;
                Ok(StateOptions::of_folder(dir))
            }
            #[cfg(feature = "etcd")]
            Self::Etcd(source) => Ok(oxds_server::store::etcd::EtcdStoreOptions::state(
                &source.access.prefix,
            )),
        }
    }

    /// Prepares the folder of `--files`.
    pub(super) fn prepare_files(&self, out: &std::path::Path) -> Result<(), Failure> {
        match self {
            Self::Folder(dir) => files::prepare(dir, out),
            #[cfg(feature = "etcd")]
            Self::Etcd(_) => files::prepare_alone(out),
        }
    }

    /// Opens the store, and feeds the server from it.
    pub(super) fn open(
        self,
        builder: Builder,
        folder: FolderOptions,
        runtime: &Runtime,
        grpc: SocketAddr,
        state: Option<&SavedState>,
    ) -> Result<(Builder, RunningStore), Failure> {
        let last_good = state.and_then(SavedState::last_good);
        match self {
            Self::Folder(dir) => {
                // The address names a replica, which only etcd has.
                let _ = grpc;
                let FolderOptions {
                    mut options,
                    lifecycle,
                } = folder;
                let policy = lifecycle.policy(followed_policy::reader(runtime))?;
                options.codec.policy = policy.clone();
                options.last_good = last_good;
                let store = DirStore::open(dir, options).map_err(|error| unreadable(&error))?;
                let followed = FollowedPolicy::new(lifecycle, policy, store.policy(), runtime);
                let running = RunningStore {
                    reload: Some(store.reload()),
                    followed: Some(followed),
                    #[cfg(feature = "etcd")]
                    unusable: None,
                };
                Ok((builder.store(store), running))
            }
            #[cfg(feature = "etcd")]
            Self::Etcd(source) => {
                let _ = (folder, runtime);
                let options = source.options(grpc, last_good)?;
                let (store, unusable) = oxds_server::store::etcd::EtcdStore::new(options);
                let running = RunningStore {
                    unusable: Some(unusable),
                    ..RunningStore::default()
                };
                Ok((builder.store(store), running))
            }
        }
    }
}

#[cfg(feature = "etcd")]
impl EtcdSource {
    fn options(
        self,
        grpc: SocketAddr,
        last_good: Option<std::sync::Arc<oxds_server::LastGood>>,
    ) -> Result<oxds_server::store::etcd::EtcdStoreOptions, Failure> {
        use oxds_server::store::etcd::{EtcdStoreOptions, Segment};
        let replica = self.replica.unwrap_or_else(|| replica_id(grpc));
        let replica = Segment::replica(&replica)
            .map_err(|error| Failure::usage(format_args!("--replica: {error}")))?;
        let super::args::etcd::EtcdTarget {
            endpoints,
            client,
            prefix,
        } = self.access;
        let mut options = EtcdStoreOptions::new(endpoints, client, prefix, replica);
        let is_unspecified = grpc.ip().is_unspecified();
        options.advertise = self.advertise.or_else(|| is_unspecified.then(super::host));
        options.accept_restored = self.accept_restored;
        options.last_good = last_good;
        Ok(options)
    }
}

/// Returns the id of a replica: the same after a restart, if the port is. The system's choice of a port is not known
/// yet.
#[cfg(feature = "etcd")]
fn replica_id(grpc: SocketAddr) -> String {
    use std::hash::{BuildHasher as _, RandomState};
    let host = super::host();
    match grpc.port() {
        0 => format!("{host}-{:016x}", RandomState::new().hash_one(0)),
        port => format!("{host}:{port}"),
    }
}

impl RunningStore {
    /// Reads files and ledger again.
    pub(super) fn reload(&self) {
        if let Some(followed) = &self.followed {
            followed.look_now();
        }
        if let Some(reload) = &self.reload {
            reload.reload();
        }
    }

    /// Follows ledger and date; never returns without an error.
    pub(super) async fn follow(&self) {
        match &self.followed {
            Some(followed) => followed.follow().await,
            None => future::pending().await,
        }
    }

    /// Takes the wait for the reason why the store can never serve.
    pub(super) fn take_unusable(&mut self) -> impl Future<Output = Failure> + use<> {
        #[cfg(feature = "etcd")]
        let unusable = self.unusable.take();
        async move {
            #[cfg(feature = "etcd")]
            if let Some(unusable) = unusable {
                let reason = unusable.reason().await;
                return Failure::negative(format_args!("--etcd: {reason}"));
            }
            future::pending().await
        }
    }
}
