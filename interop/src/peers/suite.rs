//! The programs of gRPC's xDS interop suite, ours and grpc-go's. They are driven as the suite's own driver does: by
//! flags and by the services of the client's stats port.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use oxds_interop_xds::messages::{
    ClientConfigureRequest, ClientConfigureResponse, ConfiguredMetadata,
    LoadBalancerAccumulatedStatsRequest, LoadBalancerAccumulatedStatsResponse,
    LoadBalancerStatsRequest, LoadBalancerStatsResponse, RpcType, path,
};
use oxds_interop_xds::wire::Connection;
use tokio::process::Command;
use tonic::Request;

use crate::config::LISTENER;
use crate::process::Process;
use crate::wait::until;
use crate::{Context, Fallible};

/// From start to listening.
const START: Duration = Duration::from_secs(30);
/// Time that the client may take for the calls of one request for statistics.
const CALLS: i32 = 20;

/// Makes of the programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Suite {
    Oxds,
    Go,
}

impl Suite {
    /// Part of a scenario's name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Oxds => "oxds",
            Self::Go => "go",
        }
    }

    fn index(self) -> usize {
        match self {
            Self::Oxds => 0,
            Self::Go => 1,
        }
    }
}

/// A running server.
#[derive(Debug)]
pub(crate) struct SuiteServer {
    process: Process,
    pub(crate) address: SocketAddr,
}

impl SuiteServer {
    /// Starts a server that answers as `host`.
    pub(crate) async fn start(cx: &Context, suite: Suite, host: &str) -> Fallible<Self> {
        let address = cx.address()?;
        let command = Self::command(cx, suite, host, address);
        Self::spawn(cx, host, command, address, address).await
    }

    /// Starts a server whose control plane configures its listener `0.0.0.0:PORT`.
    pub(crate) async fn start_secure(
        cx: &Context,
        suite: Suite,
        host: &str,
        bootstrap: &Path,
    ) -> Fallible<Self> {
        let (address, maintenance) = (cx.address()?, cx.address()?);
        let maintenance_port = format!("--maintenance_port={}", maintenance.port());
        let mut command = Self::command(cx, suite, host, address);
        command.args(["--secure_mode=true", &maintenance_port]);
        if suite == Suite::Oxds {
            // grpc-go's of 1.64 has no other.
            command.arg("--address_type=IPV4");
        }
        command.env("GRPC_XDS_BOOTSTRAP", bootstrap);
        Self::spawn(cx, host, command, address, maintenance).await
    }

    fn command(cx: &Context, suite: Suite, host: &str, address: SocketAddr) -> Command {
        let mut command = Command::new(&cx.programs.suite.servers[suite.index()]);
        command.arg(format!("--port={}", address.port()));
        command.arg(format!("--host_name_override={host}"));
        command
    }

    /// Starts the process, and waits until it listens on `ready`.
    async fn spawn(
        cx: &Context,
        host: &str,
        command: Command,
        address: SocketAddr,
        ready: SocketAddr,
    ) -> Fallible<Self> {
        let mut process = Process::spawn(&format!("server-{host}"), command, &cx.dir, |_| ())?;
        connect(&mut process, ready).await?;
        Ok(Self { process, address })
    }

    /// Sends SIGKILL and waits for the end.
    pub(crate) async fn kill(self) -> Fallible {
        self.process.kill().await
    }
}

/// A running client, which calls `xds:///shop`.
#[derive(Debug)]
pub(crate) struct SuiteClient {
    process: Process,
    stats: Connection,
    /// Stats port, which serves CSDS, too.
    pub(crate) address: SocketAddr,
}

impl SuiteClient {
    /// Starts calling, with the bootstrap file and the suite's flags.
    pub(crate) async fn start(
        cx: &Context,
        suite: Suite,
        bootstrap: &Path,
        flags: &[&str],
    ) -> Fallible<Self> {
        let address = cx.address()?;
        let mut command = Command::new(&cx.programs.suite.clients[suite.index()]);
        command.arg(format!("--server=xds:///{LISTENER}"));
        command.arg(format!("--stats_port={}", address.port()));
        command.args(flags);
        command.env("GRPC_XDS_BOOTSTRAP", bootstrap);
        command.env("GRPC_GO_LOG_SEVERITY_LEVEL", "warning");
        let mut process = Process::spawn("suite-client", command, &cx.dir, |_| ())?;
        let stats = connect(&mut process, address).await?;
        Ok(Self {
            process,
            stats,
            address,
        })
    }

    /// Hosts that answered the next calls.
    pub(crate) async fn next(&self, num_rpcs: i32) -> Fallible<LoadBalancerStatsResponse> {
        let request = Request::new(LoadBalancerStatsRequest {
            num_rpcs,
            timeout_sec: CALLS,
            metadata_keys: Vec::new(),
        });
        Ok(self
            .stats
            .call(path::CLIENT_STATS, request)
            .await?
            .into_inner())
    }

    /// Repeats the request until the hosts that answered `n` calls satisfy the condition.
    pub(crate) async fn settle(
        &mut self,
        what: &str,
        n: i32,
        limit: Duration,
        wanted: impl Fn(&LoadBalancerStatsResponse) -> bool,
    ) -> Fallible<LoadBalancerStatsResponse> {
        until(what, limit, async || {
            self.running()?;
            let seen = self.next(n).await?;
            if wanted(&seen) {
                Ok(Some(seen))
            } else {
                Err(format!("{seen:?}").into())
            }
        })
        .await
    }

    /// Accumulated results of all calls.
    pub(crate) async fn total(&self) -> Fallible<LoadBalancerAccumulatedStatsResponse> {
        let request = Request::new(LoadBalancerAccumulatedStatsRequest {});
        let total = self.stats.call(path::ACCUMULATED_STATS, request).await?;
        Ok(total.into_inner())
    }

    /// Returns an error if more than this many calls have failed since the start.
    pub(crate) async fn at_most_failed(&self, most: i32) -> Fallible {
        let total = self.total().await?;
        let failed: i32 = total.num_rpcs_failed_by_method.values().sum();
        if failed <= most {
            return Ok(());
        }
        Err(format!("{failed} calls failed: {:?}", total.stats_per_method).into())
    }

    /// Sets the methods and metadata of the calls from now on.
    pub(crate) async fn configure(
        &self,
        types: &[RpcType],
        metadata: &[(RpcType, &str, &str)],
        timeout_sec: i32,
    ) -> Fallible {
        let configured = metadata
            .iter()
            .map(|(kind, key, value)| ConfiguredMetadata {
                kind: (*kind).into(),
                key: (*key).to_owned(),
                value: (*value).to_owned(),
            });
        let request = Request::new(ClientConfigureRequest {
            types: types.iter().map(|kind| (*kind).into()).collect(),
            metadata: configured.collect(),
            timeout_sec,
        });
        let done: tonic::Response<ClientConfigureResponse> =
            self.stats.call(path::CONFIGURE, request).await?;
        drop(done);
        Ok(())
    }

    /// Returns an error if the client has ended by itself, as `--fail_on_failed_rpc` makes it.
    pub(crate) fn running(&mut self) -> Fallible {
        self.process.running()
    }
}

/// Waits until the process listens.
async fn connect(process: &mut Process, address: SocketAddr) -> Fallible<Connection> {
    until(&format!("a listener on {address}"), START, async || {
        process.running()?;
        Ok(Some(Connection::open(address).await?))
    })
    .await
}
