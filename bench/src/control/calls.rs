//! A process that calls at a rate and reports its results.
//!
//! It prints `ready`, and answers each line with three numbers: microseconds from the creation of its channel to its
//! first response (0 before that), calls done since, and calls failed.

#![allow(
    clippy::print_stdout,
    reason = "parts talk to their parent over standard output"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Uri;
use http::uri::PathAndQuery;
use tokio::time::MissedTickBehavior;
use tonic::client::Grpc;

use crate::program::program;
use crate::roles::{Part, Role, Variant};
use crate::rpc::bytes_codec::BytesCodec;
use crate::rpc::callee::Callee;
use crate::rpc::variant::{oxds_by, tonic_xds_by};
use crate::serve::obey;

/// Callers: enough to keep the rate while some of them wait.
const CALLERS: u32 = 32;
const DEADLINE: Duration = Duration::from_secs(15);

/// A client under comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Client {
    Oxds,
    TonicXds,
    GrpcGo,
}

/// Results of a client so far.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Status {
    pub(crate) first: Duration,
    pub(crate) done: u64,
    pub(crate) failed: u64,
}

impl Client {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Oxds => "oxds",
            Self::TonicXds => "tonic-xds",
            Self::GrpcGo => "grpc-go",
        }
    }

    /// Starts the client with control planes in order of priority.
    pub(crate) fn start(self, control_planes: &[&str], rate: u32) -> Result<Part, String> {
        // tonic-xds takes a URL where gRPC's bootstrap has a target.
        let scheme = if self == Self::TonicXds {
            "http://"
        } else {
            ""
        };
        let entry = |address: &&str| {
            format!(
                r#"{{"server_uri":"{scheme}{address}","channel_creds":[{{"type":"insecure"}}],"server_features":["xds_v3"]}}"#
            )
        };
        let entries: Vec<_> = control_planes.iter().map(entry).collect();
        let bootstrap = format!(
            r#"{{"xds_servers":[{}],"node":{{"id":"bench"}}}}"#,
            entries.join(",")
        );
        let variant = match self {
            Self::Oxds => Variant::Oxds,
            Self::TonicXds => Variant::TonicXds,
            Self::GrpcGo => {
                let program = program("OXDS_BENCH_GRPC_GO")?;
                return Part::start_program(&program, &[rate.to_string(), bootstrap]);
            }
        };
        Part::start(&Role::Calls {
            variant,
            rate,
            bootstrap,
        })
    }
}

/// Requests the results of the client.
pub(crate) fn status(client: &mut Part) -> Result<Status, String> {
    client.send_line("status")?;
    let line = client.answer()?;
    let numbers: Result<Vec<u64>, _> = line.split_whitespace().map(str::parse).collect();
    match numbers.as_deref() {
        Ok(&[first, done, failed]) => Ok(Status {
            first: Duration::from_micros(first),
            done,
            failed,
        }),
        _ => Err(format!("no status: {line}")),
    }
}

/// Waits until it has made this many calls; `None` if it has not within `timeout`.
pub(crate) fn until(
    client: &mut Part,
    done: u64,
    timeout: Duration,
) -> Result<Option<Status>, String> {
    let end = Instant::now() + timeout;
    loop {
        let status = status(client)?;
        if !status.first.is_zero() && status.done >= done {
            return Ok(Some(status));
        }
        if Instant::now() > end {
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[derive(Debug, Default)]
struct Counts {
    first_micros: AtomicU64,
    done: AtomicU64,
    failed: AtomicU64,
}

/// The role.
pub(crate) async fn play(variant: Variant, rate: u32, bootstrap: &str) -> Result<(), String> {
    let began = Instant::now();
    match variant {
        Variant::Oxds => drive(oxds_by(bootstrap)?, rate, began).await,
        Variant::TonicXds => drive(tonic_xds_by(bootstrap)?, rate, began).await,
        other => return Err(format!("{} asks no control plane", other.name())),
    }
    Ok(())
}

async fn drive<S: Callee>(service: S, rate: u32, began: Instant) {
    println!("ready");
    let counts = Arc::new(Counts::default());
    let calling = {
        let (counts, grpc) = (Arc::clone(&counts), grpc(&service));
        async move {
            let mut grpc = grpc;
            while !call(&mut grpc).await {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            let micros = began.elapsed().as_micros() as u64;
            counts.first_micros.store(micros, Ordering::Relaxed);
            for _ in 0..CALLERS {
                tokio::spawn(caller(grpc.clone(), rate, Arc::clone(&counts)));
            }
        }
    };
    tokio::spawn(calling);
    obey(move |_| {
        let [first, done, failed] = [&counts.first_micros, &counts.done, &counts.failed]
            .map(|count| count.load(Ordering::Relaxed));
        Some(format!("{first} {done} {failed}"))
    })
    .await;
}

fn grpc<S: Clone>(service: &S) -> Grpc<S> {
    Grpc::with_origin(service.clone(), Uri::from_static("http://bench"))
}

async fn caller<S: Callee>(mut grpc: Grpc<S>, rate: u32, counts: Arc<Counts>) {
    let mut ticks = tokio::time::interval(Duration::from_secs(1) * CALLERS / rate);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let failed = u64::from(!call(&mut grpc).await);
        counts.failed.fetch_add(failed, Ordering::Relaxed);
        counts.done.fetch_add(1, Ordering::Relaxed);
    }
}

async fn call<S: Callee>(grpc: &mut Grpc<S>) -> bool {
    if grpc.ready().await.is_err() {
        return false;
    }
    let mut request = tonic::Request::new(Bytes::from_static(&[7]));
    request.set_timeout(DEADLINE);
    let path = PathAndQuery::from_static("/bench.Echo/Unary");
    grpc.unary(request, path, BytesCodec).await.is_ok()
}
