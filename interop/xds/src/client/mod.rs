//! The client: calls at a steady rate through an `XdsChannel`, and statistics by answering host.

mod balancer;
mod load;
mod plan;
mod service;
mod stats;

use std::sync::Arc;
use std::time::Duration;

use clap::{ArgAction, Parser};
use oxds_channel::{BuildError, XdsChannel};
use oxds_client::{Bootstrap, BootstrapError, ClientPool, Options};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tonic::Code;

use crate::flags::{self, Unsupported};
use crate::wire::{AddressType, Port, PortError};
pub use load::FailedCall;
use load::{Load, Sizes};
use plan::Plan;
pub use plan::PlanError;
use stats::Stats;

/// The command line.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "xds-interop-client",
    version,
    about = "The client of gRPC's xDS interop suite; the bootstrap is in GRPC_XDS_BOOTSTRAP",
    rename_all = "snake_case"
)]
pub struct Flags {
    /// Target of the calls: xds:///NAME
    #[arg(long)]
    pub server: String,
    /// Port of the stats, of Configure, CSDS, channelz and health; 0 lets the system choose
    #[arg(long, default_value_t = 8081)]
    pub stats_port: u16,
    /// Calls a second by each channel, of each method
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub qps: u32,
    /// Channels to the target
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub num_channels: u32,
    /// Methods: UnaryCall, EmptyCall, or both with a comma
    #[arg(long, default_value = "UnaryCall")]
    pub rpc: String,
    /// Metadata: METHOD:KEY:VALUE, several with commas
    #[arg(long, default_value = "")]
    pub metadata: String,
    /// Deadline of a call, in seconds
    #[arg(long, default_value_t = 20)]
    pub rpc_timeout_sec: u32,
    /// Status that counts as success for fail_on_failed_rpc, by name or number
    #[arg(long, default_value = "OK", value_parser = status_code)]
    pub expect_status: Code,
    /// Exit with an error when a call fails after one has succeeded
    #[arg(long, alias = "fail_on_failed_rpcs", action = ArgAction::Set, num_args = 0..=1, require_equals = true,
          default_value = "false", default_missing_value = "true", value_parser = flags::boolean)]
    pub fail_on_failed_rpc: bool,
    /// Print a line for each call
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true,
          default_value = "false", default_missing_value = "true", value_parser = flags::boolean)]
    pub print_response: bool,
    /// Bytes of payload in the request of each UnaryCall
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=4 << 20))]
    pub request_payload_size: u32,
    /// Bytes of payload that its response should have
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(i32).range(0..=4 << 20))]
    pub response_payload_size: i32,
    /// Security by xDS (gRFC A29). It is always on: clusters without a TLS configuration are called in plaintext
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true,
          default_value = "false", default_missing_value = "true", value_parser = flags::boolean)]
    pub secure_mode: bool,
    /// Telemetry of a service mesh: not supported
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true,
          default_value = "false", default_missing_value = "true", value_parser = flags::boolean)]
    pub enable_csm_observability: bool,
}

/// Telemetry of a service mesh: not supported.
const OBSERVABILITY: Unsupported = Unsupported {
    flag: "enable_csm_observability",
    what: "telemetry of meshes",
};

/// Reason why the client does not start.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A flag that is not supported.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// `--rpc` or `--metadata` is invalid.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// No control plane is configured.
    #[error(transparent)]
    Bootstrap(#[from] BootstrapError),
    /// `--server` is not an xDS target.
    #[error("--server: {0}")]
    Channel(#[from] BuildError),
    /// A port is in use.
    #[error(transparent)]
    Port(#[from] PortError),
}

/// A client with an open stats port and channels.
#[derive(Debug)]
pub struct Client {
    port: Port,
    pool: ClientPool,
    stats: Arc<Stats>,
    plan: watch::Sender<Arc<Plan>>,
    timeout: Duration,
    load: Load,
}

impl Client {
    /// Listens, and starts to use the control plane of the environment's bootstrap.
    ///
    /// # Errors
    /// [`StartError`].
    pub async fn bind(flags: Flags) -> Result<Self, StartError> {
        OBSERVABILITY.unless_off(flags.enable_csm_observability)?;
        let timeout = Duration::from_secs(flags.rpc_timeout_sec.into());
        let plan = Plan::of_flags(&flags.rpc, &flags.metadata, timeout)?;
        let options = Options::default().with_extensions(balancer::extensions());
        let pool = ClientPool::with_options(Bootstrap::from_env()?, options);
        let port = Port::bind(flags.stats_port, AddressType::Both).await?;
        let channel = |_| {
            XdsChannel::builder(&*flags.server)
                .clients(pool.clone())
                .report_picks(true)
                .build()
        };
        let channels = (0..flags.num_channels)
            .map(channel)
            .collect::<Result<_, _>>()?;
        let (plan, planned) = watch::channel(Arc::new(plan));
        let stats = Arc::<Stats>::default();
        let load = Load {
            channels,
            planned,
            stats: Arc::clone(&stats),
            period: Duration::from_secs(1) / flags.qps.saturating_mul(flags.num_channels),
            sizes: Sizes {
                request: flags.request_payload_size as usize,
                response: flags.response_payload_size,
            },
            print: flags.print_response,
            expected: flags.expect_status,
            fail: flags.fail_on_failed_rpc,
        };
        Ok(Self {
            port,
            pool,
            stats,
            plan,
            timeout,
            load,
        })
    }

    /// Port of the stats.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// Calls and serves until it must stop, or until a call fails that must not. Then cancels the calls in progress and
    /// sends the last load report.
    ///
    /// # Errors
    /// The failed call, if `--fail_on_failed_rpc` was given.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Result<(), FailedCall> {
        let routes = service::routes(&self.pool, &self.stats, self.plan, self.timeout);
        let mut calls = JoinSet::new();
        let ended = tokio::select! {
            failed = self.load.run(&mut calls) => failed,
            () = self.port.serve(routes) => Ok(()),
            () = stop => Ok(()),
        };
        calls.shutdown().await;
        let channels = self.load.channels.into_iter();
        let closing: JoinSet<()> = channels.map(XdsChannel::close).collect();
        closing.join_all().await;
        ended
    }
}

/// Parses a status code: a number, or gRPC's name of it.
fn status_code(text: &str) -> Result<Code, String> {
    let name = text.replace('_', "");
    (0..=16)
        .map(Code::from_i32)
        .find(|code| {
            text.parse() == Ok(*code as i32) || format!("{code:?}").eq_ignore_ascii_case(&name)
        })
        .ok_or_else(|| "neither the name nor the number of a gRPC status".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_read_as_the_suite_writes_them() {
        let parsed = Flags::try_parse_from([
            "xds-interop-client",
            "--server=xds:///shop",
            "--fail_on_failed_rpcs=True",
            "--print_response",
            "--qps=100",
            "--rpc=EmptyCall,UnaryCall",
            "--expect_status=DEADLINE_EXCEEDED",
        ])
        .unwrap();
        assert!(parsed.fail_on_failed_rpc && parsed.print_response && !parsed.secure_mode);
        assert_eq!((parsed.qps, parsed.num_channels), (100, 1));
        assert_eq!(parsed.rpc_timeout_sec, 20);
        assert_eq!(parsed.expect_status, Code::DeadlineExceeded);
    }

    #[test]
    fn a_status_is_told_by_name_or_number() {
        assert_eq!(status_code("OK"), Ok(Code::Ok));
        assert_eq!(status_code("14"), Ok(Code::Unavailable));
        assert!(status_code("17").is_err() && status_code("FINE").is_err());
    }
}
