//! Metrics of a server, under the names of gRFC A66.
//!
//! gRFC A66: a method that the server does not have is recorded as `other`, because clients may call any number of
//! them. A tonic service does not say which methods it has, so the server learns them: the first RPC of a path is
//! recorded when its service responds, by name unless the response is `UNIMPLEMENTED`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use oxds_client::metrics::{
    ByCode, ByName, LazySeries, Recorder, SERVER_CALL_DURATION, SERVER_CALL_RECEIVED_SIZE,
    SERVER_CALL_SENT_SIZE, SERVER_CALL_STARTED, Series,
};
use oxds_net::rpc::code_name;
use tonic::Code;

const OTHER: &str = "other";

/// Most names of methods. A service that accepts any path must not make any number of series.
const MAX_METHODS: usize = 1_000;

/// Metrics of a server.
#[derive(Debug)]
pub(crate) struct ServerMetrics {
    recorder: Arc<dyn Recorder>,
    methods: ByName<MethodSeries>,
    known: AtomicUsize,
}

/// Series of a method.
#[derive(Debug)]
pub(crate) struct MethodSeries {
    name: Box<str>,
    started: LazySeries,
    ended: ByCode<EndSeries>,
}

#[derive(Debug)]
struct EndSeries {
    duration: Series,
    sent: Series,
    received: Series,
}

/// Method of an RPC.
#[derive(Debug)]
pub(crate) enum Method {
    /// The start of the RPC is recorded.
    Known(Arc<MethodSeries>),
    /// Nothing is recorded; this is its name.
    Unknown(Box<str>),
}

/// Values of an RPC at its end.
#[derive(Debug)]
pub(crate) struct CallValues {
    pub(crate) status: Code,
    pub(crate) duration: Duration,
    pub(crate) sent: u64,
    pub(crate) received: u64,
}

impl ServerMetrics {
    pub(crate) fn new(recorder: Arc<dyn Recorder>) -> Self {
        Self {
            recorder,
            methods: ByName::default(),
            known: AtomicUsize::new(0),
        }
    }

    /// Begins an RPC, and records that, if its method is known.
    pub(crate) fn started(&self, path: &str) -> Method {
        let name = path.strip_prefix('/').unwrap_or(path);
        match self.methods.find(name) {
            Some(method) => {
                self.record_start(&method);
                Method::Known(method)
            }
            None => Method::Unknown(name.into()),
        }
    }

    /// Records the start of an RPC, unless it is recorded. `is_known` says whether a service has the method.
    pub(crate) fn learn(&self, method: &mut Method, is_known: bool) {
        let Method::Unknown(name) = method else {
            return;
        };
        let is_named = is_known && self.known.load(Ordering::Relaxed) < MAX_METHODS;
        let name = if is_named { &**name } else { OTHER };
        let series = self.methods.get(name, || {
            self.known.fetch_add(1, Ordering::Relaxed);
            MethodSeries::new(name)
        });
        self.record_start(&series);
        *method = Method::Known(series);
    }

    fn record_start(&self, method: &MethodSeries) {
        let started = &method.started;
        let series = started.get(&self.recorder, &SERVER_CALL_STARTED, &[&method.name]);
        series.add(1);
    }

    /// Records the end of an RPC whose start is recorded.
    pub(crate) fn ended(&self, method: &Method, values: &CallValues) {
        let Method::Known(method) = method else {
            return;
        };
        let series = method.ended.get(values.status, || {
            let labels = [&*method.name, code_name(values.status)];
            let bind = |instrument| Series::new(&self.recorder, instrument, &labels);
            EndSeries {
                duration: bind(&SERVER_CALL_DURATION),
                sent: bind(&SERVER_CALL_SENT_SIZE),
                received: bind(&SERVER_CALL_RECEIVED_SIZE),
            }
        });
        series.duration.record(values.duration.as_secs_f64());
        series.sent.record(as_f64(values.sent));
        series.received.record(as_f64(values.received));
    }
}

impl MethodSeries {
    fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            started: LazySeries::default(),
            ended: ByCode::default(),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^52")]
fn as_f64(size: u64) -> f64 {
    size as f64
}
