//! `oxds serve`: a control plane over a folder.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use oxds_server::{BindError, DirStore, FileSink, OnNack, Server};
use tracing::info;

use super::limits::LimitArgs;
use super::security::SecurityArgs;
use super::{dir_options, duration, runtime, unreadable};
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::signals::{self, Stop};

const EXAMPLES: &str = "\
Examples:
  oxds serve ./config
  oxds serve ./config --grpc 0.0.0.0:18000 --http 127.0.0.1:18001
  oxds serve ./config --grpc 127.0.0.1:0 --http 127.0.0.1:0       # ports of the system's choice

  curl http://127.0.0.1:18001/status.json      # who is connected, what they hold, what they refused
  curl http://127.0.0.1:18001/metrics          # for Prometheus

Once listening it prints the addresses, one per line: `grpc 127.0.0.1:18000`, `http 127.0.0.1:18001`.

A saved file is served within a tenth of a second, together with the others saved with it. A file \
with a mistake changes nothing of what it held before: the mistake is logged with its line, and \
shown in /status.json and /metrics until mended.

With --tls-client-ca clients must show a certificate, and --authorize says which nodes they may be:

  rules:
  - identity: spiffe://prod/ns/shop/sa/*     # a URI or DNS name in the certificate
    nodes: [shop-*]                          # node ids; ** also matches across slashes
    groups: [shop]                           # node groups of such nodes
    secrets: [shop-cert]                     # SDS secrets they may have
    inspect: false                           # whether they may ask CSDS what others have

Files of certificates and rules that change are read again within ten seconds.

SIGTERM and SIGINT stop in order: calls end, clients go elsewhere. SIGHUP reads the folder, the \
certificates and the rules again, at once.";

/// Serve a folder of resources to Envoy and gRPC clients, and follow its changes
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A folder of .yaml, .yml, .json, .textproto, .pb_text and .pb files, and of such folders
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Where clients connect: xDS, gRPC health and reflection
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:18000")]
    grpc: SocketAddr,
    /// Where people and Prometheus look: /status.json, /metrics, /healthz, /readyz
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:18001")]
    http: SocketAddr,
    /// Refuse references that lead nowhere, instead of warning
    #[arg(long)]
    strict: bool,
    /// Write what is served into this folder, too, for clients that read files: cds.json, eds/NAME.json, …
    #[arg(long, value_name = "DIR")]
    files: Option<PathBuf>,
    /// How long clients may take to leave after SIGTERM; then they are cut off
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    drain: Duration,
    #[command(flatten)]
    security: SecurityArgs,
    #[command(flatten)]
    limits: LimitArgs,
    /// What to do when clients refuse a change: go on serving it, or serve again what all had accepted
    #[arg(long, value_enum, default_value_t, value_name = "POLICY")]
    on_nack: OnNackPolicy,
    /// How many nodes may refuse a change before it is taken back
    #[arg(long, value_name = "NODES", default_value_t = 0)]
    nack_threshold: usize,
    /// Pass fields that this version of the API does not know, instead of refusing the file
    #[arg(long)]
    allow_unknown_fields: bool,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum OnNackPolicy {
    /// Clients keep what they had, whoever comes gets the change
    #[default]
    Keep,
    /// The resource returns to its last version that all clients accepted, until its file changes again
    Rollback,
}

impl Args {
    fn on_nack(&self) -> OnNack {
        match self.on_nack {
            OnNackPolicy::Keep => OnNack::Keep,
            OnNackPolicy::Rollback => OnNack::Rollback {
                threshold: self.nack_threshold,
            },
        }
    }
}

pub(crate) fn run(args: Args) -> Result<Exit, Failure> {
    runtime()?.block_on(serve(args))
}

async fn serve(args: Args) -> Result<Exit, Failure> {
    let on_nack = args.on_nack();
    let options = dir_options(args.allow_unknown_fields, args.strict);
    let store = DirStore::open(args.dir, options).map_err(|error| unreadable(&error))?;
    let mut limits = args.limits.limits();
    limits.drain = args.drain;
    let security = args.security.open().map_err(Failure::usage)?;
    let (mut stop, mut hangup, reload) = (Stop::listen()?, signals::reload()?, store.reload());
    let server = Server::builder()
        .grpc(args.grpc)
        .http(args.http)
        .identifier(replica())
        .security(security.clone())
        .limits(limits)
        .on_nack(on_nack)
        .store(store)
        .bind()
        .await
        .map_err(|error| in_use(&error))?;

    if let Some(folder) = args.files {
        tokio::spawn(FileSink::new(server.cache(), folder).run());
    }
    let mut output = Output::new();
    output.line(&format!("grpc {}", server.grpc_addr()))?;
    if let Some(http) = server.http_addr() {
        output.line(&format!("http {http}"))?;
    }
    let reloading = async {
        while hangup.recv().await.is_some() {
            info!("SIGHUP: reading everything again");
            reload.reload();
            security.reload();
        }
        std::future::pending::<()>().await;
    };
    let stopped = async {
        tokio::select! {
            signal = stop.next() => info!("{signal}: stopping"),
            () = reloading => {}
        }
    };
    server.run(stopped).await;
    Ok(Exit::Success)
}

fn in_use(error: &BindError) -> Failure {
    Failure::negative(error).hint("port 0 lets the system choose: --grpc 127.0.0.1:0")
}

/// What tells this process from its replicas, to clients that log whom they talk to.
fn replica() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname")
        .or_else(|_| std::env::var("HOSTNAME"))
        .unwrap_or_default();
    format!("oxds@{}", host.trim())
}
