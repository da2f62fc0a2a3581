//! `oxds call`: unary calls through an `xds:///` channel.

mod report;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use oxds_channel::XdsChannel;
use oxds_client::ClientPool;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use report::Report;

use super::{Format, duration, runtime};
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::signals::Stop;
use crate::unary::Method;

const EXAMPLES: &str = "\
Examples:
  export GRPC_XDS_BOOTSTRAP=bootstrap.json                      # see `oxds bootstrap grpc`
  oxds call xds:///checkout /shop.Checkout/Pay
  oxds call xds:///checkout /shop.Checkout/Pay -n 10000 --concurrency 32
  oxds call xds:///checkout /shop.Checkout/Pay --data-hex 0a036f6e65 --format json

It asks the control plane as a gRPC client does, calls, and prints how the calls ended, which \
endpoints took them, and how long they took. A call that fails says why, the control plane's part \
included.

Exit codes: 0 all calls succeeded, 1 some failed, 2 no bootstrap or a malformed one, wrong arguments.";

/// Call a method through an xds:/// channel, and show who answered
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// What to call: xds:///NAME
    #[arg(value_name = "TARGET")]
    target: String,
    /// The method: /package.Service/Method
    #[arg(value_name = "METHOD", value_parser = method)]
    method: String,
    /// How many calls
    #[arg(short = 'n', long, value_name = "COUNT", default_value_t = 1,
          value_parser = clap::value_parser!(u64).range(1..))]
    count: u64,
    /// How many of them at a time
    #[arg(short = 'c', long, value_name = "C", default_value_t = 1,
          value_parser = clap::value_parser!(u16).range(1..))]
    concurrency: u16,
    /// Time for each call, waiting for configuration and connection included
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = duration)]
    timeout: Duration,
    /// The request message, encoded protobuf in hexadecimal [default: an empty message]
    #[arg(long, value_name = "BYTES", value_parser = hex)]
    data_hex: Option<bytes::Bytes>,
    /// The form of the result on stdout
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    let clients = ClientPool::from_env().map_err(|error| {
        Failure::usage(error)
            .hint("`oxds bootstrap grpc --server HOST:PORT > bootstrap.json` writes one")
    })?;
    let message = args.data_hex.clone().unwrap_or_default();
    let method = Method::new(&args.method, &message, args.timeout).map_err(Failure::usage)?;
    runtime()?.block_on(async {
        let channel = XdsChannel::builder(&args.target)
            .clients(clients)
            .report_picks(true)
            .build()
            .map_err(Failure::usage)?;
        let began = Instant::now();
        let mut report = calls(&channel, &method, args.count, args.concurrency).await?;
        let elapsed = began.elapsed();
        let mut output = Output::new();
        match args.format {
            Format::Text => output.write(&report.text(&args.target, &args.method, elapsed))?,
            Format::Json => output.json(&report.json(&args.target, &args.method, elapsed))?,
        }
        let ok = report.all_ok();
        // The control plane is to hear of these calls before the process is gone.
        channel.close().await;
        Ok(if ok { Exit::Success } else { Exit::Negative })
    })
}

/// Makes the calls, so many at a time; SIGINT ends them early, and what there is is reported.
async fn calls(
    channel: &XdsChannel,
    method: &Method,
    count: u64,
    concurrency: u16,
) -> Result<Report, Failure> {
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
    let mut report = Report::default();
    let mut stop = Stop::listen()?;
    loop {
        tokio::select! {
            outcome = outcomes.recv() => match outcome {
                Some(outcome) => report.record(outcome),
                None => break,
            },
            _ = stop.next() => break,
        }
    }
    // Their handles of the channel go with them, so that the last one can be closed.
    callers.shutdown().await;
    Ok(report)
}

fn method(text: &str) -> Result<String, &'static str> {
    let wrong = "a method is written /package.Service/Method";
    let (service, method) = text
        .strip_prefix('/')
        .and_then(|rest| rest.split_once('/'))
        .ok_or(wrong)?;
    let good = |part: &str| {
        !part.is_empty()
            && part
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "._".contains(c))
    };
    if good(service) && good(method) {
        Ok(text.to_owned())
    } else {
        Err(wrong)
    }
}

fn hex(text: &str) -> Result<bytes::Bytes, String> {
    if text.len() % 2 == 1 {
        return Err("an odd number of digits".to_owned());
    }
    let digit = |at: usize| {
        let c = text.as_bytes()[at] as char;
        c.to_digit(16)
            .map(|digit| digit as u8)
            .ok_or_else(|| format!("{c:?} is no digit"))
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
    fn methods_have_two_parts() {
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
    fn hex_is_bytes() {
        assert_eq!(hex("0aFF"), Ok(bytes::Bytes::from_static(&[10, 255])));
        assert_eq!(hex(""), Ok(bytes::Bytes::new()));
        for wrong in ["0", "0g", "é", "0x0a "] {
            assert!(hex(wrong).is_err(), "{wrong}");
        }
    }
}
