//! The measured process: RPCs through one variant, for a fixed time.

use std::path::Path;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use bytes::Bytes;
use cpu_time::ProcessTime;
use http::Uri;
use http::uri::PathAndQuery;
use serde::{Deserialize, Serialize};
use tonic::client::Grpc;

use super::bare_h2::H2RoundRobin;
use super::bytes_codec::BytesCodec;
use super::callee::Callee;
use super::variant::{
    HyperRoundRobin, balance_list, balance_list_secured, oxds, oxds_secured, tonic_xds,
};
use crate::report::percentile_micros;
use crate::roles::{Traffic, Variant};

/// Origin of the calls.
static ORIGIN: LazyLock<Uri> = LazyLock::new(|| Uri::from_static("http://bench"));

/// Time until a channel must serve, and the pause between attempts.
const TIMEOUT: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(20);

/// Result of one run of one variant.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Measured {
    /// User and system time of the client process per RPC, or per message of a stream.
    pub(crate) cpu_micros_per_rpc: f64,
    /// RPCs, or messages of streams.
    pub(crate) rpcs_per_second: f64,
    pub(crate) p50_micros: f64,
    /// All calls, those that were not timed included.
    pub(crate) calls: usize,
}

/// Peers of a client.
#[derive(Debug)]
pub(crate) struct Peers<'a> {
    pub(crate) control_plane: &'a str,
    pub(crate) backends: &'a [String],
    /// The folder of the keys, if the backends are called over TLS.
    pub(crate) keys: Option<&'a Path>,
}

/// Calls through `variant` for `length`.
pub(crate) async fn measure(
    variant: Variant,
    peers: &Peers<'_>,
    traffic: Traffic,
    length: Duration,
) -> Result<Measured, String> {
    let Peers {
        control_plane,
        backends,
        keys,
    } = *peers;
    if let Some(keys) = keys {
        return match variant {
            Variant::Oxds => drive(oxds_secured(control_plane, keys)?, traffic, length).await,
            Variant::BalanceList => {
                drive(balance_list_secured(backends, keys)?, traffic, length).await
            }
            _ => Err(format!("{} is not measured over TLS", variant.name())),
        };
    }
    match variant {
        Variant::Oxds => drive(oxds(control_plane)?, traffic, length).await,
        Variant::TonicXds => drive(tonic_xds(control_plane)?, traffic, length).await,
        Variant::BalanceList => drive(balance_list(backends)?, traffic, length).await,
        Variant::Hyper => drive(HyperRoundRobin::connect(backends).await?, traffic, length).await,
        Variant::H2 => drive(H2RoundRobin::connect(backends).await?, traffic, length).await,
    }
}

/// Warms up, then runs the callers and counts.
async fn drive<S: Callee>(
    service: S,
    traffic: Traffic,
    length: Duration,
) -> Result<Measured, String> {
    let message = Bytes::from(vec![7; traffic.bytes()]);
    // Discovery, connecting and warming up are not timed.
    discover(&service).await?;
    let warm_up = callers(&service, traffic, &message, length / 5).await?;
    let (cpu, wall) = (ProcessTime::now(), Instant::now());
    let mut latencies = callers(&service, traffic, &message, length).await?;
    let (cpu, wall) = (cpu.elapsed(), wall.elapsed());
    let rpcs = latencies.len() as f64;
    latencies.sort_unstable();
    Ok(Measured {
        cpu_micros_per_rpc: cpu.as_secs_f64() * 1e6 / rpcs,
        rpcs_per_second: rpcs / wall.as_secs_f64(),
        p50_micros: percentile_micros(&latencies, 0.5),
        calls: 1 + warm_up.len() + latencies.len(),
    })
}

/// Calls until a call succeeds: some channels fail calls until they are configured, others make them wait.
async fn discover<S: Callee>(service: &S) -> Result<(), String> {
    let end = Instant::now() + TIMEOUT;
    let mut grpc = grpc(service);
    loop {
        match call(&mut grpc, Bytes::from_static(&[7])).await {
            Ok(()) => return Ok(()),
            Err(error) if Instant::now() >= end => return Err(error),
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// Bare hyper needs an absolute URI; the channels replace or ignore it.
fn grpc<S: Callee>(service: &S) -> Grpc<S> {
    Grpc::with_origin(service.clone(), ORIGIN.clone()).max_decoding_message_size(usize::MAX)
}

async fn call<S: Callee>(grpc: &mut Grpc<S>, message: Bytes) -> Result<(), String> {
    let path = PathAndQuery::from_static("/bench.Echo/Unary");
    let request = tonic::Request::new(message);
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
    traffic: Traffic,
    message: &Bytes,
    length: Duration,
) -> Result<Vec<Duration>, String> {
    let end = Instant::now() + length;
    let callers: Vec<_> = (0..traffic.callers())
        .map(|_| {
            let (grpc, message) = (grpc(service), message.clone());
            match traffic {
                Traffic::Unary { .. } => tokio::spawn(caller(grpc, message, end)),
                Traffic::Streams { .. } => tokio::spawn(streamer(grpc, message, end)),
            }
        })
        .collect();
    let mut latencies = Vec::new();
    for caller in callers {
        latencies.extend(caller.await.map_err(|error| error.to_string())??);
    }
    Ok(latencies)
}

async fn caller<S: Callee>(
    mut grpc: Grpc<S>,
    message: Bytes,
    end: Instant,
) -> Result<Vec<Duration>, String> {
    let mut latencies = Vec::with_capacity(1 << 10);
    while Instant::now() < end {
        let start = Instant::now();
        call(&mut grpc, message.clone()).await?;
        latencies.push(start.elapsed());
    }
    Ok(latencies)
}

/// Sends a message and waits for its echo, on one stream.
async fn streamer<S: Callee>(
    mut grpc: Grpc<S>,
    message: Bytes,
    end: Instant,
) -> Result<Vec<Duration>, String> {
    let path = PathAndQuery::from_static("/bench.Echo/Stream");
    let (sender, messages) = tokio::sync::mpsc::channel(1);
    let request = tonic::Request::new(tokio_stream::wrappers::ReceiverStream::new(messages));
    grpc.ready()
        .await
        .map_err(|error| error.into().to_string())?;
    let response = grpc.streaming(request, path, BytesCodec).await;
    let mut echoes = response.map_err(|status| status.to_string())?.into_inner();
    let mut latencies = Vec::with_capacity(1 << 10);
    while Instant::now() < end {
        let start = Instant::now();
        sender
            .send(message.clone())
            .await
            .map_err(|error| error.to_string())?;
        let echo = echoes
            .message()
            .await
            .map_err(|status| status.to_string())?;
        echo.ok_or("the stream ended early")?;
        latencies.push(start.elapsed());
    }
    Ok(latencies)
}
