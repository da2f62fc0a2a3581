//! Counts of one RPC: for channelz, and for metrics (gRFC A66).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use http::{HeaderMap, Request};
use oxds_client::channelz::{CountedCall, CountedServer};
use oxds_client::metrics::MessageBytes;
use tokio::time::Instant;
use tonic::Code;

use crate::metrics::{CallValues, Method, ServerMetrics};

const STATUS: &str = "grpc-status";

/// An RPC under way. The drop counts its end.
#[derive(Debug)]
pub(crate) struct CallMeter {
    counted: CountedCall,
    /// `None` without a recorder.
    measured: Option<Box<Measured>>,
}

#[derive(Debug)]
struct Measured {
    metrics: Arc<ServerMetrics>,
    method: Method,
    started: Instant,
    status: Code,
    sent: MessageBytes,
    received: Arc<AtomicU64>,
}

impl CallMeter {
    pub(crate) fn start<B>(
        counted: &CountedServer,
        metrics: Option<&Arc<ServerMetrics>>,
        request: &Request<B>,
    ) -> Self {
        let measured = metrics.map(|metrics| {
            Box::new(Measured {
                method: metrics.started(request.uri().path()),
                metrics: Arc::clone(metrics),
                started: Instant::now(),
                // An RPC that is dropped was cancelled.
                status: Code::Cancelled,
                sent: MessageBytes::default(),
                received: Arc::default(),
            })
        });
        Self {
            counted: counted.begin(),
            measured,
        }
    }

    /// Returns the count of received bytes, which the request writes.
    pub(crate) fn received(&self) -> Option<&Arc<AtomicU64>> {
        self.measured.as_ref().map(|measured| &measured.received)
    }

    pub(crate) fn sent(&mut self, data: &Bytes) {
        if let Some(measured) = &mut self.measured {
            measured.sent.add(data);
        }
    }

    /// Learns from the response of a service whether it has the method.
    pub(crate) fn learn(&mut self, headers: &HeaderMap) {
        if let Some(measured) = &mut self.measured {
            let is_known = code(headers) != Some(Code::Unimplemented);
            let metrics = &measured.metrics;
            metrics.learn(&mut measured.method, is_known);
        }
    }

    /// Reads the status, if these headers or trailers have it.
    pub(crate) fn read_status(&mut self, headers: &HeaderMap) {
        self.counted.read_status(headers);
        if let (Some(measured), Some(code)) = (&mut self.measured, code(headers)) {
            measured.status = code;
        }
    }

    /// Reads the status, if the headers of the response have it. Returns whether they do: then the RPC has no body.
    pub(crate) fn read_head(&mut self, headers: &HeaderMap) -> bool {
        // gRPC over HTTP/2, "Trailers-Only": a response without a body has its status in the headers.
        self.read_status(headers);
        headers.contains_key(STATUS)
    }
}

fn code(headers: &HeaderMap) -> Option<Code> {
    let status = headers.get(STATUS)?;
    Some(Code::from_bytes(status.as_bytes()))
}

impl Drop for Measured {
    fn drop(&mut self) {
        let values = CallValues {
            status: self.status,
            duration: self.started.elapsed(),
            sent: self.sent.total(),
            received: self.received.load(Ordering::Relaxed),
        };
        let metrics = Arc::clone(&self.metrics);
        metrics.learn(&mut self.method, false);
        metrics.ended(&self.method, &values);
    }
}
