//! What a program is told of calls, and refuses.

use std::sync::{Arc, Mutex};

use envoy_types::pb::envoy::service::status::v3::{ClientStatusRequest, ClientStatusResponse};
use http::StatusCode;
use oxds_core::group::NodeMatcher;
use oxds_core::session::Request;
use oxds_server::{Cache, Call, HookFuture, Hooks, Nack, Observer, SentResponse, Server, Status};
use oxds_types::discovery::{DiscoveryResponse, Node, Status as Rpc};
use oxds_types::{Glob, ResourceType, Version};
use tokio::sync::Notify;

use crate::client::{CDS, Client, DELTA, SOTW, Stream, ack, ack_delta, ask, subscribe};
use crate::pages::{get, json};
use crate::polling::post;
use crate::{Running, cluster, removal, until, upsert};

const FETCH: &str = "/envoy.service.cluster.v3.ClusterDiscoveryService/FetchClusters";

/// What was told, in order, and what is not to pass.
#[derive(Clone, Default)]
struct Diary {
    entries: Arc<Mutex<Vec<String>>>,
    /// Refused is what begins with this.
    refuses: &'static str,
}

impl Diary {
    fn refusing(refuses: &'static str) -> Self {
        Self {
            refuses,
            ..Self::default()
        }
    }

    fn note(&self, entry: String) -> Result<(), Status> {
        let refused = !self.refuses.is_empty() && entry.starts_with(self.refuses);
        self.entries.lock().unwrap().push(entry);
        if refused {
            return Err(Status::failed_precondition("not today"));
        }
        Ok(())
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.entries.lock().unwrap())
    }

    async fn until(&self, entry: &str) {
        let has = |entries: &[String]| entries.iter().any(|e| e == entry);
        until(entry, async || {
            has(&self.entries.lock().unwrap()).then_some(())
        })
        .await;
    }

    async fn serve(&self) -> Running {
        let diary = self.clone();
        let hooks = move |call: &Call| {
            let method = call.method.rsplit('/').next().unwrap();
            diary.note(format!("open {method}")).map(|()| diary.clone())
        };
        let server = Running::start(Server::builder().hooks(hooks)).await;
        server.cache.apply(upsert(&["a", "b"]));
        server
    }
}

impl Observer for Diary {
    fn node(&mut self, node: Node) -> HookFuture<'static, Node> {
        let passes = self.note(format!("node {}", node.id)).map(|()| node);
        Box::pin(std::future::ready(passes))
    }

    fn request(&mut self, request: &Request) -> Result<(), Status> {
        let rejects = request.error_detail().is_some();
        self.note(format!("request {:?} {rejects}", request.names()))
    }

    fn response(&mut self, sent: &SentResponse<'_>) -> Result<(), Status> {
        assert!(sent.bytes > 16 && sent.version.len() == 16);
        let (resource_type, resources, removed) =
            (sent.resource_type, sent.resources, sent.removed);
        self.note(format!("response {resource_type} +{resources} -{removed}"))
    }

    fn acked(&mut self, resource_type: &ResourceType, _: Version) -> Result<(), Status> {
        self.note(format!("acked {resource_type}"))
    }

    fn nacked(&mut self, nack: &Nack<'_>) -> Result<(), Status> {
        let (resource_type, reason) = (nack.resource_type, nack.reason);
        self.note(format!(
            "nacked {resource_type} {:?}: {reason}",
            nack.resources
        ))
    }

    fn closed(&mut self, status: &Status) {
        let _ = self.note(format!("closed {:?}", status.code()));
    }
}

/// Given a program that looks; when a SotW client gets, accepts and rejects; then it is told of each in the order in
/// which it happens, and of the end once.
#[tokio::test]
async fn a_stream_is_told_from_its_opening_to_its_end() {
    let diary = Diary::default();
    let server = diary.serve().await;
    let mut stream = Stream::open(server.grpc, SOTW).await;
    stream.send(&ask(CDS, &[]));
    stream.sotw_acked().await;
    diary.until("acked cds").await;
    server.cache.apply(upsert(&["c"]));
    let response = stream.sotw().await;
    let mut nack = ack(&response);
    nack.error_detail = Some(Rpc {
        message: "c is bad".into(),
        ..Rpc::default()
    });
    stream.send(&nack);
    diary.until("nacked cds [\"c\"]: c is bad").await;
    drop(stream);
    diary.until("closed Cancelled").await;
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
    assert_eq!(diary.take(), expected);
}

/// The same of a delta client, whose names are those it asks for besides; and of a server that shuts down.
#[tokio::test]
async fn a_delta_stream_is_told_alike() {
    let diary = Diary::default();
    let mut server = diary.serve().await;
    let mut stream = Stream::open(server.grpc, DELTA).await;
    stream.send(&subscribe(CDS, &["a"]));
    let response = stream.delta().await;
    stream.send(&ack_delta(&response));
    diary.until("acked cds").await;
    server.cache.apply(removal(&["a"]));
    stream.delta().await;
    server.stop();
    diary.until("closed Unavailable").await;
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
    assert_eq!(diary.take(), expected);
}

/// Given a program that refuses at one of the places where it may; then the call ends there with its status, what it
/// was told of did not happen, and it is counted.
#[tokio::test]
async fn a_call_can_be_refused_anywhere() {
    for refuses in ["open", "node", "request", "response", "acked", "nacked"] {
        let diary = Diary::refusing(refuses);
        let server = diary.serve().await;
        let mut stream = Stream::open(server.grpc, SOTW).await;
        stream.send(&ask(CDS, &[]));
        if let "acked" | "nacked" = refuses {
            let mut answer = ack(&stream.sotw().await);
            if refuses == "nacked" {
                answer.error_detail = Some(Rpc::default());
            }
            stream.send(&answer);
        }
        // Where it was refused before, no response comes: a message would not be a status.
        let (code, message) = stream.status().await;
        assert_eq!((code, &*message), (9, "not%20today"), "{refuses}");
        let entries = diary.take();
        let ends: Vec<_> = entries.iter().filter(|e| e.starts_with("closed")).collect();
        let expected: &[&str] = match refuses {
            // There is nobody to be told.
            "open" => &[],
            _ => &["closed FailedPrecondition"],
        };
        assert_eq!(ends, expected, "{refuses}");
        let metrics = get(server.http, "/metrics").await.1;
        let counted = metrics.contains("oxds_refusals_total{reason=\"program\"} 1\n");
        assert!(counted, "{refuses}: {metrics}");
    }
}

/// Given a program that looks; when clients without a stream ask; then it is told of them in the same words.
#[tokio::test]
async fn fetch_and_rest_are_told_alike() {
    let diary = Diary::default();
    let server = diary.serve().await;
    let mut client = Client::connect(server.grpc).await;
    let _: DiscoveryResponse = client.unary(FETCH, &ask(CDS, &[])).await;
    let told = |method: &str, node: &str| {
        [
            format!("open {method}"),
            format!("node {node}"),
            "request [] false".to_owned(),
            "response cds +2 -0".to_owned(),
            "closed Ok".to_owned(),
        ]
    };
    assert_eq!(diary.take(), told("FetchClusters", "test-1"));
    let body = r#"{"node": {"id": "n"}}"#;
    let (status, _) = post(server.http, "/v3/discovery:clusters", body, None).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(diary.take(), told("discovery:clusters", "n"));
}

/// Given a program that decides by what is asked for; when clients leave the type URL out, as services for one kind let
/// them; then it is told of it all the same, in the version of the API that they ask in.
#[tokio::test]
async fn s58_what_is_asked_for_is_told_even_if_the_client_need_not_say_it() {
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

/// Given a program that refuses; then REST says so with the code of HTTP that stands for its own.
#[tokio::test]
async fn rest_is_refused_in_the_words_of_http() {
    let hooks = |call: &Call| match call.headers.contains_key("authorization") {
        true => Ok(()),
        false => Err(Status::unauthenticated("no token")),
    };
    let server = Running::start(Server::builder().hooks(hooks)).await;
    server.cache.apply(upsert(&["a"]));
    let (status, text) = post(server.http, "/v3/discovery:clusters", "{}", None).await;
    assert_eq!((status, &*text), (StatusCode::UNAUTHORIZED, "no token"));
}

/// Knows the gateway of a stream otherwise than from the client, and makes what it is to see in its own time.
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

/// Given a program that makes a node's resources when it comes; when a client asks, and asks for more meanwhile; then
/// it is answered once they are there, with all of them, and known under the name that the program gave it.
#[tokio::test]
async fn a_client_waits_until_what_it_is_to_see_is_ready() {
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
    until("it waits", async || {
        let status = json(server.http).await;
        (status["nodes"][0]["kinds"].as_array()?.is_empty()).then_some(())
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

/// Given a client that goes away while it is found out who it is; then that ends, and the program is told.
#[tokio::test]
async fn a_client_that_does_not_wait_is_forgotten() {
    let (diary, ready) = (Diary::default(), Arc::new(Notify::new()));
    struct Slow(Diary, Arc<Notify>);
    impl Observer for Slow {
        fn node(&mut self, node: Node) -> HookFuture<'static, Node> {
            let ready = Arc::clone(&self.1);
            let _ = self.0.note("node".into());
            Box::pin(async move {
                ready.notified().await;
                Ok(node)
            })
        }
        fn closed(&mut self, status: &Status) {
            self.0.closed(status);
        }
    }
    let told = diary.clone();
    let hooks = move |_: &Call| Ok(Slow(told.clone(), Arc::clone(&ready)));
    let server = Running::start(Server::builder().hooks(hooks)).await;
    let stream = Stream::open(server.grpc, DELTA).await;
    stream.send(&subscribe(CDS, &[]));
    diary.until("node").await;
    drop(stream);
    diary.until("closed Cancelled").await;
}

/// Given a program that refuses whoever has no token; when such a client asks CSDS, reports loads, or looks at the
/// status on the port of clients; then it is refused in the words of its protocol, and counted, and probes of health
/// are not.
#[tokio::test]
async fn s66_s68_what_is_beside_discovery_asks_the_program_too() {
    let hooks = |call: &Call| match call.headers.contains_key("authorization") {
        true => Ok(()),
        false => Err(Status::unauthenticated("no token")),
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
    let refused = "oxds_refusals_total{reason=\"program\"} 4";
    server.counts(refused).await;
    let health = "/grpc.health.v1.Health/Check";
    let mut probe = client
        .open_with(health, &DiscoveryResponse::default())
        .await;
    assert_eq!(probe.status().await.0, 0);
}

/// Given a program that looks; when CSDS is asked, and loads are reported; then it is told of the call and its end.
#[tokio::test]
async fn s66_s68_what_is_beside_discovery_is_told() {
    let diary = Diary::default();
    let server = diary.serve().await;
    let mut client = Client::connect(server.grpc).await;
    let everything = ClientStatusRequest::default();
    let _: ClientStatusResponse = client.unary(crate::csds::FETCH, &everything).await;
    diary.until("closed Ok").await;
    assert_eq!(diary.take(), ["open FetchClientStatus", "closed Ok"]);
    let stream = client.open(crate::load::LRS).await;
    drop(stream);
    diary.until("closed Cancelled").await;
    assert_eq!(diary.take(), ["open StreamLoadStats", "closed Cancelled"]);
}

/// Given a program with several sorts of observers; then it returns them in boxes.
#[tokio::test]
async fn observers_may_differ_from_call_to_call() {
    let diary = Diary::default();
    let told = diary.clone();
    let hooks = move |call: &Call| -> Result<Box<dyn Observer>, Status> {
        Ok(match call.method.contains("Delta") {
            true => Box::new(told.clone()),
            false => Box::new(()),
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
    diary.until("acked cds").await;
    drop(stream);
    diary.until("closed Cancelled").await;
    let told = diary.take();
    assert_eq!(
        told.iter()
            .filter(|entry| entry.starts_with("node"))
            .count(),
        1
    );
}
