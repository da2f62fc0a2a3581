//! `oxds serve`: a control plane that serves a folder, or a configuration in etcd.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use oxds_server::{
    ApiVersion, BindError, Builder, CsdsAccess, FileSink, OnNack, SavedState, Server,
};
use tracing::{info, warn};

use super::args::bootstrap_version;
use super::args::http::HttpArgs;
use super::args::lifecycle::LifecycleArgs;
use super::args::limits::LimitArgs;
use super::args::runtime::RuntimeArgs;
use super::args::server_security::SecurityArgs;
use super::serve_store::{FolderOptions, Source};
use super::{dir_options, duration, host, runtime, state};
use crate::exit::{Exit, Failure};
use crate::log;
use crate::output::Output;
use crate::signals::{self, StopSignals};

const EXAMPLES: &str = "\
Examples:
  oxds serve ./config
  oxds serve ./config --grpc 0.0.0.0:18000 --http 127.0.0.1:18001
  oxds serve ./config --grpc 127.0.0.1:0 --http 127.0.0.1:0       # free ports
  oxds serve --etcd http://a:2379,http://b:2379 --state /var/lib/oxds   # one of several replicas

  curl http://127.0.0.1:18001/status.json      # clients, their resources and their NACKs
  curl http://127.0.0.1:18001/metrics          # for Prometheus

When the ports are open it prints one address per line: `grpc 127.0.0.1:18000`, `http 127.0.0.1:18001`.

A saved file is served within a tenth of a second. Files that are saved within --quiet of each other are \
served together; to switch many files at once, make DIR a symbolic link and point it to another folder. An invalid file changes nothing: its last valid content stays served, and the error is in the log, in \
/status.json and in /metrics, with file and line, until it is fixed.

With --tls-client-ca clients need a certificate, and --authorize sets the nodes that they may use:

  rules:
  - identity: spiffe://prod/ns/shop/sa/*     # a URI or DNS name in the certificate
    nodes: [shop-*]                          # node ids; ** also matches across slashes
    groups: [shop]                           # node groups of such nodes
    secrets: [shop-cert]                     # SDS secrets that they may request
    inspect: false                           # true: may request the state of all clients

Certificates, rules and the ledger are read again within ten seconds after a change.

SIGTERM and SIGINT stop in order: streams end and clients connect to another server. SIGHUP reads the \
folder, the certificates, the rules and the ledger again at once.";

/// Serve a folder of resources, or a configuration in etcd, to Envoy and gRPC clients, and follow its changes
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Folder of .yaml, .yml, .json, .textproto, .pb_text and .pb files; subfolders are included
    #[arg(value_name = "DIR")]
    // Not conflicts_with: clap would then not require `--etcd` for `serve DIR --replica a`.
    #[cfg_attr(feature = "etcd", arg(required_unless_present = "endpoints"))]
    #[cfg_attr(not(feature = "etcd"), arg(required = true))]
    dir: Option<PathBuf>,
    /// Address for clients: xDS, gRPC health and reflection
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:18000", value_parser = socket)]
    grpc: SocketAddr,
    /// Address of the HTTP port: status page, /metrics, health
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:18001", value_parser = socket)]
    http: SocketAddr,
    /// Keep serving the last content of a file if a change would lead to a reference to a missing resource
    #[arg(long)]
    #[cfg_attr(feature = "etcd", arg(conflicts_with = "endpoints"))]
    strict: bool,
    /// Let a file that becomes empty remove its resources, instead of an error
    #[arg(long)]
    #[cfg_attr(feature = "etcd", arg(conflicts_with = "endpoints"))]
    allow_empty: bool,
    /// Time without a change of a file after which changes are read together
    #[arg(long, value_name = "TIME", default_value = "50ms", value_parser = duration)]
    #[cfg_attr(feature = "etcd", arg(conflicts_with = "endpoints"))]
    quiet: Duration,
    /// Also write the served resources to this folder, for clients that read files: cds.json, eds/NAME.json, …
    #[arg(long, value_name = "DIR")]
    files: Option<PathBuf>,
    /// Time for clients to disconnect after SIGTERM, before their connections are closed
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    drain: Duration,
    /// Reaction to a change that clients NACK: keep it, or roll back to the last version that all accepted
    #[arg(long, value_enum, default_value_t, value_name = "POLICY")]
    on_nack: OnNackPolicy,
    /// Number of nodes that may NACK a change before `rollback` rolls it back [default: 0]
    #[arg(long, value_name = "NODES", allow_negative_numbers = true)]
    nack_threshold: Option<usize>,
    /// Clients that may read the state of all clients over CSDS, where no --authorize rule decides
    #[arg(long, value_enum, default_value_t, value_name = "CLIENTS")]
    csds: CsdsClients,
    /// Oldest major of the API that clients may use, 2 or 3. Set 3 once `oxds status` lists no v2 clients; they then
    /// get an error
    #[arg(long, value_name = "MAJOR", default_value = "2", value_parser = bootstrap_version::oldest)]
    oldest_version: ApiVersion,
    /// Folder for state that survives a restart: the last good configuration, which is served while DIR or etcd is
    /// broken or missing at start, and rollbacks
    /// [default: only rollbacks, in $STATE_DIRECTORY, $XDG_STATE_HOME/oxds or ~/.local/state/oxds]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Also keep resources of type Secret in the state. Without it, clients that ask for secrets wait for DIR, and
    /// rollbacks of secrets end with the process
    #[arg(long)]
    persist_secrets: bool,
    /// Id of this replica in etcd, another one for each process [default: host name and gRPC port]
    #[cfg(feature = "etcd")]
    #[arg(long, value_name = "ID", requires = "endpoints")]
    replica: Option<String>,
    /// Host name or IP address at which other machines reach this replica, as `oxds status --etcd` does
    /// [default: that of --grpc, or the host name if that is 0.0.0.0]
    #[cfg(feature = "etcd")]
    #[arg(long, value_name = "HOST", requires = "endpoints", value_parser = reachable_host)]
    advertise: Option<String>,
    /// Serve an etcd that was restored from a backup, although this or another replica has served a later publish
    #[cfg(feature = "etcd")]
    #[arg(long, requires = "endpoints")]
    accept_restored: bool,
    #[command(flatten)]
    lifecycle: LifecycleArgs,
    #[command(flatten)]
    security: SecurityArgs,
    #[command(flatten)]
    pages: HttpArgs,
    #[command(flatten)]
    limits: LimitArgs,
    #[command(flatten)]
    runtime: RuntimeArgs,
    #[cfg(feature = "etcd")]
    #[command(flatten)]
    etcd: super::args::etcd::EtcdArgs,
}

/// Time for threads that work on files to end, after the server has ended.
const ABANDON: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum OnNackPolicy {
    /// Keep serving the change; clients that NACKed it keep their last accepted version
    #[default]
    Keep,
    /// Serve the last version that all clients accepted, until the file changes again
    Rollback,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum CsdsClients {
    /// No client: CSDS is off
    Off,
    /// Clients of this machine
    #[default]
    Local,
    /// Every client that reaches the port
    All,
}

impl From<CsdsClients> for CsdsAccess {
    fn from(clients: CsdsClients) -> Self {
        match clients {
            CsdsClients::Off => Self::Off,
            CsdsClients::Local => Self::Local,
            CsdsClients::All => Self::All,
        }
    }
}

impl Args {
    fn on_nack(&self) -> Result<OnNack, Failure> {
        match (self.on_nack, self.nack_threshold) {
            (OnNackPolicy::Keep, None) => Ok(OnNack::Keep),
            (OnNackPolicy::Keep, Some(_)) => Err(Failure::usage(
                "--nack-threshold has no effect without --on-nack rollback: expected both or neither",
            )),
            (OnNackPolicy::Rollback, threshold) => Ok(OnNack::Rollback {
                threshold: threshold.unwrap_or_default(),
            }),
        }
    }

    /// Returns the file that keeps rollbacks; `None` without rollbacks, or without a folder for it.
    fn rollback_file(&self, source: &Source) -> Result<Option<PathBuf>, Failure> {
        match (self.on_nack, source) {
            (OnNackPolicy::Keep, _) => Ok(None),
            // The replicas decide together, and keep their decision there (G-38).
            #[cfg(feature = "etcd")]
            (_, Source::Etcd(_)) => Ok(None),
            (OnNackPolicy::Rollback, Source::Folder(dir)) => {
                let file = state::file(self.state.as_deref(), dir, "rollbacks");
                if file.is_none() {
                    warn!(
                        "rollbacks end when the server is restarted: no folder for state, expected --state, $STATE_DIRECTORY, $XDG_STATE_HOME or $HOME"
                    );
                }
                Ok(file)
            }
        }
    }

    /// Opens the state in the folder of `--state`. It blocks.
    fn state(&self, source: &Source) -> Result<Option<SavedState>, Failure> {
        let Some(folder) = &self.state else {
            let is_kept = matches!(self.on_nack, OnNackPolicy::Rollback);
            return if self.persist_secrets && !is_kept {
                Err(Failure::usage(
                    "--persist-secrets has no effect without --state or --on-nack rollback: expected one of them",
                ))
            } else {
                Ok(None)
            };
        };
        let options = source.state(folder)?.keep_secrets(self.persist_secrets);
        let state = SavedState::open(folder, options);
        let state = state.map_err(|error| Failure::usage(format_args!("--state: {error}")))?;
        Ok(Some(state))
    }

    /// Returns where the configuration comes from.
    fn source(&self) -> Result<Source, Failure> {
        #[cfg(feature = "etcd")]
        if let Some(access) = self.etcd.target()? {
            if self.dir.is_some() {
                return Err(Failure::usage(
                    "DIR cannot be used with --etcd: expected one of them",
                ));
            }
            let lifecycle = &self.lifecycle;
            if lifecycle.ledger.is_some() || lifecycle.allow_unknown_static_fields {
                return Err(Failure::usage(
                    "--ledger and --allow-unknown-static-fields have no effect with --etcd: resources are checked when they are published",
                ));
            }
            return Ok(Source::Etcd(Box::new(super::serve_store::EtcdSource {
                access,
                replica: self.replica.clone(),
                advertise: self.advertise.clone(),
                accept_restored: self.accept_restored,
            })));
        }
        match &self.dir {
            Some(dir) => Ok(Source::Folder(dir.clone())),
            None => Err(Failure::usage("no folder to serve")),
        }
    }
}

/// Checks that a host is one: it is printed, and part of an address.
#[cfg(feature = "etcd")]
fn reachable_host(text: &str) -> Result<String, String> {
    let is_host = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
    if !text.is_empty() && text.len() <= 253 && text.chars().all(is_host) {
        Ok(text.to_owned())
    } else {
        Err("expected a host name or an IP address, without a port".to_owned())
    }
}

pub(crate) fn run(args: Args) -> Result<Exit, Failure> {
    let runtime = runtime()?;
    let exit = runtime.block_on(serve(args));
    // A thread may be blocked by a file system that does not respond; the process does not wait for it.
    runtime.shutdown_timeout(ABANDON);
    exit
}

async fn serve(args: Args) -> Result<Exit, Failure> {
    let source = args.source()?;
    let (on_nack, rollback_file) = (args.on_nack()?, args.rollback_file(&source)?);
    let state = args.state(&source)?;
    let mut options = dir_options(args.lifecycle.allow_unknown_static_fields, args.strict);
    options.allow_empty = args.allow_empty;
    options.quiet = args.quiet;
    let keys = args.runtime.open(&replica())?;
    if let Some(out) = &args.files {
        source.prepare_files(out)?;
    }
    let mut limits = args.limits.limits();
    limits.timers.drain = args.drain;
    let security = args.security.open().map_err(Failure::usage)?;
    let pages = args.pages.open().map_err(Failure::usage)?;
    let (mut stop, mut hangup) = (StopSignals::listen()?, signals::reload()?);
    let folder = FolderOptions {
        options,
        lifecycle: args.lifecycle,
    };
    let (runtime, builder) = (keys.runtime.clone(), Server::builder());
    let (builder, mut store) = source.open(builder, folder, &runtime, args.grpc, state.as_ref())?;
    let builder = keys.serve(builder)?;
    let builder = keep(builder, state, rollback_file, args.persist_secrets);
    let server = builder
        .grpc(args.grpc)
        .http(args.http)
        .config(args.limits.sessions())
        .csds(args.csds.into())
        .identifier(replica())
        .security(security.clone())
        .http_security(pages)
        .limits(limits)
        .on_nack(on_nack)
        .oldest_api(args.oldest_version)
        .lost_log_lines(log::lost_lines())
        .bind()
        .await
        .map_err(|error| unbound(&error, args.http))?;

    keys.follow()?;
    if let Some(folder) = args.files {
        let sink = FileSink::new(server.cache(), folder).report_to(server.reporter("files"));
        tokio::spawn(sink.run());
    }
    let mut output = Output::new();
    output.line(&format!("grpc {}", server.grpc_addr()))?;
    if let Some(http) = server.http_addr() {
        output.line(&format!("http {http}"))?;
    }
    let unusable = store.take_unusable();
    let reloading = async {
        while hangup.recv().await.is_some() {
            info!(
                signal = "SIGHUP",
                "reloading folder, certificates, rules and ledger"
            );
            store.reload();
            security.reload();
        }
        std::future::pending::<()>().await;
    };
    let stopped = async {
        tokio::select! {
            // Handles a SIGHUP that came before the stop signal.
            biased;
            () = reloading => {}
            signal = stop.next() => info!(signal, "stop signal received"),
        }
    };
    tokio::select! {
        () = server.run(stopped) => {}
        () = store.follow() => {}
        failure = unusable => return Err(failure),
    }
    Ok(Exit::Success)
}

/// Sets what survives a restart.
fn keep(
    mut builder: Builder,
    state: Option<SavedState>,
    rollbacks: Option<PathBuf>,
    secrets: bool,
) -> Builder {
    if let Some(file) = rollbacks {
        builder = builder.rollback_file(file);
        if !secrets {
            builder = builder.rollbacks_without_secrets();
        }
    }
    match state {
        Some(state) => builder.state(state),
        None => builder,
    }
}

/// Returns the failure for a port that cannot be opened, with advice for common causes.
fn unbound(error: &BindError, http: SocketAddr) -> Failure {
    let option = if error.address == http {
        "http"
    } else {
        "grpc"
    };
    let failure = Failure::negative(format_args!("--{option}: {error}"));
    match error.kind {
        ErrorKind::AddrInUse => {
            let ip = error.address.ip();
            let any = SocketAddr::new(ip, 0);
            failure.hint(format_args!("use port 0 for a free port: --{option} {any}"))
        }
        ErrorKind::AddrNotAvailable => failure.hint(format_args!(
            "no interface of this machine has the address {}",
            error.address.ip()
        )),
        _ => failure,
    }
}

/// Parses an address to listen on. Host names are an error: the choice between their addresses would be a
/// guess.
fn socket(text: &str) -> Result<SocketAddr, String> {
    let expected = "expected an IP address and a port: 127.0.0.1:18000, [::1]:18000, or 0.0.0.0:18000 for all interfaces";
    text.parse().map_err(|_| expected.to_owned())
}

/// Returns the control plane identifier of this process, which clients may log: it differs per host.
fn replica() -> String {
    format!("oxds@{}", host())
}
