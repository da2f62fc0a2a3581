//! `oxds call`: unary calls through an `xds:///` channel.

mod counts;
mod report;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use oxds_channel::XdsChannel;
use oxds_client::ClientPool;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use counts::Counts;
use report::CallReport;

use super::{Format, duration, runtime};
use crate::commands::args::bootstrap_version::BootstrapVersion;
use crate::commands::args::dynamic_fields;
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::signals::StopSignals;
use crate::unary::Method;

const EXAMPLES: &str = "\
Examples:
  export GRPC_XDS_BOOTSTRAP=bootstrap.json                      # see `oxds bootstrap grpc`
  oxds call xds:///checkout /shop.Checkout/Pay
  oxds call xds:///checkout /shop.Checkout/Pay -n 10000 --concurrency 32
  oxds call xds:///checkout /shop.Checkout/Pay --data-hex 0a036f6e65 --format json

It gets its configuration from the control plane like a gRPC client, makes the calls, and prints their \
statuses, endpoints and latency, with attempts, drops and ejections where the configuration causes them. The message of a failed call includes errors of the control plane.

Exit codes: 0 all calls succeeded; 1 some failed; 2 no bootstrap, a malformed bootstrap, or wrong \
arguments.";

/// Call a method through an xds:/// channel, and print statuses, endpoints and latency
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Service to call: xds:///NAME
    #[arg(value_name = "TARGET")]
    target: String,
    /// Method to call: /package.Service/Method
    #[arg(value_name = "METHOD", value_parser = method)]
    method: String,
    /// Number of calls
    #[arg(short = 'n', long, value_name = "COUNT", default_value_t = 1,
          value_parser = clap::value_parser!(u64).range(1..))]
    count: u64,
    /// Number of concurrent calls
    #[arg(short = 'c', long, value_name = "C", default_value_t = 1,
          value_parser = clap::value_parser!(u16).range(1..))]
    concurrency: u16,
    /// Deadline of each call, including the wait for configuration and connection
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = duration)]
    timeout: Duration,
    /// Request message as encoded protobuf in hexadecimal [default: an empty message]
    #[arg(long, value_name = "BYTES", value_parser = hex)]
    data_hex: Option<bytes::Bytes>,
    #[command(flatten)]
    bootstrap_version: BootstrapVersion,
    /// Format of the report on stdout
    #[arg(
        long,
        visible_alias = "output",
        short_alias = 'o',
        value_enum,
        default_value_t
    )]
    format: Format,
}

pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    let clients = ClientPool::from_env().map_err(|error| {
        Failure::usage(error)
            .hint("create one with `oxds bootstrap grpc --server HOST:PORT > bootstrap.json`")
    })?;
    args.bootstrap_version.check(clients.bootstrap())?;
    let clients = clients.with_check(dynamic_fields::warnings());
    let message = args.data_hex.clone().unwrap_or_default();
    let method = Method::new(&args.method, &message, args.timeout).map_err(Failure::usage)?;
    runtime()?.block_on(async {
        let counts = Counts::default();
        let channel = XdsChannel::builder(&args.target)
            .clients(clients)
            .recorder(Arc::new(counts.clone()))
            .report_picks(true)
            .build()
            .map_err(Failure::usage)?;
        let began = Instant::now();
        let mut report = make_calls(&channel, &method, args.count, args.concurrency).await?;
        let elapsed = began.elapsed();
        report.set_channel(&counts, &channel.status());
        let mut output = Output::new();
        match args.format {
            Format::Text => output.write(&report.text(&args.target, &args.method, elapsed))?,
            Format::Json => output.json(&report.json(&args.target, &args.method, elapsed))?,
        }
        let ok = report.all_ok();
        // Sends the last load report before the process ends.
        channel.close().await;
        Ok(if ok { Exit::Success } else { Exit::Negative })
    })
}

/// Makes `count` calls, at most `concurrency` at a time. SIGINT and SIGTERM end them early; the report
/// then has the calls so far.
async fn make_calls(
    channel: &XdsChannel,
    method: &Method,
    count: u64,
    concurrency: u16,
) -> Result<CallReport, Failure> {
    let left = Arc::new(AtomicU64::new(count));
    let (ended, mut outcomes) = mpsc::channel(1024);
    let mut callers = JoinSet::new();
    for _ in 0..u64::from(concurrency).min(count) {
        let (left, ended) = (Arc::clone(&left), ended.clone());
        let (channel, method) = (channel.clone(), method.clone());
        callers.spawn(async move {
            let take = |left: u64| left.checked_sub(1);
            while left.fetch_update(Relaxed, Relaxed, take).is_ok() {
                if ended.send(method.call(&channel).await).await.is_err() {
                    return;
                }
            }
        });
    }
    drop(ended);
    let mut report = CallReport::default();
    let mut stop = StopSignals::listen()?;
    loop {
        tokio::select! {
            outcome = outcomes.recv() => match outcome {
                Some(outcome) => report.record(outcome),
                None => break,
            },
            _ = stop.next() => break,
        }
    }
    // Drops the callers' clones of the channel, so that the last one can be closed.
    callers.shutdown().await;
    Ok(report)
}

fn method(text: &str) -> Result<String, &'static str> {
    let expected = "expected /package.Service/Method";
    let (service, method) = text
        .strip_prefix('/')
        .and_then(|rest| rest.split_once('/'))
        .ok_or(expected)?;
    let is_name = |part: &str| {
        !part.is_empty()
            && part
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "._".contains(c))
    };
    if is_name(service) && is_name(method) {
        Ok(text.to_owned())
    } else {
        Err(expected)
    }
}

fn hex(text: &str) -> Result<bytes::Bytes, String> {
    if text.len() % 2 == 1 {
        return Err("odd number of digits: expected two per byte".to_owned());
    }
    let digit = |at: usize| {
        let c = text.as_bytes()[at] as char;
        c.to_digit(16)
            .map(|digit| digit as u8)
            .ok_or_else(|| format!("invalid character {c:?}: expected a hexadecimal digit"))
    };
    (0..text.len())
        .step_by(2)
        .map(|at| Ok(digit(at)? << 4 | digit(at + 1)?))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn method_has_service_and_method_name() {
        assert!(method("/shop.Checkout/Pay").is_ok());
        for wrong in [
            "",
            "/",
            "shop.Checkout/Pay",
            "/shop.Checkout",
            "//Pay",
            "/a/b/c",
            "/a/b c",
        ] {
            assert!(method(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn hex_parses_two_digits_per_byte() {
        assert_eq!(hex("0aFF"), Ok(bytes::Bytes::from_static(&[10, 255])));
        assert_eq!(hex(""), Ok(bytes::Bytes::new()));
        for wrong in ["0", "0g", "é", "0x0a "] {
            assert!(hex(wrong).is_err(), "{wrong}");
        }
    }
}
