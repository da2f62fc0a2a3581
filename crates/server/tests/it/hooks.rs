//! Hooks: the events of calls that a program sees, and the calls that it refuses.

use std::sync::{Arc, Mutex};

use envoy_types::pb::envoy::service::status::v3::{ClientStatusRequest, ClientStatusResponse};
use http::StatusCode;
use oxds_core::group::NodeMatcher;
use oxds_core::session::Request;
use oxds_server::{
    Cache, Call, ClientApi, FieldCatalogue, HookFuture, Hooks, Nack, Observer, Requirement, SemVer,
    SentResponse, Server, Status, Support, VersionedTypeUrl,
};
use oxds_types::discovery::{DiscoveryResponse, Node, Status as Rpc};
use oxds_types::{Glob, ResourceType, Version};
use tokio::sync::Notify;

use crate::admin::{get, json};
use crate::client::{CDS, Client, DELTA, SOTW, Stream, ack, ack_delta, ask, subscribe};
use crate::polling::post;
use crate::{Running, cluster, removal, until, upsert};

const FETCH: &str = "/envoy.service.cluster.v3.ClusterDiscoveryService/FetchClusters";

/// Hooks that record their events in order, and refuse some of them.
#[derive(Clone, Default)]
struct EventLog {
    events: Arc<Mutex<Vec<String>>>,
    /// The prefix of the events to refuse. Empty: none.
    refuses: &'static str,
}

impl EventLog {
    fn refusing(refuses: &'static str) -> Self {
        Self {
            refuses,
            ..Self::default()
        }
    }

    fn record(&self, entry: String) -> Result<(), Status> {
        let refused = !self.refuses.is_empty() && entry.starts_with(self.refuses);
        self.events.lock().unwrap().push(entry);
        if refused {
            return Err(Status::failed_precondition("not today"));
        }
        Ok(())
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.events.lock().unwrap())
    }

    async fn until(&self, entry: &str) {
        let has = |entries: &[String]| entries.iter().any(|e| e == entry);
        until(entry, async || {
            has(&self.events.lock().unwrap()).then_some(())
        })
        .await;
    }

    async fn serve(&self) -> Running {
        let log = self.clone();
        let hooks = move |call: &Call| {
            let method = call.method.rsplit('/').next().unwrap();
            log.record(format!("open {method}")).map(|()| log.clone())
        };
        let server = Running::start(Server::builder().hooks(hooks)).await;
        server.cache.apply(upsert(&["a", "b"]));
        server
    }
}

impl Observer for EventLog {
    fn node(&mut self, node: Node) -> HookFuture<'static, Node> {
        let result = self.record(format!("node {}", node.id)).map(|()| node);
        Box::pin(std::future::ready(result))
    }

    fn request(&mut self, request: &Request) -> Result<(), Status> {
        let rejects = request.error_detail().is_some();
        self.record(format!("request {:?} {rejects}", request.names()))
    }

    fn response(&mut self, sent: &SentResponse<'_>) -> Result<(), Status> {
        assert!(sent.bytes > 16 && sent.version.len() == 16);
        let (resource_type, resources, removed) =
            (sent.resource_type, sent.resources, sent.removed);
        self.record(format!("response {resource_type} +{resources} -{removed}"))
    }

    fn acked(&mut self, resource_type: &ResourceType, _: Version) -> Result<(), Status> {
        self.record(format!("acked {resource_type}"))
    }

    fn nacked(&mut self, nack: &Nack<'_>) -> Result<(), Status> {
        let (resource_type, reason) = (nack.resource_type, nack.reason);
        self.record(format!(
            "nacked {resource_type} {:?}: {reason}",
            nack.resources
        ))
    }

    fn closed(&mut self, status: &Status) {
        let _ = self.record(format!("closed {:?}", status.code()));
    }
}

/// Given hooks, when a SotW client receives, accepts and rejects resources, then the hooks see each event in order, and
/// the end once.
#[tokio::test]
async fn hooks_see_a_sotw_stream_from_open_to_end() {
    let log = EventLog::default();
    let server = log.serve().await;
    let mut stream = Stream::open(server.grpc, SOTW).await;
    stream.send(&ask(CDS, &[]));
    stream.sotw_acked().await;
    log.until("acked cds").await;
    server.cache.apply(upsert(&["c"]));
    let response = stream.sotw().await;
    let mut nack = ack(&response);
    nack.error_detail = Some(Rpc {
        message: "c is bad".into(),
        ..Rpc::default()
    });
    stream.send(&nack);
    log.until("nacked cds [\"c\"]: c is bad").await;
    drop(stream);
    log.until("closed Cancelled").await;
    let expected = [
        "open StreamAggregatedResources",
        "node test-1",
        "request [] false",
        "response cds +2 -0",
        "request [] false",
        "acked cds",
        "response cds +3 -0",
        "request [] true",
        "nacked cds [\"c\"]: c is bad",
        "closed Cancelled",
    ];
    assert_eq!(log.take(), expected);
}

/// As above for a delta client, whose requests have only the added names, and for a server that shuts down.
#[tokio::test]
async fn hooks_see_a_delta_stream_from_open_to_end() {
    let log = EventLog::default();
    let mut server = log.serve().await;
    let mut stream = Stream::open(server.grpc, DELTA).await;
    stream.send(&subscribe(CDS, &["a"]));
    let response = stream.delta().await;
    stream.send(&ack_delta(&response));
    log.until("acked cds").await;
    server.cache.apply(removal(&["a"]));
    stream.delta().await;
    server.stop();
    log.until("closed Unavailable").await;
    let expected = [
        "open DeltaAggregatedResources",
        "node test-1",
        "request [\"a\"] false",
        "response cds +1 -0",
        "request [] false",
        "acked cds",
        "response cds +0 -1",
        "closed Unavailable",
    ];
    assert_eq!(log.take(), expected);
}

/// Given hooks that refuse at one point, then the call ends there with their status, the refused action does not
/// happen, and the metrics count the refusal.
#[tokio::test]
async fn hooks_can_refuse_a_call_at_each_point() {
    for refuses in ["open", "node", "request", "response", "acked", "nacked"] {
        let log = EventLog::refusing(refuses);
        let server = log.serve().await;
        let mut stream = Stream::open(server.grpc, SOTW).await;
        stream.send(&ask(CDS, &[]));
        if let "acked" | "nacked" = refuses {
            let mut answer = ack(&stream.sotw().await);
            if refuses == "nacked" {
                answer.error_detail = Some(Rpc::default());
            }
            stream.send(&answer);
        }
        // If an earlier point refused, no response comes: `status` fails on a message.
        let (code, message) = stream.status().await;
        assert_eq!((code, &*message), (9, "not%20today"), "{refuses}");
        let entries = log.take();
        let ends: Vec<_> = entries.iter().filter(|e| e.starts_with("closed")).collect();
        let expected: &[&str] = match refuses {
            // There is no observer yet.
            "open" => &[],
            _ => &["closed FailedPrecondition"],
        };
        assert_eq!(ends, expected, "{refuses}");
        let metrics = get(server.http, "/metrics").await.1;
        let counted = metrics.contains("oxds_denied_total{reason=\"hook\"} 1\n");
        assert!(counted, "{refuses}: {metrics}");
    }
}

/// Given hooks, when clients call `Fetch` and REST, then the hooks see the same events as for a stream.
#[tokio::test]
async fn hooks_see_fetch_and_rest_calls() {
    let log = EventLog::default();
    let server = log.serve().await;
    let mut client = Client::connect(server.grpc).await;
    let _: DiscoveryResponse = client.unary(FETCH, &ask(CDS, &[])).await;
    let expected = |method: &str, node: &str| {
        [
            format!("open {method}"),
            format!("node {node}"),
            "request [] false".to_owned(),
            "response cds +2 -0".to_owned(),
            "closed Ok".to_owned(),
        ]
    };
    assert_eq!(log.take(), expected("FetchClusters", "test-1"));
    let body = r#"{"node": {"id": "n"}}"#;
    let (status, _) = post(server.http, "/v3/discovery:clusters", body, None).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(log.take(), expected("discovery:clusters", "n"));
}

/// Given hooks that decide by type URL, when clients of single-type services leave the type URL out, then the hooks
/// still see it, in the API version of the request.
#[tokio::test]
async fn s58_hooks_see_the_type_url_of_single_type_services() {
    struct Types;
    impl Observer for Types {
        fn request(&mut self, request: &Request) -> Result<(), Status> {
            Err(Status::permission_denied(request.type_url()))
        }
    }
    let server = Running::start(Server::builder().hooks(|_: &Call| Ok(Types))).await;
    server.cache.apply(upsert(&["a"]));
    let mut client = Client::connect(server.grpc).await;
    for path in [
        FETCH,
        "/envoy.service.cluster.v3.ClusterDiscoveryService/StreamClusters",
    ] {
        let mut call = client.open_with(path, &ask("", &[])).await;
        assert_eq!(call.status().await, (7, CDS.into()), "{path}");
    }
    let (status, text) = post(server.http, "/v3/discovery:clusters", "{}", None).await;
    assert_eq!((status, &*text), (StatusCode::FORBIDDEN, CDS));
    let (_, text) = post(server.http, "/v2/discovery:clusters", "{}", None).await;
    assert_eq!(text, "type.googleapis.com/envoy.api.v2.Cluster");
}

/// Given hooks that refuse with a gRPC status, then REST answers with the corresponding HTTP status.
#[tokio::test]
async fn hooks_refuse_rest_with_an_http_status() {
    let hooks = |call: &Call| {
        if call.headers.contains_key("authorization") {
            Ok(())
        } else {
            Err(Status::unauthenticated("no token"))
        }
    };
    let server = Running::start(Server::builder().hooks(hooks)).await;
    server.cache.apply(upsert(&["a"]));
    let (status, text) = post(server.http, "/v3/discovery:clusters", "{}", None).await;
    assert_eq!((status, &*text), (StatusCode::UNAUTHORIZED, "no token"));
}

/// Hooks that set the cluster of a node themselves, and create its group when `ready` is notified.
struct Gateways {
    cache: Cache,
    ready: Arc<Notify>,
}

impl Hooks for Gateways {
    type Observer = Self;

    async fn open(&self, _: &Call) -> Result<Self, Status> {
        tokio::task::yield_now().await;
        let (cache, ready) = (self.cache.clone(), Arc::clone(&self.ready));
        Ok(Self { cache, ready })
    }
}

impl Observer for Gateways {
    fn node(&mut self, mut node: Node) -> HookFuture<'static, Node> {
        let (cache, ready) = (self.cache.clone(), Arc::clone(&self.ready));
        Box::pin(async move {
            ready.notified().await;
            node.cluster = "gateway-*".into();
            let matcher = NodeMatcher {
                cluster: Some(Glob::exact(&node.cluster)),
                ..NodeMatcher::default()
            };
            cache.replace_group("gateway", matcher, [cluster("made", b"")]);
            Ok(node)
        })
    }
}

/// Given a node hook that creates the resources of a node, when a client sends two requests while it runs, then it is
/// answered once the hook returns, with all resources, and the status shows the node as the hook returned it.
#[tokio::test]
async fn client_waits_until_the_node_hook_returns() {
    let (cache, ready) = (Cache::new(), Arc::new(Notify::new()));
    let gateways = Gateways {
        cache: cache.clone(),
        ready: Arc::clone(&ready),
    };
    let server = Running::start(Server::builder().cache(cache.clone()).hooks(gateways)).await;
    cache.apply(upsert(&["a"]));
    let mut stream = Stream::open(server.grpc, DELTA).await;
    stream.send(&subscribe(CDS, &[]));
    let listeners = "type.googleapis.com/envoy.config.listener.v3.Listener";
    stream.send(&subscribe(listeners, &[]));
    until("the client waits", async || {
        let status = json(server.http).await;
        (status["nodes"][0]["types"].as_array()?.is_empty()).then_some(())
    })
    .await;
    ready.notify_one();
    let response = stream.delta().await;
    let names: Vec<_> = response.resources.iter().map(|r| &*r.name).collect();
    assert_eq!((&*response.type_url, names), (CDS, vec!["a", "made"]));
    assert_eq!(stream.delta().await.type_url, listeners);
    let status = json(server.http).await;
    assert_eq!(status["nodes"][0]["cluster"], "gateway-*");
    assert_eq!(status["nodes"][0]["id"], "test-1");
}

/// Given a node hook that waits, when the client disconnects, then the hook is dropped and `closed` is called.
#[tokio::test]
async fn client_that_leaves_during_a_hook_is_forgotten() {
    let (log, ready) = (EventLog::default(), Arc::new(Notify::new()));
    struct Slow(EventLog, Arc<Notify>);
    impl Observer for Slow {
        fn node(&mut self, node: Node) -> HookFuture<'static, Node> {
            let ready = Arc::clone(&self.1);
            let _ = self.0.record("node".into());
            Box::pin(async move {
                ready.notified().await;
                Ok(node)
            })
        }
        fn closed(&mut self, status: &Status) {
            self.0.closed(status);
        }
    }
    let observed = log.clone();
    let hooks = move |_: &Call| Ok(Slow(observed.clone(), Arc::clone(&ready)));
    let server = Running::start(Server::builder().hooks(hooks)).await;
    let stream = Stream::open(server.grpc, DELTA).await;
    stream.send(&subscribe(CDS, &[]));
    log.until("node").await;
    drop(stream);
    log.until("closed Cancelled").await;
}

/// Given hooks that refuse clients without a token, when such a client calls CSDS or LRS, or gets the status on the
/// gRPC port, then it is refused with the status of its protocol, and the metrics count it. Health checks are not
/// refused.
#[tokio::test]
async fn s66_s68_hooks_can_refuse_lrs_csds_and_status() {
    let hooks = |call: &Call| {
        if call.headers.contains_key("authorization") {
            Ok(())
        } else {
            Err(Status::unauthenticated("no token"))
        }
    };
    let server = Running::start(Server::builder().hooks(hooks)).await;
    server.cache.apply(upsert(&["a"]));
    let mut client = Client::connect(server.grpc).await;
    let old = "/envoy.service.load_stats.v2.LoadReportingService/StreamLoadStats";
    for path in [crate::csds::FETCH, crate::load::LRS, old] {
        let mut stream = client.open(path).await;
        assert_eq!(stream.status().await, (16, "no%20token".into()), "{path}");
    }
    assert_eq!(client.get("/status.json").await, StatusCode::UNAUTHORIZED);
    let refused = "oxds_denied_total{reason=\"hook\"} 4";
    server.counts(refused).await;
    let health = "/grpc.health.v1.Health/Check";
    let mut probe = client
        .open_with(health, &DiscoveryResponse::default())
        .await;
    assert_eq!(probe.status().await.0, 0);
}

/// Given hooks, when a client calls CSDS and LRS, then the hooks see each call and its end.
#[tokio::test]
async fn s66_s68_hooks_see_lrs_csds_and_status() {
    let log = EventLog::default();
    let server = log.serve().await;
    let mut client = Client::connect(server.grpc).await;
    let everything = ClientStatusRequest::default();
    let _: ClientStatusResponse = client.unary(crate::csds::FETCH, &everything).await;
    log.until("closed Ok").await;
    assert_eq!(log.take(), ["open FetchClientStatus", "closed Ok"]);
    let stream = client.open(crate::load::LRS).await;
    drop(stream);
    log.until("closed Cancelled").await;
    assert_eq!(log.take(), ["open StreamLoadStats", "closed Cancelled"]);
}

/// Given hooks with several observer types, then they return boxed observers.
#[tokio::test]
async fn each_call_may_have_another_observer() {
    let log = EventLog::default();
    let observed = log.clone();
    let hooks = move |call: &Call| -> Result<Box<dyn Observer>, Status> {
        Ok(if call.method.contains("Delta") {
            Box::new(observed.clone())
        } else {
            Box::new(())
        })
    };
    let server = Running::start(Server::builder().hooks(hooks)).await;
    server.cache.apply(upsert(&["a"]));
    let mut stream = Stream::open(server.grpc, SOTW).await;
    stream.send(&ask(CDS, &[]));
    stream.sotw_acked().await;
    let mut stream = Stream::open(server.grpc, DELTA).await;
    stream.send(&subscribe(CDS, &[]));
    let response = stream.delta().await;
    stream.send(&ack_delta(&response));
    log.until("acked cds").await;
    drop(stream);
    log.until("closed Cancelled").await;
    let entries = log.take();
    assert_eq!(
        entries
            .iter()
            .filter(|entry| entry.starts_with("node"))
            .count(),
        1
    );
}

/// An observer that records what its client supports at each request.
struct Supports {
    node: Arc<Mutex<Node>>,
    found: Arc<Mutex<Vec<[Support; 2]>>>,
}

impl Observer for Supports {
    fn node(&mut self, node: Node) -> HookFuture<'static, Node> {
        *self.node.lock().unwrap() = node.clone();
        Box::pin(std::future::ready(Ok(node)))
    }

    fn request(&mut self, request: &Request) -> Result<(), Status> {
        let cluster = "envoy.config.cluster.v3.Cluster";
        let fields = FieldCatalogue::default()
            .field(
                "by.version",
                Requirement::default().since(cluster, SemVer::new(3, 7, 0)),
            )
            .field(
                "by.feature",
                Requirement::default().feature("com.acme.burst"),
            );
        let node = self.node.lock().unwrap();
        let client = ClientApi::of(&node).with_versions(request.versioned_type_urls());
        let found = ["by.version", "by.feature"].map(|field| client.supports(&fields, field));
        self.found.lock().unwrap().push(found);
        Ok(())
    }
}

/// Given hooks and clients that send versions and features, or nothing, then the program finds out which fields they
/// support. Unknown features are kept, and shown (V-53).
#[tokio::test]
async fn v54_hooks_find_out_which_fields_a_client_supports() {
    let found: Arc<Mutex<Vec<[Support; 2]>>> = Arc::default();
    let seen = Arc::clone(&found);
    let hooks = move |_: &Call| {
        Ok(Supports {
            node: Arc::default(),
            found: Arc::clone(&seen),
        })
    };
    let server = Running::start(Server::builder().hooks(hooks)).await;
    server.cache.apply(upsert(&["a"]));
    let version = |minor| VersionedTypeUrl {
        type_url: CDS.to_owned(),
        most_recently_supported: Some(SemVer::new(3, minor, 0).into()),
    };
    for (features, versions, expected) in [
        (
            vec!["com.acme.burst"],
            vec![version(7)],
            [Support::Yes, Support::Yes],
        ),
        (
            vec!["com.acme.other"],
            vec![version(6)],
            [Support::No, Support::No],
        ),
        (vec![], vec![], [Support::Unknown, Support::Unknown]),
    ] {
        let mut request = ask(CDS, &[]);
        let node = request.node.get_or_insert_default();
        node.client_features = features
            .iter()
            .map(|feature| (*feature).to_owned())
            .collect();
        request.versioned_type_urls = versions;
        let mut stream = Stream::open(server.grpc, SOTW).await;
        stream.send(&request);
        stream.sotw().await;
        assert_eq!(found.lock().unwrap().pop(), Some(expected));
        let status = json(server.http).await;
        let nodes = status["nodes"].as_array().unwrap();
        let shown = &nodes.last().unwrap()["client_features"];
        assert_eq!(shown, &serde_json::json!(features));
    }
}
