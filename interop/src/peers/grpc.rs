//! gRPC clients in other languages: a load generator each, with one command line for all.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use tokio::process::Command;

use crate::backend::METHOD;
use crate::calls::Calls;
use crate::config::LISTENER;
use crate::process::Process;
use crate::{Context, Fallible};

/// Calls in progress at once.
pub(super) const WORKERS: &str = "3";
/// From start to listening.
const START: Duration = Duration::from_secs(30);

/// gRPC implementations.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Grpc {
    /// C-core, through Python.
    Core,
    Go,
    /// JavaScript, on Node.
    Js,
}

impl Grpc {
    /// Part of a scenario's name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Core => "grpc_core",
            Self::Go => "grpc_go",
            Self::Js => "grpc_js",
        }
    }

    /// NACK reason for a cluster with `lb_policy: MAGLEV`, which the API allows and gRPC does not know.
    pub(crate) fn refusal_of_maglev(self) -> &'static str {
        match self {
            Self::Core => "LB policy is not supported",
            Self::Go => "unexpected lbPolicy MAGLEV",
            Self::Js => "unsupported lb_policy: MAGLEV",
        }
    }

    /// Whether a failure is the client's own, with any control plane. grpc-go activates a new config selector before
    /// the balancer knows the clusters that it selects (`ClientConn.applyServiceConfigAndBalancer`), so a call between
    /// the two finds no picker.
    pub(crate) fn is_own_race(self, failure: &str) -> bool {
        matches!(self, Self::Go) && failure.contains("unknown cluster selected for RPC")
    }

    /// Starts calling `xds:///shop` with the bootstrap file.
    pub(crate) fn call(self, cx: &Context, bootstrap: &Path) -> Fallible<GrpcLoad> {
        self.call_target(cx, bootstrap, &format!("xds:///{LISTENER}"))
    }

    /// Starts C-core with calls of `xds:///shop` and a CSDS service.
    pub(crate) async fn core_with_csds(
        cx: &Context,
        bootstrap: &Path,
    ) -> Fallible<(GrpcLoad, SocketAddr)> {
        let mut command = Self::Core.command(cx, bootstrap, &format!("xds:///{LISTENER}"));
        command.arg("csds");
        let mut load = GrpcLoad::spawn(cx, Self::Core.name(), command)?;
        let address = load.process.line("csds ", START).await?.parse()?;
        Ok((load, address))
    }

    /// Starts calls of a target of any scheme.
    pub(crate) fn call_target(
        self,
        cx: &Context,
        bootstrap: &Path,
        target: &str,
    ) -> Fallible<GrpcLoad> {
        GrpcLoad::spawn(cx, self.name(), self.command(cx, bootstrap, target))
    }

    pub(crate) fn command(self, cx: &Context, bootstrap: &Path, target: &str) -> Command {
        let mut command = match self {
            Self::Core => {
                let mut python = Command::new(&cx.programs.python.interpreter);
                python.arg(&cx.programs.python.client);
                python
            }
            Self::Go => Command::new(&cx.programs.go.client),
            Self::Js => {
                let mut node = Command::new("node");
                node.arg(&cx.programs.node.client);
                node.env("NODE_PATH", &cx.programs.node.modules);
                node
            }
        };
        command.args([target, METHOD, WORKERS]);
        command.env("GRPC_XDS_BOOTSTRAP", bootstrap);
        // Log ADS only: the logs of each call would hide it.
        command
            .env("GRPC_VERBOSITY", "ERROR")
            .env("GRPC_GO_LOG_SEVERITY_LEVEL", "warning");
        command
    }
}

/// A client that calls until it is dropped.
#[derive(Debug)]
pub(crate) struct GrpcLoad {
    pub(crate) calls: Calls,
    process: Process,
}

impl GrpcLoad {
    /// A program that prints a line for each call.
    pub(super) fn spawn(cx: &Context, name: &str, command: Command) -> Fallible<Self> {
        let calls = Calls::default();
        let record = calls.clone();
        let process = Process::spawn(name, command, &cx.dir, move |line| {
            if let Some(backend) = line.strip_prefix("ok ") {
                record.record(Ok(backend.to_owned()));
            } else if let Some(failure) = line.strip_prefix("err ") {
                record.record(Err(failure.to_owned()));
            }
        })?;
        Ok(GrpcLoad { calls, process })
    }
}
