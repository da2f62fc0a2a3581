//! Options of `oxds plan`.

use std::path::PathBuf;
use std::time::Duration;

use oxds_apicheck::input::Input;
#[cfg(feature = "etcd")]
use oxds_etcd::Segment;

#[cfg(feature = "etcd")]
use crate::commands::args::etcd::EtcdArgs;
use crate::commands::args::lifecycle::FolderFieldArgs;
use crate::commands::args::source::SourceArgs;
use crate::commands::changes::Limit;
#[cfg(feature = "etcd")]
use crate::commands::publish;
use crate::commands::{Format, duration};

const EXAMPLES: &str = "\
Examples:
  oxds plan ./config                              # against the control plane on this machine
  oxds plan ./config --server 10.0.0.7:18000 --node-id edge-1
  oxds plan ./config --against ./config.old       # against another folder
  oxds plan ./config --against .git#ref=main,subdir=config
  oxds plan ./config --etcd http://127.0.0.1:2379 --prune
  oxds plan ./config --detailed-exitcode          # in CI: 0 no changes, 2 changes, 1 errors

It writes nothing. It prints the changes with their fields, and for how many connected clients each is; the \
responses that a client would get, in their order, with what each waits for (make before break); and what is \
dangerous, such as a type that loses all resources. The order is that of a client that asks for what its \
resources refer to, as Envoy does, and accepts them at once. A client that asks by name for its listeners and \
clusters, as gRPC does, decides the order itself.

A control plane shows what it serves to one node: --node-id selects it, and the groups of DIR that the node is \
in are applied. With --against and --etcd, all groups are compared. Secrets are not shown, only that they differ.

Exit codes: 0 planned; 1 DIR has errors, or no response. With --detailed-exitcode: 0 nothing would change; 2 \
something would; 1 all errors, wrong arguments included. Warnings change the code only with --strict.";

/// Print what would change if a folder were served, for which clients, and in which order
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Folder that would be served or published
    #[arg(value_name = "DIR")]
    pub(super) dir: PathBuf,
    /// Compare with another folder, or with a commit (.git#ref=…,subdir=…), instead of a control plane
    #[arg(long, value_name = "DIR|COMMIT", conflicts_with_all = ["server", "bootstrap", "node_id", "cluster"])]
    pub(super) against: Option<Input>,
    /// With --etcd: remove published resources of the lane that DIR does not have, as for `publish`
    #[cfg(feature = "etcd")]
    #[arg(long, requires = "endpoints")]
    pub(super) prune: bool,
    /// With --etcd: lane that would be published, as for `publish`
    #[cfg(feature = "etcd")]
    #[arg(long, value_name = "NAME", default_value = "main", value_parser = publish::lane, requires = "endpoints")]
    pub(super) lane: Segment,
    /// Exit with 2 if something would change, and with 1 after all errors
    #[arg(long)]
    pub(super) detailed_exitcode: bool,
    /// Fail on warnings, too: dangerous changes, and findings in DIR
    #[arg(long)]
    pub(super) strict: bool,
    #[command(flatten)]
    pub(super) limit: Limit,
    /// Format of the plan on stdout
    #[arg(long, value_enum, default_value_t)]
    pub(super) format: Format,
    /// Time to wait for each response of the control plane
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    pub(super) timeout: Duration,
    #[command(flatten)]
    pub(super) fields: FolderFieldArgs,
    #[command(flatten)]
    pub(super) source: SourceArgs,
    #[cfg(feature = "etcd")]
    #[command(flatten)]
    pub(super) etcd: EtcdArgs,
}
