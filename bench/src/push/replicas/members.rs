//! The processes of an etcd cluster.

use std::path::PathBuf;

use tempfile::TempDir;

use super::ports::HeldPorts;
use super::text::text;
use crate::program::program;
use crate::roles::{Part, Processors};

/// Members of the cluster.
const MEMBERS: usize = 3;

/// Members that are killed and started again, on their ports and with their data.
#[derive(Debug)]
pub(super) struct Members {
    program: PathBuf,
    all: Vec<Member>,
    _folder: TempDir,
    _ports: HeldPorts,
}

#[derive(Debug)]
struct Member {
    url: String,
    arguments: Vec<String>,
    /// `None` while it is dead.
    part: Option<Part>,
}

impl Members {
    /// Starts the members, which have no leader yet.
    pub(super) fn start() -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(text)?;
        let mut ports = HeldPorts::default();
        let mut addresses = Vec::new();
        for member in 0..MEMBERS {
            let mut url = || ports.hold().map(|address| format!("http://{address}"));
            addresses.push((format!("m{member}"), url()?, url()?));
        }
        let all: Vec<_> = addresses
            .iter()
            .map(|(name, _, peer)| format!("{name}={peer}"))
            .collect();
        let in_folder = |name: &str| folder.path().join(name).display().to_string();
        let members = addresses.iter().map(|(name, client, peer)| Member {
            url: client.clone(),
            arguments: vec![
                format!("--name={name}"),
                format!("--data-dir={}", in_folder(name)),
                format!("--log-outputs={}", in_folder(&format!("{name}.log"))),
                format!("--listen-client-urls={client}"),
                format!("--advertise-client-urls={client}"),
                format!("--listen-peer-urls={peer}"),
                format!("--initial-advertise-peer-urls={peer}"),
                format!("--initial-cluster={}", all.join(",")),
            ],
            part: None,
        });
        let mut members = Self {
            program: program("OXDS_BENCH_ETCD")?,
            all: members.collect(),
            _folder: folder,
            _ports: ports,
        };
        members.restart()?;
        Ok(members)
    }

    /// URLs of the members, dead ones included.
    pub(super) fn urls(&self) -> Vec<String> {
        self.all.iter().map(|member| member.url.clone()).collect()
    }

    /// Kills the member with this number.
    pub(super) fn kill(&mut self, member: usize) {
        // A part is killed when it is dropped.
        self.all[member].part = None;
    }

    /// Kills all members.
    pub(super) fn kill_all(&mut self) {
        for member in 0..self.all.len() {
            self.kill(member);
        }
    }

    /// Starts the members that are dead.
    pub(super) fn restart(&mut self) -> Result<(), String> {
        for member in self.all.iter_mut().filter(|member| member.part.is_none()) {
            let started =
                Part::start_program_measuring(&self.program, Processors::Alone, &member.arguments);
            member.part = Some(started?);
        }
        Ok(())
    }
}
