//! C-266 – C-269: a control plane that is polled.

use std::time::{Duration, Instant};

use http::StatusCode;
use oxds_client::bootstrap::TransportPolicy;
use oxds_client::source::{Rest, Source};
use oxds_client::{Bootstrap, Update, WatchErrorReason, XdsClient};
use oxds_core::resource::{Assignment, Cluster, Listener, RouteConfig};
use oxds_testkit::resources::{assignment, cluster};
use oxds_testkit::{Polled, RestPlane};
use oxds_types::ResourceType;

use crate::scripted::{ambient, error, next, value};

const DELAY: Duration = Duration::from_millis(100);

fn client() -> XdsClient {
    let bootstrap = Bootstrap::without_servers().node_id("poller").build();
    XdsClient::new(bootstrap.unwrap().into())
}

fn source(plane: &RestPlane) -> Source {
    let rest = Rest::new(&plane.url()).unwrap().refresh_delay(DELAY);
    rest.request_timeout(Duration::from_secs(5)).into()
}

async fn start() -> (RestPlane, XdsClient, Source) {
    let plane = RestPlane::start().await.unwrap();
    let source = source(&plane);
    (plane, client(), source)
}

fn names(polled: &Polled) -> Vec<&str> {
    let names = polled.request.resource_names.iter();
    names.map(String::as_str).collect()
}

/// given a REST source / when a resource of each type is watched / then each type is polled at its own path, with node,
/// names, and no version yet.
#[tokio::test(flavor = "multi_thread")]
async fn c266_each_type_is_polled_at_its_path() {
    let (plane, client, source) = start().await;
    for (resource_type, path) in [
        (ResourceType::CLUSTER, "clusters"),
        (ResourceType::ENDPOINT, "endpoints"),
        (ResourceType::LISTENER, "listeners"),
        (ResourceType::ROUTE, "routes"),
        (ResourceType::SCOPED_ROUTE, "scoped-routes"),
        (ResourceType::SECRET, "secrets"),
        (ResourceType::RUNTIME, "runtime"),
        (ResourceType::EXTENSION_CONFIG, "extension_configs"),
    ] {
        let watch = client
            .watch_raw_from(&source, resource_type.clone(), "a")
            .unwrap();
        let polled = plane.next_poll().await.unwrap();
        assert_eq!(polled.path, format!("/v3/discovery:{path}"));
        assert_eq!(polled.headers["content-type"], "application/json");
        assert_eq!(
            polled.headers["prefer"], "wait=4",
            "of the 5 s that we wait"
        );
        assert_eq!(names(&polled), ["a"]);
        assert_eq!(polled.request.type_url, resource_type.type_url());
        assert_eq!(polled.request.version_info, "");
        assert_eq!(polled.request.node.as_ref().unwrap().id, "poller");
        drop(watch);
    }
    let none = client.watch_raw_from(&source, ResourceType::VIRTUAL_HOST, "a");
    let error = none.unwrap_err().to_string();
    assert_eq!(error, "vhds has no service of its own over REST");
}

/// given a server that knows only v2 / then it is polled at the v2 path for the v2 type, and its response is read.
#[tokio::test(flavor = "multi_thread")]
async fn c266_v2_server_is_polled_in_v2() {
    let plane = RestPlane::start().await.unwrap();
    let built = Bootstrap::builder(plane.url().replace("http://", ""));
    let built = built.transport(TransportPolicy::V2Only).build().unwrap();
    // The first use of API v2 reads its descriptors, which takes a busy machine longer than the default of 1 s.
    let rest = Rest::of(built.servers()[0].clone()).request_timeout(Duration::from_secs(30));
    let source = rest.into();
    let mut watch = client().watch_from::<Cluster>(&source, "c").unwrap();
    let polled = plane.next_poll().await.unwrap();
    assert_eq!(polled.path, "/v2/discovery:clusters");
    let type_url = "type.googleapis.com/envoy.api.v2.Cluster";
    assert_eq!(polled.request.type_url, type_url);
    let cluster = format!(
        r#"{{"@type": "{type_url}", "name": "c", "type": "EDS",
            "edsClusterConfig": {{"edsConfig": {{"ads": {{}}}}, "serviceName": "old"}}}}"#
    );
    let answer = format!(r#"{{"versionInfo": "1", "resources": [{cluster}]}}"#);
    polled.write(StatusCode::OK, answer);
    assert_eq!(&*value(&mut watch).await.eds_service_name, "old");
}

/// given a response / then it is applied, and the next poll carries its version; a response of the same version, or
/// 304, changes nothing; a response of another version applies.
#[tokio::test(flavor = "multi_thread")]
async fn c267_response_applies_and_same_version_does_not() {
    let (plane, client, source) = start().await;
    let mut watch = client.watch_from::<Cluster>(&source, "c").unwrap();
    let polled = plane.next_poll().await.unwrap();
    polled.respond(&ResourceType::CLUSTER, "1", vec![cluster("c", "one")]);
    assert_eq!(&*value(&mut watch).await.eds_service_name, "one");

    let polled = plane.next_poll().await.unwrap();
    assert_eq!(polled.request.version_info, "1");
    assert!(polled.request.node.is_some(), "each poll stands alone");
    polled.write(StatusCode::NOT_MODIFIED, "");
    let polled = plane.next_poll().await.unwrap();
    assert_eq!(polled.request.version_info, "1");
    polled.respond(
        &ResourceType::CLUSTER,
        "1",
        vec![cluster("c", "same version, other bytes")],
    );
    let polled = plane.next_poll().await.unwrap();
    polled.respond(&ResourceType::CLUSTER, "2", vec![cluster("c", "two")]);
    assert_eq!(&*value(&mut watch).await.eds_service_name, "two");
    assert_eq!(plane.next_poll().await.unwrap().request.version_info, "2");
}

/// given a cached cluster / when polls fail by a status, a closed connection, silence or an invalid body / then the
/// cluster stays with an ambient error that has the reason; the next poll comes after the delay, with the same version;
/// and a poll without news clears the error.
#[tokio::test(flavor = "multi_thread")]
async fn c268_failed_poll_changes_nothing_and_repeats_after_delay() {
    let plane = RestPlane::start().await.unwrap();
    let rest = Rest::new(&plane.url()).unwrap().refresh_delay(DELAY);
    let source = rest.request_timeout(Duration::from_millis(300)).into();
    let client = client();
    let mut watch = client.watch_from::<Cluster>(&source, "c").unwrap();
    let polled = plane.next_poll().await.unwrap();
    polled.respond(&ResourceType::CLUSTER, "1", vec![cluster("c", "one")]);
    value(&mut watch).await;
    type Answer = fn(Polled);
    let failures: [(Answer, WatchErrorReason, &str); 4] = [
        (
            |polled| polled.write(StatusCode::SERVICE_UNAVAILABLE, "not now"),
            WatchErrorReason::Unreachable,
            "HTTP 503 Service Unavailable: not now",
        ),
        (drop, WatchErrorReason::Unreachable, "connection"),
        (
            |polled| drop(tokio::spawn(polled.given_up())),
            WatchErrorReason::Unreachable,
            "no answer within 300ms",
        ),
        (
            |polled| polled.write(StatusCode::OK, "{\"resources\": 7}"),
            WatchErrorReason::Invalid,
            "malformed DiscoveryResponse",
        ),
    ];
    for (fail, reason, text) in failures {
        let polled = plane.next_poll().await.unwrap();
        assert_eq!(polled.request.version_info, "1");
        let failed = Instant::now();
        fail(polled);
        let ambient_error = ambient(&mut watch, reason).await.to_string();
        assert!(ambient_error.contains(text), "{ambient_error}");
        assert!(
            ambient_error.contains("/v3/discovery:clusters"),
            "{ambient_error}"
        );
        let polled = plane.next_poll().await.unwrap();
        let passed = failed.elapsed();
        assert!(passed >= DELAY.mul_f64(0.8), "{passed:?}");
        // After an invalid body, the resource counts as rejected until it is sent again.
        polled.respond(&ResourceType::CLUSTER, "1b", vec![cluster("c", "one")]);
        assert!(matches!(next(&mut watch).await, Update::Ambient(None)));
        let polled = plane.next_poll().await.unwrap();
        polled.respond(&ResourceType::CLUSTER, "1", vec![cluster("c", "one")]);
    }
}

/// given an address without a server / then the watch gets the error, and polls again.
#[tokio::test(flavor = "multi_thread")]
async fn c268_unreachable_server_is_polled_again() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", free.local_addr().unwrap());
    drop(free);
    let rest = Rest::new(&url).unwrap().refresh_delay(DELAY);
    let client = client();
    let mut watch = client.watch_from::<Cluster>(&rest.into(), "c").unwrap();
    let told = error(&mut watch, WatchErrorReason::Unreachable)
        .await
        .to_string();
    assert!(told.contains("refused"), "{told}");
}

/// given a server that holds polls / then one poll per type is open; when another name is watched, a poll for both
/// replaces it at once; with the last watch the open poll is cancelled.
#[tokio::test(flavor = "multi_thread")]
async fn c269_one_poll_of_a_type_is_open() {
    let (plane, client, source) = start().await;
    let mut a = client.watch_from::<Assignment>(&source, "a").unwrap();
    let first = plane.next_poll().await.unwrap();
    assert_eq!(names(&first), ["a"]);
    let mut b = client.watch_from::<Assignment>(&source, "b").unwrap();
    let both = plane.next_poll().await.unwrap();
    first.given_up().await.unwrap();
    assert_eq!(names(&both), ["a", "b"]);
    let cds = client.watch_from::<Cluster>(&source, "c").unwrap();
    let of_clusters = plane.next_poll().await.unwrap();
    assert_eq!(of_clusters.path, "/v3/discovery:clusters");
    both.respond(
        &ResourceType::ENDPOINT,
        "1",
        vec![assignment("a"), assignment("b")],
    );
    value(&mut a).await;
    value(&mut b).await;
    let held = plane.next_poll().await.unwrap();
    assert_eq!((&*held.request.version_info, names(&held).len()), ("1", 2));
    tokio::time::sleep(DELAY * 3).await;
    assert!(
        plane.take_poll().is_none(),
        "while one is held, there is no other"
    );
    drop((a, b, cds));
    held.given_up().await.unwrap();
    of_clusters.given_up().await.unwrap();
}

/// given a list of servers / when the first fails, the next is polled; when the first returns, it is polled again.
#[tokio::test(flavor = "multi_thread")]
async fn c268_the_next_server_is_polled_while_the_first_fails() {
    let (first, second) = (
        RestPlane::start().await.unwrap(),
        RestPlane::start().await.unwrap(),
    );
    let server = |plane: &RestPlane| {
        let uri = plane.url().replace("http://", "");
        let bootstrap = Bootstrap::builder(uri).build().unwrap();
        bootstrap.servers()[0].clone()
    };
    let rest = Rest::of(server(&first)).or(server(&second));
    let source = rest.refresh_delay(DELAY).into();
    let client = client();
    let mut watch = client.watch_from::<Cluster>(&source, "c").unwrap();
    let polled = first.next_poll().await.unwrap();
    polled.write(StatusCode::BAD_GATEWAY, "");
    let polled = second.next_poll().await.unwrap();
    polled.respond(
        &ResourceType::CLUSTER,
        "2",
        vec![cluster("c", "of the second")],
    );
    assert_eq!(&*value(&mut watch).await.eds_service_name, "of the second");
    let polled = first.next_poll().await.unwrap();
    polled.respond(
        &ResourceType::CLUSTER,
        "1",
        vec![cluster("c", "of the first")],
    );
    assert_eq!(&*value(&mut watch).await.eds_service_name, "of the first");
}

/// given our own control plane over a folder / when it is long-polled / then its resources are delivered, and their
/// changes at once, not after the delay.
#[tokio::test(flavor = "multi_thread")]
async fn c266_c267_c269_our_server_is_polled() {
    use oxds_testkit::folder_server::{FolderServer, one};
    let server = FolderServer::start(&one("first", &[]));
    let url = format!("http://{}", server.http_address());
    let rest = Rest::new(&url)
        .unwrap()
        .refresh_delay(Duration::from_millis(10));
    let source = rest.request_timeout(Duration::from_secs(30)).into();
    let client = client();
    let mut listener = client.watch_from::<Listener>(&source, "svc").unwrap();
    let mut routes = client
        .watch_from::<RouteConfig>(&source, "svc-routes")
        .unwrap();
    let mut cluster = client.watch_from::<Cluster>(&source, "first").unwrap();
    let mut endpoints = client.watch_from::<Assignment>(&source, "first").unwrap();
    value(&mut listener).await;
    value(&mut routes).await;
    value(&mut cluster).await;
    value(&mut endpoints).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let changed = Instant::now();
    server.write(&one("second", &[]));
    value(&mut routes).await;
    error(&mut cluster, WatchErrorReason::DoesNotExist).await;
    assert!(
        changed.elapsed() < Duration::from_secs(5),
        "{:?}",
        changed.elapsed()
    );
}
