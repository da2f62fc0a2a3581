//! Tests of HTTP filters: fault injection, and filters of the program (gRFC A33, A39).

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderValue};
use oxds_channel::testing::{Call, Script, call, cluster, config};
use oxds_channel::{
    ExtensionConfig, ExtensionValue, Extensions, FilterFuture, FilterRequest, HttpFilter,
    HttpFilters, XdsChannel,
};
use oxds_core::lb::{AbortStatus, FaultAbort, FaultConfig, FaultDelay, FaultShare};
use oxds_core::resource::{CustomFilter, FilterConfig, HttpFilter as FilterSpec};
use tonic::{Code, Status};

use crate::support::{backends, call_once, channel, eventually, ready, retry_policy};

const ALL: &[(&str, &[(u32, usize)])] = &[("", &[(1, 0)])];
/// Longer than any test.
const LONG: Duration = Duration::from_secs(3600);

fn abort(status: Option<AbortStatus>) -> FaultConfig {
    FaultConfig {
        abort: Some(FaultAbort {
            fixed: status,
            share: FaultShare::ALL,
        }),
        ..FaultConfig::default()
    }
}

fn delay(delay: Duration) -> FaultConfig {
    FaultConfig {
        delay: Some(FaultDelay {
            fixed: Some(delay),
            share: FaultShare::ALL,
        }),
        ..FaultConfig::default()
    }
}

fn spec(name: &str, config: FilterConfig) -> FilterSpec {
    FilterSpec {
        name: name.into(),
        config,
    }
}

fn fault(config: FaultConfig) -> FilterSpec {
    spec("fault", FilterConfig::Fault(Arc::new(config)))
}

/// Puts a cluster with one endpoint and these filters into use.
async fn serve(
    script: &Script,
    channel: &XdsChannel,
    address: std::net::SocketAddr,
    filters: Vec<FilterSpec>,
) {
    let retry = retry_policy(5, LONG, LONG);
    let spec = cluster("one", &[&[("here", 1, &[address])]], 0);
    let resources = config(ALL, vec![spec]).with_filters(filters);
    // A retry of a fault would wait for an hour.
    script.set(resources.map_routes(|forward| forward.retry = Some(Arc::clone(&retry))));
    ready(channel, 1).await;
}

#[tokio::test]
async fn c237_abort_reaches_no_backend_and_is_not_retried() {
    let [backend] = backends().await;
    for (status, code) in [
        (AbortStatus::Grpc(14), Code::Unavailable),
        (AbortStatus::Grpc(3), Code::InvalidArgument),
        (AbortStatus::Http(503), Code::Unavailable),
        (AbortStatus::Http(401), Code::Unauthenticated),
        (AbortStatus::Http(200), Code::Unknown),
    ] {
        let (script, channel) = channel();
        let filters = vec![fault(abort(Some(status)))];
        serve(&script, &channel, backend.address(), filters).await;
        let failed = call_once(&channel).await.unwrap_err();
        assert_eq!((failed.code(), failed.message()), (code, "fault injected"));
    }
    assert_eq!(backend.calls(), 0);
}

#[tokio::test]
async fn c237_abort_ends_a_wait_for_ready_rpc() {
    // given an abort, and a cluster whose only endpoint is down
    let [backend] = backends().await;
    backend.kill();
    let (script, channel) =
        Script::channel(crate::support::builder().wait_for_ready(true)).unwrap();
    let spec = cluster("one", &[&[("here", 1, &[backend.address()])]], 0);
    let filters = vec![fault(abort(Some(AbortStatus::Grpc(8))))];
    script.set(config(ALL, vec![spec]).with_filters(filters));
    // then the RPC fails at once
    let failed = call_once(&channel).await.unwrap_err();
    assert_eq!(failed.code(), Code::ResourceExhausted);
}

#[tokio::test]
async fn c237_headers_choose_the_abort() {
    let [backend] = backends().await;
    let (script, channel) = channel();
    serve(
        &script,
        &channel,
        backend.address(),
        vec![fault(abort(None))],
    )
    .await;
    call_once(&channel).await.unwrap();
    let header = (
        "x-envoy-fault-abort-grpc-request".parse().unwrap(),
        HeaderValue::from(3),
    );
    let asked = Call {
        headers: HeaderMap::from_iter([header]),
        ..Call::default()
    };
    let failed = call(&channel, asked).await.unwrap_err();
    assert_eq!(failed.code(), Code::InvalidArgument);
}

#[tokio::test]
async fn c237_deadline_covers_the_delay() {
    let [backend] = backends().await;
    let (script, channel) = channel();
    serve(
        &script,
        &channel,
        backend.address(),
        vec![fault(delay(LONG))],
    )
    .await;
    let short = Call {
        timeout: Some(Duration::from_millis(80)),
        ..Call::default()
    };
    let failed = call(&channel, short).await.unwrap_err();
    assert_eq!(failed.code(), Code::DeadlineExceeded);
    assert!(
        failed.message().contains("running the HTTP filters"),
        "{failed}"
    );
    assert_eq!(backend.calls(), 0);
}

#[tokio::test]
async fn c237_delayed_rpc_is_sent_after_the_delay() {
    let [backend] = backends().await;
    let (script, channel) = channel();
    let filters = vec![fault(delay(Duration::from_millis(5)))];
    serve(&script, &channel, backend.address(), filters).await;
    call_once(&channel).await.unwrap();
    assert_eq!(backend.calls(), 1);
}

#[tokio::test]
async fn c237_active_faults_are_limited() {
    let [backend] = backends().await;
    let (script, channel) = channel();
    let none = FaultConfig {
        max_active: Some(0),
        ..delay(LONG)
    };
    serve(&script, &channel, backend.address(), vec![fault(none)]).await;
    // A delay would take an hour.
    call_once(&channel).await.unwrap();
}

/// Appends a letter to the header `x-order` of requests and of responses.
struct Letter(&'static str);

impl Letter {
    fn append(&self, headers: &mut HeaderMap) {
        let before = headers
            .get("x-order")
            .map_or("", |value| value.to_str().unwrap());
        let value = HeaderValue::try_from(format!("{before}{}", self.0)).unwrap();
        headers.insert("x-order", value);
    }
}

impl HttpFilter for Letter {
    fn request<'a>(&'a self, request: FilterRequest<'a>) -> FilterFuture<'a> {
        self.append(request.headers);
        Box::pin(async move {
            // A filter may wait.
            tokio::task::yield_now().await;
            if request.headers.contains_key("x-deny") {
                Err(Status::permission_denied(request.path.to_owned()))
            } else {
                Ok(())
            }
        })
    }

    fn response(&self, headers: &mut HeaderMap) {
        self.append(headers);
    }
}

/// Returns the filters of a listener whose filters are these added ones, in order.
fn added(names: [&str; 2]) -> Vec<FilterSpec> {
    let extensions = Extensions::default()
        .with_filter("test.A", |_| Ok(Letter("a")))
        .with_filter("test.B", |_| Ok(Letter("b")));
    let filter = |name: &str| {
        let config = ExtensionConfig {
            type_name: name.into(),
            value: ExtensionValue::Message(Arc::default()),
        };
        let parsed = extensions.http_filter(&config).unwrap().unwrap();
        spec(
            name,
            FilterConfig::Custom(CustomFilter::new(config, parsed)),
        )
    };
    names.map(filter).into()
}

#[tokio::test]
async fn c236_added_filters_run_in_order_and_back() {
    let [backend] = backends().await;
    for (names, sent, received) in [
        (["test.A", "test.B"], "ab", "ba"),
        (["test.B", "test.A"], "ba", "ab"),
    ] {
        let (script, channel) = channel();
        serve(&script, &channel, backend.address(), added(names)).await;
        let mut request = http::Request::post("/a.B/C")
            .body(tonic::body::Body::empty())
            .unwrap();
        request
            .headers_mut()
            .insert("x-keep", HeaderValue::from_static(""));
        let mut service = channel.clone();
        let response = tower_service::Service::call(&mut service, request)
            .await
            .unwrap();
        assert_eq!(backend.request_headers()["x-order"], sent);
        assert_eq!(response.headers()["x-order"], received);
    }
}

#[tokio::test]
async fn c236_failure_of_an_added_filter_ends_the_rpc() {
    let [backend] = backends().await;
    let (script, channel) = channel();
    serve(
        &script,
        &channel,
        backend.address(),
        added(["test.A", "test.B"]),
    )
    .await;
    let denied = Call {
        path: "/a.B/C",
        headers: HeaderMap::from_iter([("x-deny".parse().unwrap(), HeaderValue::from(1))]),
        ..Call::default()
    };
    let failed = call(&channel, denied).await.unwrap_err();
    assert_eq!(
        (failed.code(), failed.message()),
        (Code::PermissionDenied, "/a.B/C")
    );
    assert_eq!(backend.calls(), 0);
    eventually(|| backend.connections() == 1).await;
}
