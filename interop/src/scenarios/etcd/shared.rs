//! Requests, checks and contents of all scenarios with etcd.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use oxds_etcd::{Key, Prefix, Segment};
use oxds_server::store::etcd::client::{ClientOptions, Endpoints, EtcdClient, EtcdError, Reason};
use oxds_server::store::etcd::writer::{self, Session};
pub(super) use oxds_testkit::etcd::request::{operation, put, read, transaction, watch};

use crate::peers::replica::Publish;
use crate::{Context, Fallible};

/// Prefix of the configuration.
pub(super) const PREFIX: &str = "/oxds/default/";
/// The head of the lane `main`.
pub(super) const HEAD: &str = "/oxds/default/l/main/head";
/// The clusters of the lane `main`.
pub(super) const CLUSTERS: &str = "/oxds/default/l/main/r/envoy.config.cluster.v3.Cluster/";

/// Fails unless the call ended with this reason.
pub(super) fn refused<T>(answer: Result<T, EtcdError>, what: &str, expected: &Reason) -> Fallible {
    match answer {
        Ok(_) => Err(format!("{what}: succeeded, expected {expected}").into()),
        Err(error) if error.reason() == expected => Ok(()),
        Err(error) => Err(format!("{what}: {error}, expected {expected}").into()),
    }
}

/// Fails unless both are equal.
#[expect(
    clippy::needless_pass_by_value,
    reason = "most callers have temporary values"
)]
pub(super) fn equal<T: PartialEq + std::fmt::Debug>(what: &str, seen: T, expected: T) -> Fallible {
    if seen == expected {
        Ok(())
    } else {
        Err(format!("{what}: {seen:?}, expected {expected:?}").into())
    }
}

/// A folder, and the etcd that it is published to.
#[derive(Clone, Debug)]
pub(super) struct Content {
    cx: Context,
    folder: PathBuf,
    pub(super) urls: String,
}

impl Content {
    pub(super) fn of(cx: &Context, folder: &Path, urls: &str) -> Self {
        Self {
            cx: cx.clone(),
            folder: folder.to_owned(),
            urls: urls.to_owned(),
        }
    }

    /// Makes an empty folder of this name.
    pub(super) fn new(cx: &Context, name: &str, urls: &str) -> Fallible<Self> {
        let folder = cx.dir.join(name);
        std::fs::create_dir_all(&folder)?;
        Ok(Self::of(cx, &folder, urls))
    }

    /// Replaces the content by these clusters: names, and the text that each has in `alt_stat_name`.
    pub(super) fn set(&self, clusters: &[(&str, &str)]) -> Fallible {
        self.set_all(
            clusters
                .iter()
                .map(|(name, text)| ((*name).to_owned(), *text)),
        )
    }

    /// The same for many clusters.
    pub(super) fn set_all<'a>(
        &self,
        clusters: impl IntoIterator<Item = (String, &'a str)>,
    ) -> Fallible {
        let mut yaml = String::new();
        for (name, text) in clusters {
            let _ = write!(
                yaml,
                "---\n\"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster\nname: {name}\nconnect_timeout: 1s\nalt_stat_name: \"{text}\"\n"
            );
        }
        Ok(std::fs::write(self.folder.join("clusters.yaml"), yaml)?)
    }

    /// The command that publishes it.
    pub(super) fn command<'a>(&'a self, options: &'a [&'a str]) -> Publish<'a> {
        Publish {
            cx: &self.cx,
            urls: &self.urls,
            folder: &self.folder,
            options,
        }
    }

    /// Publishes it.
    pub(super) async fn publish(&self, options: &[&str]) -> Fallible {
        self.command(options).succeeds(&[]).await
    }

    /// Replaces the content by these clusters, and publishes it with the removals.
    pub(super) async fn replace(&self, clusters: &[(&str, &str)]) -> Fallible {
        self.set(clusters)?;
        self.publish(&["--prune"]).await
    }
}

/// The published state of a lane, as etcd itself has it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct InEtcd {
    pub(super) seq: u64,
    /// Names of the resources that the head vouches for.
    pub(super) names: Vec<String>,
    /// Number of staged keys, the marks of living writers included.
    pub(super) staged: i64,
}

impl InEtcd {
    /// Reads the lane `main`.
    pub(super) async fn read(urls: &str) -> Fallible<Self> {
        Self::of_lane(urls, "main").await
    }

    /// Reads a lane, and fails unless its head vouches for it.
    pub(super) async fn of_lane(urls: &str, lane: &str) -> Fallible<Self> {
        let endpoints: Endpoints = urls.parse()?;
        let options = ClientOptions::new(&endpoints, None)?;
        let prefix = Prefix::new(PREFIX.trim_end_matches('/'))?;
        let mut session = Session::new(endpoints, options);
        let published = writer::read(&mut session, &prefix).await?;
        let lane = Segment::lane(lane)?;
        let staged = format!("{PREFIX}l/{lane}/s/");
        let staged = session.range(read(&staged)).await?.count;
        let Some(state) = published.get(&lane) else {
            return Ok(Self {
                seq: 0,
                names: Vec::new(),
                staged,
            });
        };
        if !state.is_vouched || !state.unreadable.is_empty() {
            return Err(format!("no head vouches for lane {lane}: {:?}", state.head).into());
        }
        let names = state.entries.keys().filter_map(|entry| match entry {
            oxds_etcd::Entry::Resource(place) => Some(place.name.to_string()),
            oxds_etcd::Entry::Matcher(_) => None,
        });
        Ok(Self {
            seq: state.head.as_ref().map_or(0, |head| head.seq),
            names: names.collect(),
            staged,
        })
    }

    /// Fails unless the lane is like this, without a stage.
    pub(super) fn expect(&self, seq: u64, names: &[&str]) -> Fallible {
        let expected = Self {
            seq,
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            staged: 0,
        };
        if *self == expected {
            Ok(())
        } else {
            Err(format!("in etcd: {self:?}, expected {expected:?}").into())
        }
    }
}

/// The status key of a replica.
pub(super) fn status_key(replica: &str) -> Fallible<String> {
    let prefix = Prefix::new(PREFIX.trim_end_matches('/'))?;
    let key = prefix.key(&Key::Status(Segment::replica(replica)?));
    Ok(String::from_utf8(key.to_vec())?)
}

/// Number of keys with a prefix.
pub(super) async fn count(client: &EtcdClient, prefix: &str) -> Fallible<i64> {
    Ok(client.range(read(prefix)).await?.count)
}
