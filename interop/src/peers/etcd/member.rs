//! A member of a cluster: a process, its addresses and its data.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use oxds_server::store::etcd::client::{ClientOptions, Endpoints, EtcdClient};
use tokio::process::Command;

use crate::Fallible;
use crate::process::{Process, Signal, output};
use crate::wait::until;

/// From start to a leader, on a busy machine.
const START: Duration = Duration::from_secs(60);

/// A member. Dropping it kills its process.
#[derive(Debug)]
pub(crate) struct Member {
    pub(super) site: Site,
    /// Members of the cluster, as `--initial-cluster` has them.
    pub(super) cluster: String,
    pub(crate) address: SocketAddr,
    program: PathBuf,
    arguments: Vec<OsString>,
    logs: PathBuf,
    process: Option<Process>,
}

/// Name, addresses and folder of a member: the arguments of a start and of a restart.
#[derive(Clone, Debug)]
pub(super) struct Site {
    pub(super) name: String,
    pub(super) address: SocketAddr,
    pub(super) peer: SocketAddr,
    pub(super) data: PathBuf,
    pub(super) is_secure: bool,
}

impl Site {
    /// The member as other members see it.
    pub(super) fn as_peer(&self) -> String {
        format!("{}={}", self.name, self.peer_url())
    }

    pub(super) fn peer_url(&self) -> String {
        format!("http://{}", self.peer)
    }

    fn client_url(&self) -> String {
        let scheme = if self.is_secure { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }
}

impl Member {
    pub(super) fn start(
        program: &Path,
        site: Site,
        cluster: &str,
        options: &[OsString],
        logs: &Path,
    ) -> Fallible<Self> {
        let (client_url, peer_url) = (site.client_url(), site.peer_url());
        let mut arguments: Vec<OsString> = [
            ("--name", site.name.as_str()),
            ("--listen-client-urls", &client_url),
            ("--advertise-client-urls", &client_url),
            ("--listen-peer-urls", &peer_url),
            ("--initial-advertise-peer-urls", &peer_url),
            ("--initial-cluster", cluster),
            ("--initial-cluster-state", "new"),
            ("--logger", "zap"),
            ("--log-level", "debug"),
        ]
        .into_iter()
        .flat_map(|(option, value)| [option.into(), value.into()])
        .collect();
        arguments.extend(options.iter().cloned());
        let mut member = Self {
            address: site.address,
            site,
            cluster: cluster.to_owned(),
            program: program.to_owned(),
            arguments,
            logs: logs.to_owned(),
            process: None,
        };
        member.restart()?;
        Ok(member)
    }

    /// URL for clients.
    pub(crate) fn url(&self) -> String {
        self.site.client_url()
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
        let mut command = Command::new(&self.program);
        command.args(&self.arguments);
        command.arg("--data-dir").arg(&self.site.data);
        self.process = Some(Process::spawn(
            &self.site.name,
            command,
            &self.logs,
            |_| (),
        )?);
        Ok(())
    }

    /// Keeps the data in another folder from the next start on.
    pub(super) fn move_data(&mut self, folder: PathBuf) {
        self.site.data = folder;
    }

    /// Copies the data to another folder, and uses that from the next start on.
    pub(crate) async fn copy_data(&mut self, folder: PathBuf) -> Fallible {
        let mut command = Command::new("cp");
        command.arg("--recursive").arg(&self.site.data).arg(&folder);
        output(command).await?;
        self.move_data(folder);
        Ok(())
    }

    /// The running process.
    pub(crate) fn process(&mut self) -> Fallible<&mut Process> {
        let stopped = || format!("{} does not run", self.site.name);
        self.process.as_mut().ok_or_else(|| stopped().into())
    }

    /// Stops the process, or continues it.
    pub(crate) async fn signal(&mut self, signal: Signal) -> Fallible {
        self.process()?.signal(signal).await
    }

    /// Waits for a line of its log with all these texts.
    pub(crate) async fn logs(&self, texts: &[&str], limit: Duration) -> Fallible {
        match &self.process {
            Some(process) => process.logs(texts, limit).await,
            None => Err("the member does not run".into()),
        }
    }
}
