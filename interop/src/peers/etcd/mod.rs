//! Released etcds: one member, or a cluster of three on loopback.

mod backup;
mod member;

use std::ffi::OsString;
use std::path::PathBuf;

use oxds_server::store::etcd::client::EtcdClient;
use tokio::process::Command;

use crate::process::output;
use crate::{Context, Fallible};
pub(crate) use member::Member;
use member::Site;

/// Releases of etcd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Release {
    /// 3.7, built from its Go module.
    Current,
    /// Debian's 3.4, at its end of life: the faulty peer.
    Debian,
}

impl Release {
    pub(crate) const BOTH: [Self; 2] = [Self::Current, Self::Debian];

    /// Part of a scenario's name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Current => "3_7",
            Self::Debian => "3_4",
        }
    }

    /// Beginning of the version that its members report.
    pub(crate) fn version(self) -> &'static str {
        match self {
            Self::Current => "3.7.",
            Self::Debian => "3.4.",
        }
    }

    fn program(self, cx: &Context) -> PathBuf {
        match self {
            Self::Current => cx.programs.etcd.server.clone(),
            Self::Debian => cx.programs.etcd.debian_server.clone(),
        }
    }
}

/// A cluster.
#[derive(Debug)]
pub(crate) struct Etcd {
    pub(crate) members: Vec<Member>,
    release: Release,
    etcdctl: PathBuf,
    /// Program that makes data of members from a backup.
    restorer: PathBuf,
}

/// Options of the start of a cluster.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup<'a> {
    pub(crate) members: usize,
    /// Beginning of the names of members, of their logs and of their folders.
    pub(crate) name: &'a str,
    /// More options of `etcd`.
    pub(crate) options: &'a [OsString],
    /// Clients connect by TLS; the options name the files.
    pub(crate) is_secure: bool,
}

impl Default for Setup<'_> {
    fn default() -> Self {
        Self {
            members: 1,
            name: "etcd",
            options: &[],
            is_secure: false,
        }
    }
}

impl Etcd {
    /// Starts a cluster of one member, with more options of `etcd`.
    pub(crate) async fn start(
        cx: &Context,
        release: Release,
        options: &[OsString],
    ) -> Fallible<Self> {
        let setup = Setup::default();
        Self::start_as(cx, release, Setup { options, ..setup }).await
    }

    /// Starts a cluster of three members.
    pub(crate) async fn start_three(cx: &Context, release: Release) -> Fallible<Self> {
        let setup = Setup::default();
        Self::start_as(
            cx,
            release,
            Setup {
                members: 3,
                ..setup
            },
        )
        .await
    }

    /// Starts a cluster, and waits until plaintext clients are served.
    pub(crate) async fn start_as(
        cx: &Context,
        release: Release,
        setup: Setup<'_>,
    ) -> Fallible<Self> {
        let mut sites = Vec::new();
        for index in 0..setup.members {
            let name = format!("{}-{index}", setup.name);
            sites.push(Site {
                data: cx.dir.join(&name),
                name,
                address: cx.address()?,
                peer: cx.address()?,
                is_secure: setup.is_secure,
            });
        }
        let cluster: Vec<_> = sites.iter().map(Site::as_peer).collect();
        let cluster = cluster.join(",");
        let program = release.program(cx);
        let start = |site: Site| Member::start(&program, site, &cluster, setup.options, &cx.dir);
        Ok(Self {
            members: sites.into_iter().map(start).collect::<Fallible<_>>()?,
            release,
            etcdctl: cx.programs.etcd.etcdctl.clone(),
            restorer: match release {
                Release::Current => cx.programs.etcd.etcdutl.clone(),
                Release::Debian => cx.programs.etcd.debian_etcdctl.clone(),
            },
        })
    }

    /// URLs of all members, separated by commas.
    pub(crate) fn urls(&self) -> String {
        let urls = self.members.iter().map(Member::url);
        urls.collect::<Vec<_>>().join(",")
    }

    /// Connects to the first member when the cluster has a leader.
    pub(crate) async fn connect(&self) -> Fallible<EtcdClient> {
        let [first, ..] = self.members.as_slice() else {
            return Err("a cluster has a member".into());
        };
        first.connect(&first.plain()?).await
    }

    /// Kills all members.
    pub(crate) async fn kill(&mut self) -> Fallible {
        for member in &mut self.members {
            member.kill().await?;
        }
        Ok(())
    }

    /// Starts all members again, with their data.
    pub(crate) fn restart(&mut self) -> Fallible {
        self.members.iter_mut().try_for_each(Member::restart)
    }

    /// Returns the index of the leader.
    pub(crate) async fn leader(&self) -> Fallible<usize> {
        let leader = self.connect().await?.status().await?.leader;
        for (index, member) in self.members.iter().enumerate() {
            let client = member.connect(&member.plain()?).await?;
            if client.identity().member == leader {
                return Ok(index);
            }
        }
        Err("no member is the leader".into())
    }

    /// Runs `etcdctl` with these arguments, and returns its stdout.
    pub(crate) async fn etcdctl(&self, arguments: &[&str]) -> Fallible<String> {
        self.etcdctl_at(&self.urls(), arguments).await
    }

    /// The same at these members only.
    async fn etcdctl_at(&self, urls: &str, arguments: &[&str]) -> Fallible<String> {
        let mut command = Command::new(&self.etcdctl);
        command.args(["--endpoints", urls]).args(arguments);
        Ok(String::from_utf8(output(command).await?)?)
    }
}
