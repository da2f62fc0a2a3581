//! Released etcds: one member, or a cluster of three on loopback.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use oxds_server::store::etcd::client::{ClientOptions, Endpoints, EtcdClient};
use tokio::process::Command;

use crate::process::{Process, output};
use crate::wait::until;
use crate::{Context, Fallible};

/// From start to a leader, on a busy machine.
const START: Duration = Duration::from_secs(60);

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
            Self::Current => cx.peers.etcd.clone(),
            Self::Debian => cx.peers.etcd_debian.clone(),
        }
    }
}

/// A running member. Dropping it kills the process.
#[derive(Debug)]
pub(crate) struct Member {
    name: String,
    command: MemberCommand,
    process: Option<Process>,
    pub(crate) address: SocketAddr,
    is_secure: bool,
}

/// Everything that a start needs, and so a restart.
#[derive(Clone, Debug)]
struct MemberCommand {
    program: PathBuf,
    arguments: Vec<OsString>,
    dir: PathBuf,
}

/// A cluster.
#[derive(Debug)]
pub(crate) struct Etcd {
    pub(crate) members: Vec<Member>,
    etcdctl: PathBuf,
}

impl Etcd {
    /// Starts a cluster of one member, with more options of `etcd`.
    pub(crate) async fn start(
        cx: &Context,
        release: Release,
        options: &[OsString],
    ) -> Fallible<Self> {
        Self::start_members(cx, release, 1, options, false).await
    }

    /// Starts a cluster of one member with TLS to clients; `options` name the files.
    pub(crate) async fn start_secure(
        cx: &Context,
        release: Release,
        options: &[OsString],
    ) -> Fallible<Self> {
        Self::start_members(cx, release, 1, options, true).await
    }

    /// Starts a cluster of three members.
    pub(crate) async fn start_three(cx: &Context, release: Release) -> Fallible<Self> {
        Self::start_members(cx, release, 3, &[], false).await
    }

    async fn start_members(
        cx: &Context,
        release: Release,
        count: usize,
        options: &[OsString],
        is_secure: bool,
    ) -> Fallible<Self> {
        let mut members = Vec::new();
        for index in 0..count {
            let name = format!("etcd-{index}");
            members.push((name, cx.address()?, cx.address()?));
        }
        let cluster = members
            .iter()
            .map(|(name, _, peer)| format!("{name}=http://{peer}"))
            .collect::<Vec<_>>()
            .join(",");
        let scheme = if is_secure { "https" } else { "http" };
        let start = |(name, address, peer): (String, SocketAddr, SocketAddr)| {
            let client_url = format!("{scheme}://{address}");
            let peer_url = format!("http://{peer}");
            let mut arguments: Vec<OsString> = [
                ("--name", name.as_str()),
                ("--listen-client-urls", &client_url),
                ("--advertise-client-urls", &client_url),
                ("--listen-peer-urls", &peer_url),
                ("--initial-advertise-peer-urls", &peer_url),
                ("--initial-cluster", &cluster),
                ("--initial-cluster-state", "new"),
                ("--logger", "zap"),
                ("--log-level", "debug"),
            ]
            .into_iter()
            .flat_map(|(option, value)| [option.into(), value.into()])
            .collect();
            arguments.extend(["--data-dir".into(), cx.dir.join(&name).into()]);
            arguments.extend(options.iter().cloned());
            let command = MemberCommand {
                program: release.program(cx),
                arguments,
                dir: cx.dir.clone(),
            };
            Ok(Member {
                process: Some(command.start(&name)?),
                name,
                command,
                address,
                is_secure,
            })
        };
        Ok(Self {
            members: members
                .into_iter()
                .map(start)
                .collect::<Fallible<Vec<Member>>>()?,
            etcdctl: cx.peers.etcdctl.clone(),
        })
    }

    /// URLs of all members, separated by commas.
    pub(crate) fn urls(&self) -> String {
        let urls = self.members.iter().map(Member::url);
        urls.collect::<Vec<_>>().join(",")
    }

    /// Connects to the first member once there is a leader.
    pub(crate) async fn connect(&self) -> Fallible<EtcdClient> {
        let [first, ..] = self.members.as_slice() else {
            return Err("a cluster has a member".into());
        };
        first.connect(&first.plain()?).await
    }

    /// Runs `etcdctl` with these arguments, and returns its stdout.
    pub(crate) async fn etcdctl(&self, arguments: &[&str]) -> Fallible<String> {
        let mut command = Command::new(&self.etcdctl);
        command.args(["--endpoints", &self.urls()]).args(arguments);
        Ok(String::from_utf8(output(command).await?)?)
    }
}

impl MemberCommand {
    fn start(&self, name: &str) -> Fallible<Process> {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments);
        Process::spawn(name, command, &self.dir, |_| ())
    }
}

impl Member {
    /// URL for clients.
    pub(crate) fn url(&self) -> String {
        let scheme = if self.is_secure { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// Options of a client without TLS and user.
    pub(crate) fn plain(&self) -> Fallible<ClientOptions> {
        let endpoints: Endpoints = self.url().parse()?;
        Ok(ClientOptions::new(&endpoints, None)?.timeout(Duration::from_secs(20)))
    }

    /// Connects once the member knows a leader.
    pub(crate) async fn connect(&self, options: &ClientOptions) -> Fallible<EtcdClient> {
        let endpoint = self.url().parse()?;
        until("a leader of etcd", START, async || {
            let client = EtcdClient::connect(&endpoint, options).await?;
            let has_leader = client.status().await?.leader != 0;
            Ok(has_leader.then_some(client))
        })
        .await
    }

    /// Sends SIGKILL and waits for the end.
    pub(crate) async fn kill(&mut self) -> Fallible {
        match self.process.take() {
            Some(process) => process.kill().await,
            None => Ok(()),
        }
    }

    /// Starts the member again, with its data.
    pub(crate) fn restart(&mut self) -> Fallible {
        self.process = Some(self.command.start(&self.name)?);
        Ok(())
    }

    /// Waits for a line of its log with all these texts.
    pub(crate) async fn logs(&self, texts: &[&str], limit: Duration) -> Fallible {
        match &self.process {
            Some(process) => process.logs(texts, limit).await,
            None => Err("the member does not run".into()),
        }
    }
}
