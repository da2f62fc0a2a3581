//! The admin services of this process, and readers of them that use gRPC's own stubs.

use std::net::{Ipv4Addr, SocketAddr};

use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use oxds_channel::ClientPool;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio::task::{JoinHandle, JoinSet};

use crate::process::output;
use crate::{Context, Fallible};

/// The admin services of a pool, served until dropped.
#[derive(Debug)]
pub(crate) struct Admin {
    pub(crate) address: SocketAddr,
    task: JoinHandle<()>,
}

impl Admin {
    /// Serves them on a port that the system chooses, registered as a server of the pool.
    pub(crate) async fn serve(pool: &ClientPool) -> Fallible<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let (routes, _health) = oxds_client::admin::services(pool);
        let service = pool.channelz().server("admin", address).count(routes);
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let service = TowerToHyperService::new(service.clone());
                connections.spawn(async move {
                    let builder = auto::Builder::new(TokioExecutor::new());
                    let _ = builder
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        Ok(Self { address, task })
    }
}

impl Drop for Admin {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Programs that read the admin services.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reader {
    /// `peers/python/debug.py`
    Core,
    /// `peers/go/debug`, which reads as `grpcdebug` does.
    Go,
}

impl Reader {
    /// Returns everything that the process at `address` reports about itself.
    pub(crate) async fn read(
        self,
        cx: &Context,
        address: SocketAddr,
    ) -> Fallible<Vec<ChannelzEntry>> {
        let mut command = match self {
            Self::Core => {
                let mut python = Command::new(&cx.programs.python.interpreter);
                python.arg(&cx.programs.python.debug);
                python
            }
            Self::Go => Command::new(&cx.programs.go.debug),
        };
        command.arg(address.to_string());
        let text = String::from_utf8(output(command).await?)?;
        text.lines().map(ChannelzEntry::parse).collect()
    }
}

/// A channel, a subchannel, a socket, a server, a resource, or the health.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChannelzEntry {
    pub(crate) what: String,
    /// Target of the parent.
    pub(crate) of: String,
    pub(crate) target: String,
    pub(crate) state: String,
    pub(crate) local: String,
    pub(crate) remote: String,
    /// Calls started, succeeded, failed.
    pub(crate) calls: [u64; 3],
    pub(crate) created: u64,
}

impl ChannelzEntry {
    fn parse(line: &str) -> Fallible<Self> {
        let value: Value = serde_json::from_str(line)?;
        let text = |field: &str| value[field].as_str().unwrap_or_default().to_owned();
        let number = |field: &str| value[field].as_u64().unwrap_or_default();
        Ok(Self {
            what: text("what"),
            of: text("of"),
            target: text("target"),
            state: text("state"),
            local: text("local"),
            remote: text("remote"),
            calls: ["started", "succeeded", "failed"].map(number),
            created: number("created"),
        })
    }
}
