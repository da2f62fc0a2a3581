//! The measured process: RPCs through one variant, for a fixed time.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use bytes::Bytes;
use cpu_time::ProcessTime;
use http::Uri;
use http::uri::PathAndQuery;
use serde::{Deserialize, Serialize};
use tonic::client::Grpc;

use super::Variant;
use super::bytes_codec::BytesCodec;
use super::callee::Callee;
use super::variant::{HyperRoundRobin, balance_list, oxds, tonic_xds};
use crate::report::percentile_micros;

/// Bare hyper needs an absolute URI; the channels replace or ignore it.
static ORIGIN: LazyLock<Uri> = LazyLock::new(|| Uri::from_static("http://bench"));

/// Time until a channel must serve, and the pause between attempts.
const TIMEOUT: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(20);

/// Result of one run of one variant.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Measured {
    /// User and system time of the client process per RPC.
    pub(crate) cpu_micros_per_rpc: f64,
    pub(crate) rpcs_per_second: f64,
    pub(crate) p50_micros: f64,
}

/// Calls through `variant` with `in_flight` concurrent callers for `length`.
pub(crate) async fn measure(
    variant: Variant,
    control_plane: &str,
    backends: &[String],
    in_flight: usize,
    length: Duration,
) -> Result<Measured, String> {
    match variant {
        Variant::Oxds => drive(oxds(control_plane)?, in_flight, length).await,
        Variant::TonicXds => drive(tonic_xds(control_plane)?, in_flight, length).await,
        Variant::BalanceList => drive(balance_list(backends)?, in_flight, length).await,
        Variant::Hyper => drive(HyperRoundRobin::connect(backends).await?, in_flight, length).await,
    }
}

/// Warms up, then runs the callers and counts.
async fn drive<S: Callee>(
    service: S,
    in_flight: usize,
    length: Duration,
) -> Result<Measured, String> {
    // Discovery, connecting and warming up are not timed.
    discover(&service).await?;
    callers(&service, in_flight, length / 5).await?;
    let (cpu, wall) = (ProcessTime::now(), Instant::now());
    let mut latencies = callers(&service, in_flight, length).await?;
    let (cpu, wall) = (cpu.elapsed(), wall.elapsed());
    let rpcs = latencies.len() as f64;
    latencies.sort_unstable();
    Ok(Measured {
        cpu_micros_per_rpc: cpu.as_secs_f64() * 1e6 / rpcs,
        rpcs_per_second: rpcs / wall.as_secs_f64(),
        p50_micros: percentile_micros(&latencies, 0.5),
    })
}

/// Calls until a call succeeds: some channels fail calls until they are configured, others make them wait.
async fn discover<S: Callee>(service: &S) -> Result<(), String> {
    let end = Instant::now() + TIMEOUT;
    let mut grpc = Grpc::with_origin(service.clone(), ORIGIN.clone());
    loop {
        match call(&mut grpc).await {
            Ok(()) => return Ok(()),
            Err(error) if Instant::now() >= end => return Err(error),
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

async fn call<S: Callee>(grpc: &mut Grpc<S>) -> Result<(), String> {
    let path = PathAndQuery::from_static("/bench.Echo/Unary");
    let request = tonic::Request::new(Bytes::from_static(&[7; 100]));
    grpc.ready()
        .await
        .map_err(|error| error.into().to_string())?;
    grpc.unary(request, path, BytesCodec)
        .await
        .map_err(|status| status.to_string())?;
    Ok(())
}

async fn callers<S: Callee>(
    service: &S,
    in_flight: usize,
    length: Duration,
) -> Result<Vec<Duration>, String> {
    let end = Instant::now() + length;
    let callers: Vec<_> = (0..in_flight)
        .map(|_| {
            tokio::spawn(caller(
                Grpc::with_origin(service.clone(), ORIGIN.clone()),
                end,
            ))
        })
        .collect();
    let mut latencies = Vec::new();
    for caller in callers {
        latencies.extend(caller.await.map_err(|error| error.to_string())??);
    }
    Ok(latencies)
}

async fn caller<S: Callee>(mut grpc: Grpc<S>, end: Instant) -> Result<Vec<Duration>, String> {
    let mut latencies = Vec::with_capacity(1 << 16);
    while Instant::now() < end {
        let start = Instant::now();
        call(&mut grpc).await?;
        latencies.push(start.elapsed());
    }
    Ok(latencies)
}
