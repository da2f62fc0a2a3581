//! C-253: sessions over real connections.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::header::{COOKIE, SET_COOKIE};
use http::{HeaderMap, HeaderValue};
use http_body_util::BodyExt as _;
use oxds_channel::testing::{
    ClusterSpec, EchoBackend, LocalitySpec, Resources, Script, cluster, config,
};
use oxds_channel::{Picked, XdsChannel};
use oxds_core::lb::policy::PolicyConfig;
use oxds_core::lb::{EndpointHealth, HealthSet, SessionConfig, SessionTarget};
use oxds_core::resource::{FilterConfig, HttpFilter};
use tonic::{Code, Status};
use tower_service::Service as _;

use crate::support::{
    SOON, backends, builder, channel, detection, eventually, quick_retries, ready, spread,
};

const ALL: &[(&str, &[(u32, usize)])] = &[("", &[(1, 0)])];

fn session() -> SessionConfig {
    SessionConfig {
        cookie: "s".to_owned(),
        ttl: Duration::from_secs(60),
        path: "/echo.Echo".to_owned(),
    }
}

fn with_sessions(resources: Resources) -> Resources {
    let filter = HttpFilter {
        name: "session".into(),
        config: FilterConfig::Session(Some(Arc::new(session()))),
    };
    resources.with_filters(vec![filter])
}

fn one(endpoints: &[SocketAddr]) -> ClusterSpec {
    cluster("one", &[&[("here", 1, endpoints)]], 0)
}

fn set(script: &Script, spec: ClusterSpec) {
    script.set(with_sessions(config(ALL, vec![spec])));
}

/// The header of a session that an endpoint with these addresses has.
fn cookie(addresses: &[SocketAddr], cluster: &str) -> String {
    let target = SessionTarget::new(addresses.iter().copied(), cluster);
    let cookie = session().set_cookie(&target);
    cookie.split_once(';').unwrap().0.to_owned()
}

/// Result of a call.
#[derive(Debug)]
struct Answer {
    status: Status,
    address: SocketAddr,
    cluster: String,
    /// Cookies of the response.
    cookies: Vec<String>,
}

impl Answer {
    /// Returns the cookie of the response as a client sends it.
    fn cookie(&self) -> &str {
        assert_eq!(self.cookies.len(), 1, "{self:?}");
        let (pair, attributes) = self.cookies[0].split_once(';').unwrap();
        assert_eq!(attributes, " HttpOnly; Path=/echo.Echo; Max-Age=60");
        pair
    }
}

/// Makes a call with this `cookie` header.
async fn get(channel: &XdsChannel, cookie: &str) -> Result<Answer, Status> {
    get_path(channel, "/echo.Echo/Call", cookie).await
}

async fn get_path(channel: &XdsChannel, path: &str, cookie: &str) -> Result<Answer, Status> {
    let mut request = http::Request::post(path)
        .body(tonic::body::Body::empty())
        .unwrap();
    let value = HeaderValue::try_from(cookie).unwrap();
    request.headers_mut().insert(COOKIE, value);
    let call = channel.clone().call(request);
    let response = tokio::time::timeout(SOON, call).await.unwrap().unwrap();
    let (head, body) = response.into_parts();
    let Some(picked) = head.extensions.get::<Arc<Picked>>() else {
        return Err(Status::from_header_map(&head.headers).unwrap());
    };
    let trailers = body.collect().await.unwrap().trailers().cloned();
    let trailers = trailers.unwrap_or_else(|| head.headers.clone());
    let values = head.headers.get_all(SET_COOKIE).iter();
    Ok(Answer {
        status: Status::from_header_map(&trailers).unwrap(),
        address: picked.address,
        cluster: picked.cluster.to_string(),
        cookies: values
            .map(|value| value.to_str().unwrap().to_owned())
            .collect(),
    })
}

fn addresses<const N: usize>(backends: &[EchoBackend; N]) -> [SocketAddr; N] {
    std::array::from_fn(|index| backends[index].address())
}

#[tokio::test]
async fn c253_session_returns_to_its_endpoint() {
    let backends: [_; 3] = backends().await;
    let all = addresses(&backends);
    let (script, channel) = channel();
    set(&script, one(&all));
    ready(&channel, 3).await;
    // A session that begins gets the cookie of the endpoint that served it.
    let first = get(&channel, "other=1").await.unwrap();
    assert_eq!(first.cookie(), cookie(&[first.address], "one"));
    // Later RPCs go there, and the cookie is not set again.
    for _ in 0..10 {
        let again = get(&channel, &format!("other=1; {}", first.cookie())).await;
        let again = again.unwrap();
        assert_eq!((again.address, again.cookies.len()), (first.address, 0));
    }
    // RPCs without a session are spread as always.
    assert_eq!(spread(&channel, 30).await.len(), 3);
    // Whatever the endpoint: the first RPC of a session in this channel may have the cookie already.
    for address in all {
        let answer = get(&channel, &cookie(&[address], "one")).await.unwrap();
        assert_eq!((answer.address, answer.cookies.len()), (address, 0));
    }
}

#[tokio::test]
async fn c253_cookie_path_limits_the_session() {
    let [a, b] = backends().await;
    let (script, channel) = channel();
    set(&script, one(&[a.address(), b.address()]));
    ready(&channel, 2).await;
    let cookie = cookie(&[a.address()], "one");
    let mut used = HashSet::new();
    for _ in 0..4 {
        let answer = get_path(&channel, "/other.Echo/Call", &cookie)
            .await
            .unwrap();
        assert_eq!(answer.cookies.len(), 0);
        used.insert(answer.address);
    }
    assert_eq!(used.len(), 2);
}

#[tokio::test]
async fn c253_malformed_or_foreign_cookies_begin_a_session() {
    let [a] = backends().await;
    let (script, channel) = channel();
    set(&script, one(&[a.address()]));
    let long = format!("s={}", "A".repeat(8000));
    let stranger = cookie(&["192.0.2.1:1".parse().unwrap()], "one");
    let many = vec!["x=y"; 1000].join("; ");
    for value in ["s=", "s=?!", "s=QQ==", &long, &stranger, &many] {
        let answer = get(&channel, value).await.unwrap();
        assert_eq!(answer.cookie(), cookie(&[a.address()], "one"), "{value}");
    }
    // The cookie of another cluster is replaced, although its endpoint serves the RPC (gRFC A60).
    let answer = get(&channel, &cookie(&[a.address()], "two")).await.unwrap();
    assert_eq!(answer.cookie(), cookie(&[a.address()], "one"));
}

#[tokio::test]
async fn c253_response_with_only_trailers_has_the_cookie() {
    let [a] = backends().await;
    let (script, channel) = channel();
    set(&script, one(&[a.address()]));
    a.set_status(3);
    let answer = get(&channel, "").await.unwrap();
    assert_eq!(answer.status.code(), Code::InvalidArgument);
    assert_eq!(answer.cookie(), cookie(&[a.address()], "one"));
}

#[tokio::test]
async fn c253_failed_endpoint_is_replaced_by_a_pick() {
    let [a, b] = backends().await;
    let (script, channel) = channel();
    set(&script, one(&[a.address(), b.address()]));
    ready(&channel, 2).await;
    let of_a = cookie(&[a.address()], "one");
    assert_eq!(get(&channel, &of_a).await.unwrap().address, a.address());
    // While the endpoint is down, the session moves.
    a.kill();
    ready(&channel, 1).await;
    let mut answer = get(&channel, &of_a).await;
    while answer.is_err() {
        // The RPC may have waited for the connection attempt that failed, or was sent on the connection that broke.
        answer = get(&channel, &of_a).await;
    }
    let answer = answer.unwrap();
    assert_eq!(answer.cookie(), cookie(&[b.address()], "one"));
    // A client that kept the old cookie returns with the endpoint.
    a.restart().await.unwrap();
    ready(&channel, 2).await;
    for _ in 0..1000 {
        if get(&channel, &of_a).await.unwrap().address == a.address() {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("the session does not return");
}

#[tokio::test]
async fn c253_removed_endpoint_is_replaced_by_a_pick() {
    let [a, b] = backends().await;
    let (script, channel) = channel();
    set(&script, one(&[a.address(), b.address()]));
    ready(&channel, 2).await;
    let of_a = cookie(&[a.address()], "one");
    assert_eq!(get(&channel, &of_a).await.unwrap().address, a.address());
    set(&script, one(&[b.address()]));
    // The connection ends with the endpoint, although a session has used it.
    eventually(|| a.connections() == 0).await;
    let answer = get(&channel, &of_a).await.unwrap();
    assert_eq!(answer.cookie(), cookie(&[b.address()], "one"));
}

#[tokio::test]
async fn c253_draining_endpoint_keeps_only_its_sessions() {
    use EndpointHealth::{Draining, Healthy};
    let [a, b] = backends().await;
    let both = [a.address(), b.address()];
    let statuses = HealthSet::EMPTY.with(Healthy).with(Draining);
    let (script, channel) = channel();
    let spec = || one(&both).override_statuses(statuses);
    set(&script, spec());
    ready(&channel, 2).await;
    let of_a = cookie(&[a.address()], "one");
    assert_eq!(get(&channel, &of_a).await.unwrap().address, a.address());
    eventually(|| a.connections() == 1).await;
    // when it drains, its session stays, on the same connection
    set(&script, spec().drain(&[a.address()]));
    eventually(|| {
        channel.status().clusters[0]
            .endpoints
            .iter()
            .any(|one| one.is_draining)
    })
    .await;
    for _ in 0..5 {
        let answer = get(&channel, &of_a).await.unwrap();
        assert_eq!((answer.address, answer.cookies.len()), (a.address(), 0));
    }
    assert_eq!(a.accepted(), 1);
    // and other traffic goes elsewhere
    assert_eq!(spread(&channel, 10).await[&b.address()], 10);
    let status = channel.status();
    let draining = status.clusters[0]
        .endpoints
        .iter()
        .find(|one| one.is_draining);
    assert_eq!(draining.unwrap().connections, 1);
    // when its status does not allow sessions, they move, and the connection ends
    set(&script, one(&both).drain(&[a.address()]));
    eventually(|| a.connections() == 0).await;
    let answer = get(&channel, &of_a).await.unwrap();
    assert_eq!(answer.cookie(), cookie(&[b.address()], "one"));
}

#[tokio::test]
async fn c253_draining_endpoint_is_connected_for_a_session() {
    let [a, b] = backends().await;
    let both = [a.address(), b.address()];
    let statuses = HealthSet::EMPTY.with(EndpointHealth::Draining);
    let (script, channel) = channel();
    let spec = one(&both).override_statuses(statuses).drain(&[a.address()]);
    set(&script, spec);
    ready(&channel, 1).await;
    assert_eq!(a.accepted(), 0);
    let of_a = cookie(&[a.address()], "one");
    let answer = get(&channel, &of_a).await.unwrap();
    assert_eq!((answer.address, answer.cookies.len()), (a.address(), 0));
    // HEALTHY is not in the set: sessions do not return to such an endpoint.
    let mut used = HashSet::new();
    for _ in 0..4 {
        let answer = get(&channel, &cookie(&[b.address()], "one")).await.unwrap();
        used.insert((answer.address, answer.cookies.len()));
    }
    // Its cookie names it, so it is not set again.
    assert_eq!(used, HashSet::from([(b.address(), 0)]));
    // Without other endpoints, the policy fails and sessions go on.
    set(
        &script,
        one(&both[..1]).override_statuses(statuses).drain(&both),
    );
    eventually(|| channel.status().clusters[0].endpoints.len() == 1).await;
    let answer = get(&channel, &of_a).await.unwrap();
    assert_eq!(answer.address, a.address());
    let failed = get(&channel, "").await.unwrap_err();
    assert_eq!(failed.code(), Code::Unavailable);
}

#[tokio::test]
async fn c253_session_of_an_inactive_priority_stays() {
    let [high, low] = backends().await;
    high.kill();
    let (script, channel) = channel();
    let (high_only, low_only) = ([high.address()], [low.address()]);
    let levels: [&[LocalitySpec<'_>]; 2] = [&[("h", 1, &high_only)], &[("l", 1, &low_only)]];
    set(&script, cluster("one", &levels, 0));
    let begun = get(&channel, "").await.unwrap();
    assert_eq!(begun.address, low.address());
    // when the higher priority is ready again, other traffic returns to it
    high.restart().await.unwrap();
    eventually(|| channel.status().clusters[0].priority == Some(0)).await;
    assert_eq!(spread(&channel, 5).await[&high.address()], 5);
    // then the session stays at its endpoint, on the same connection (gRFC A75)
    for _ in 0..5 {
        let answer = get(&channel, begun.cookie()).await.unwrap();
        assert_eq!((answer.address, answer.cookies.len()), (low.address(), 0));
    }
    assert_eq!(low.accepted(), 1);
}

#[tokio::test]
async fn c253_idle_endpoint_is_connected_for_a_session() {
    let [a, b] = backends().await;
    for policy in [
        PolicyConfig::PickFirst { shuffle: false },
        PolicyConfig::RingHash {
            min_ring_size: 64,
            max_ring_size: 64,
        },
    ] {
        let (script, channel) = channel();
        set(
            &script,
            one(&[a.address(), b.address()]).with_policy(policy),
        );
        // pick_first uses the first endpoint, and ring_hash none without RPCs.
        for address in [b.address(), a.address(), b.address()] {
            let answer = get(&channel, &cookie(&[address], "one")).await.unwrap();
            assert_eq!((answer.address, answer.cookies.len()), (address, 0));
        }
    }
}

#[tokio::test]
async fn c253_session_connection_ends_after_the_idle_timeout() {
    let [a, b] = backends().await;
    let (script, channel) = channel();
    let spec = one(&[a.address(), b.address()])
        .with_policy(PolicyConfig::PickFirst { shuffle: false })
        .idle_timeout(Duration::from_millis(1));
    set(&script, spec);
    ready(&channel, 1).await;
    let of_b = cookie(&[b.address()], "one");
    assert_eq!(get(&channel, &of_b).await.unwrap().address, b.address());
    // The search runs every five seconds (gRFC A75).
    eventually(|| b.connections() == 0).await;
    assert_eq!(a.connections(), 1);
    // A later RPC of the session connects again.
    assert_eq!(get(&channel, &of_b).await.unwrap().address, b.address());
    assert_eq!(b.accepted(), 2);
}

#[tokio::test]
async fn c253_endpoint_with_two_addresses_is_one_target() {
    let [a, b] = backends().await;
    let (script, channel) = channel();
    let second = b.address();
    let spec =
        one(&[a.address()]).map_endpoints(|endpoint| endpoint.additional_addresses = vec![second]);
    set(&script, spec);
    let begun = get(&channel, "").await.unwrap();
    assert_eq!(begun.cookie(), cookie(&[a.address(), second], "one"));
    let again = get(&channel, begun.cookie()).await.unwrap();
    assert_eq!((again.address, again.cookies.len()), (a.address(), 0));
    // when the address is down, the other one serves the session, and is the first in its cookie
    a.kill();
    let mut moved = get(&channel, begun.cookie()).await;
    while moved.is_err() {
        moved = get(&channel, begun.cookie()).await;
    }
    let moved = moved.unwrap();
    assert_eq!(moved.cookie(), cookie(&[second, a.address()], "one"));
    // and the session stays there after the first address is back
    a.restart().await.unwrap();
    let stays = get(&channel, moved.cookie()).await.unwrap();
    assert_eq!((stays.address, stays.cookies.len()), (second, 0));
}

#[tokio::test]
async fn c253_session_stays_in_its_weighted_cluster() {
    let [a, b, c] = backends().await;
    let (script, channel) = channel();
    let specs = |names: &[&str]| -> Vec<ClusterSpec> {
        let of = |(name, backend): (&&str, &EchoBackend)| {
            cluster(name, &[&[("here", 1, &[backend.address()])]], 0)
        };
        names.iter().zip([&a, &b, &c]).map(of).collect()
    };
    let routes: &[(&str, &[(u32, usize)])] = &[("/echo.Echo/", &[(1, 0), (1, 1)]), ("", &[(1, 2)])];
    let names = ["red", "green", "blue"];
    script.set(with_sessions(config(routes, specs(&names))));
    ready(&channel, 3).await;
    for (name, backend) in [("red", &a), ("green", &b)] {
        let cookie = cookie(&[backend.address()], name);
        for _ in 0..10 {
            let answer = get(&channel, &cookie).await.unwrap();
            assert_eq!((&*answer.cluster, answer.cookies.len()), (name, 0));
        }
    }
    // A cluster of another route is not used (gRFC A60): the cookie gets that of the route.
    let of_blue = cookie(&[c.address()], "blue");
    let answer = get(&channel, &of_blue).await.unwrap();
    assert!(["red", "green"].contains(&&*answer.cluster), "{answer:?}");
    assert_eq!(answer.cookie(), cookie(&[answer.address], &answer.cluster));
    // When the route drops the cluster, its sessions move to another.
    let routes: &[(&str, &[(u32, usize)])] = &[("", &[(1, 0), (1, 2)])];
    script.set(with_sessions(config(routes, specs(&names))));
    eventually(|| channel.status().clusters.len() == 2).await;
    let answer = get(&channel, &cookie(&[b.address()], "green")).await;
    assert_ne!(answer.unwrap().cluster, "green");
}

#[tokio::test]
async fn c253_retries_stay_at_the_endpoint_of_the_session() {
    let backends: [_; 3] = backends().await;
    let all = addresses(&backends);
    let (script, channel) = channel();
    let retry = quick_retries(4);
    let resources = with_sessions(config(ALL, vec![one(&all)]));
    script.set(resources.map_routes(|forward| forward.retry = Some(Arc::clone(&retry))));
    ready(&channel, 3).await;
    // gRFC A55: all attempts of a session go to the same endpoint.
    backends[1].fail_next(3, 14, HeaderMap::new());
    let answer = get(&channel, &cookie(&[all[1]], "one")).await.unwrap();
    assert_eq!(answer.status.code(), Code::Ok);
    assert_eq!((answer.address, answer.cookies.len()), (all[1], 0));
    assert_eq!(backends[1].calls(), 4);
    assert_eq!(backends[0].calls() + backends[2].calls(), 0);
    // Those of a session that begins are picks, and the cookie names the endpoint that served it.
    for backend in &backends {
        backend.fail_next(1, 14, HeaderMap::new());
    }
    let begun = get(&channel, "").await.unwrap();
    assert_eq!(begun.status.code(), Code::Ok);
    assert_eq!(begun.cookie(), cookie(&[begun.address], "one"));
}

#[tokio::test]
async fn c253_ejected_endpoint_is_replaced_by_a_pick() {
    let backends: [_; 3] = backends().await;
    let all = addresses(&backends);
    let (script, channel) = channel();
    set(
        &script,
        one(&all).outlier(detection(Duration::from_secs(3600))),
    );
    ready(&channel, 3).await;
    backends[0].set_status(13);
    let of_first = cookie(&[all[0]], "one");
    // given traffic of which the endpoint fails all, also that of its session
    let ejected = || {
        let status = channel.status();
        let endpoints = &status.clusters[0].endpoints;
        endpoints.iter().any(|one| one.ejected.is_some())
    };
    let calls = async {
        while !ejected() {
            for address in all {
                get(&channel, &cookie(&[address], "one")).await.unwrap();
            }
        }
    };
    tokio::time::timeout(SOON, calls).await.unwrap();
    // then the session moves
    let answer = get(&channel, &of_first).await.unwrap();
    assert_ne!(answer.address, all[0]);
    assert_eq!(answer.cookie(), cookie(&[answer.address], "one"));
}

#[tokio::test]
async fn c253_session_waits_for_a_connection_until_its_deadline() {
    // given a session of an endpoint that accepts connections and says nothing
    let [a] = backends().await;
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent_address = silent.local_addr().unwrap();
    let (script, channel) = Script::channel(builder()).unwrap();
    set(&script, one(&[a.address(), silent_address]));
    ready(&channel, 1).await;
    let mut request = http::Request::post("/echo.Echo/Call")
        .header("grpc-timeout", "100m")
        .body(tonic::body::Body::empty())
        .unwrap();
    let value = HeaderValue::try_from(cookie(&[silent_address], "one")).unwrap();
    request.headers_mut().insert(COOKIE, value);
    let response = channel.clone().call(request).await.unwrap();
    let status = Status::from_header_map(response.headers()).unwrap();
    assert_eq!(status.code(), Code::DeadlineExceeded, "{status}");
    assert!(status.message().contains("connecting"), "{status}");
}
