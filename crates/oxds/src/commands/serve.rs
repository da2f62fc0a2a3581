//! `oxds serve`: a control plane over a folder.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use oxds_server::{BindError, DirStore, FileSink, OnNack, Server};
use tracing::info;

use super::files;
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
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:18000", value_parser = socket)]
    grpc: SocketAddr,
    /// Where people and Prometheus look: /status.json, /metrics, /healthz, /readyz
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:18001", value_parser = socket)]
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
    /// What to do when clients refuse a change: go on serving it, or serve again what all had accepted
    #[arg(long, value_enum, default_value_t, value_name = "POLICY")]
    on_nack: OnNackPolicy,
    /// How many nodes may refuse a change before `rollback` takes it back [default: 0]
    #[arg(long, value_name = "NODES", allow_negative_numbers = true)]
    nack_threshold: Option<usize>,
    /// Pass fields that this version of the API does not know, instead of refusing the file
    #[arg(long)]
    allow_unknown_fields: bool,
    #[command(flatten)]
    security: SecurityArgs,
    #[command(flatten)]
    limits: LimitArgs,
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
    fn on_nack(&self) -> Result<OnNack, Failure> {
        match (self.on_nack, self.nack_threshold) {
            (OnNackPolicy::Keep, None) => Ok(OnNack::Keep),
            (OnNackPolicy::Keep, Some(_)) => Err(Failure::usage(
                "--nack-threshold says when a change is taken back, which only --on-nack rollback does",
            )),
            (OnNackPolicy::Rollback, threshold) => Ok(OnNack::Rollback {
                threshold: threshold.unwrap_or_default(),
            }),
        }
    }
}

pub(crate) fn run(args: Args) -> Result<Exit, Failure> {
    runtime()?.block_on(serve(args))
}

async fn serve(args: Args) -> Result<Exit, Failure> {
    let on_nack = args.on_nack()?;
    let options = dir_options(args.allow_unknown_fields, args.strict);
    let store = DirStore::open(&args.dir, options).map_err(|error| unreadable(&error))?;
    if let Some(out) = &args.files {
        files::prepare(&args.dir, out)?;
    }
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
        .map_err(|error| unbound(&error, args.http))?;

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
            // A SIGHUP before the last signal is still followed.
            biased;
            () = reloading => {}
            signal = stop.next() => info!("{signal}: stopping"),
        }
    };
    server.run(stopped).await;
    Ok(Exit::Success)
}

fn unbound(error: &BindError, http: SocketAddr) -> Failure {
    let option = match error.address == http {
        true => "http",
        false => "grpc",
    };
    let failure = Failure::negative(format_args!("--{option}: {error}"));
    match error.kind {
        ErrorKind::AddrInUse => {
            let ip = error.address.ip();
            let any = SocketAddr::new(ip, 0);
            failure.hint(format_args!(
                "port 0 lets the system choose: --{option} {any}"
            ))
        }
        ErrorKind::AddrNotAvailable => failure.hint(format_args!(
            "no interface of this machine has {}",
            error.address.ip()
        )),
        _ => failure,
    }
}

/// Reads an address to listen at. Names are not looked up: which of their addresses is meant would be a guess.
fn socket(text: &str) -> Result<SocketAddr, String> {
    let form = "an IP address and a port: 127.0.0.1:18000, [::1]:18000, or 0.0.0.0:18000 for all interfaces";
    text.parse().map_err(|_| form.to_owned())
}

/// What tells this process from its replicas, to clients that log whom they talk to.
fn replica() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname")
        .or_else(|_| std::env::var("HOSTNAME"))
        .unwrap_or_default();
    format!("oxds@{}", host.trim())
}
