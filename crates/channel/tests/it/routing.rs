//! Tests of route matching, and of configurations that change or fail.

use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use oxds_channel::testing::{broken, cluster, config};
use oxds_channel::{WaitForReady, XdsChannel};
use oxds_core::resource::RouteAction;
use tonic::{Code, Status};
use tower_service::Service;

use crate::support::{
    backends, call_once, call_path, channel, eventually, quick_retries, ready, spread,
};

const ALL: &[(&str, &[(u32, usize)])] = &[("", &[(1, 0)])];

#[tokio::test]
async fn c224_first_matching_route_wins() {
    let [a, b] = backends().await;
    let (script, channel) = channel();
    let clusters = vec![
        cluster("a", &[&[("here", 1, &[a.address()])]], 0),
        cluster("b", &[&[("here", 1, &[b.address()])]], 0),
    ];
    script.set(config(
        &[("/pkg.A/", &[(1, 0)]), ("/pkg.", &[(1, 1)])],
        clusters,
    ));
    assert_eq!(
        call_path(&channel, "/pkg.A/Get").await.unwrap(),
        a.address()
    );
    assert_eq!(
        call_path(&channel, "/pkg.B/Get").await.unwrap(),
        b.address()
    );
}

#[tokio::test]
async fn c229_call_without_route_is_unavailable() {
    let [a] = backends().await;
    let (script, channel) = channel();
    let specs = || vec![cluster("a", &[&[("here", 1, &[a.address()])]], 0)];
    // given no route for the method
    script.set(config(&[("/pkg.A/", &[(1, 0)])], specs()));
    for wait_for_ready in [false, true] {
        let status = fails_at_once(&channel, "/other.C/Get", wait_for_ready).await;
        let text = "no route of xds:///svc matches /other.C/Get";
        assert_eq!((status.code(), status.message()), (Code::Unavailable, text));
    }
    // given a route that clients do not support
    let unsupported = |action: &mut RouteAction| *action = RouteAction::Unsupported;
    script.set(config(ALL, specs()).map_actions(unsupported));
    eventually(|| channel.status().clusters.is_empty()).await;
    for wait_for_ready in [false, true] {
        let status = fails_at_once(&channel, "/pkg.A/Get", wait_for_ready).await;
        let text = "the route of xds:///svc for /pkg.A/Get forwards to no cluster";
        assert_eq!((status.code(), status.message()), (Code::Unavailable, text));
    }
    assert_eq!(a.calls(), 0);
}

/// Makes a call that may be wait-for-ready, and returns its failure.
async fn fails_at_once(channel: &XdsChannel, path: &str, wait_for_ready: bool) -> Status {
    let mut request = Request::post(path).body(Full::<Bytes>::default()).unwrap();
    let extensions = request.extensions_mut();
    extensions.insert(WaitForReady(wait_for_ready));
    let response = channel.clone().call(request).await.unwrap();
    Status::from_header_map(response.headers()).expect("a failure")
}

#[tokio::test]
async fn c230_attempts_of_a_call_stay_in_its_cluster() {
    // given two clusters of equal weight, whose backends fail every attempt
    let [a, b] = backends().await;
    let (script, channel) = channel();
    let clusters = vec![
        cluster("a", &[&[("here", 1, &[a.address()])]], 0),
        cluster("b", &[&[("here", 1, &[b.address()])]], 0),
    ];
    let policy = quick_retries(5);
    let routes: &[(&str, &[(u32, usize)])] = &[("", &[(1, 0), (1, 1)])];
    let resources = config(routes, clusters);
    script.set(resources.map_routes(|forward| forward.retry = Some(Arc::clone(&policy))));
    a.set_status(14);
    b.set_status(14);
    ready(&channel, 2).await;
    let mut chosen = [0, 0];
    while chosen.contains(&0) {
        let before = [a.calls(), b.calls()];
        call_once(&channel).await.unwrap_err();
        // then all attempts of a call go to the same cluster
        match [a.calls() - before[0], b.calls() - before[1]] {
            [5, 0] => chosen[0] += 1,
            [0, 5] => chosen[1] += 1,
            other => panic!("attempts by cluster: {other:?}"),
        }
    }
}

#[tokio::test]
async fn c219_missing_listener_fails_rpcs_until_it_exists() {
    let [a] = backends().await;
    let (script, channel) = channel();
    // given a call that waits for the configuration
    let waiting = tokio::spawn({
        let channel = channel.clone();
        async move { call_once(&channel).await }
    });
    tokio::task::yield_now().await;
    // when the listener does not exist
    script.fail("listener svc: does not exist");
    // then this call and a new one fail
    for status in [
        waiting.await.unwrap().unwrap_err(),
        call_once(&channel).await.unwrap_err(),
    ] {
        assert_eq!(status.code(), Code::Unavailable);
        assert_eq!(status.message(), "listener svc: does not exist");
    }
    assert_eq!(
        channel.status().error.unwrap(),
        "listener svc: does not exist"
    );
    // when the listener exists
    script.set(config(
        ALL,
        vec![cluster("a", &[&[("here", 1, &[a.address()])]], 0)],
    ));
    // then calls reach the backend
    eventually(|| channel.status().error.is_none()).await;
    assert_eq!(call_once(&channel).await.unwrap(), a.address());
}

#[tokio::test]
async fn c220_invalid_cluster_fails_only_its_routes() {
    let [a] = backends().await;
    let (script, channel) = channel();
    let clusters = vec![
        cluster("a", &[&[("here", 1, &[a.address()])]], 0),
        broken("b", "lb_policy: MAGLEV is not supported"),
    ];
    script.set(config(&[("/a", &[(1, 0)]), ("/b", &[(1, 1)])], clusters));
    assert_eq!(call_path(&channel, "/a.A/Get").await.unwrap(), a.address());
    let status = call_path(&channel, "/b.B/Get").await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    assert_eq!(
        status.message(),
        "cluster b: lb_policy: MAGLEV is not supported"
    );
}

#[tokio::test]
async fn c231_route_update_moves_traffic_without_failed_call() {
    let [a, b] = backends().await;
    let (script, channel) = channel();
    let to = |name, backend: &oxds_channel::testing::EchoBackend| {
        config(
            ALL,
            vec![cluster(name, &[&[("here", 1, &[backend.address()])]], 0)],
        )
    };
    // given traffic on cluster a
    script.set(to("a", &a));
    let stop = tokio_util::sync::CancellationToken::new();
    let traffic: Vec<_> = (0..8)
        .map(|_| {
            let (channel, stop) = (channel.clone(), stop.clone());
            tokio::spawn(async move {
                let mut calls = 0;
                while !stop.is_cancelled() {
                    call_once(&channel).await.expect("no call fails");
                    calls += 1;
                }
                calls
            })
        })
        .collect();
    // when the route changes from one cluster to the other and back, again and again
    for round in 0..20 {
        let (name, backend) = if round % 2 == 0 { ("b", &b) } else { ("a", &a) };
        let before = backend.calls();
        script.set(to(name, backend));
        // then traffic follows and no call fails
        eventually(|| backend.calls() > before + 10).await;
    }
    stop.cancel();
    for task in traffic {
        assert!(task.await.unwrap() > 0);
    }
}

#[tokio::test]
async fn c243_update_that_keeps_endpoint_keeps_connection() {
    let [a, b] = backends().await;
    let (script, channel) = channel();
    let with = |localities: &[(&str, u32, &[std::net::SocketAddr])]| {
        config(ALL, vec![cluster("one", &[localities], 0)])
    };
    script.set(with(&[("x", 1, &[a.address()])]));
    spread(&channel, 1).await;
    // when the endpoint moves to another locality and a second one is added
    script.set(with(&[("y", 1, &[a.address(), b.address()])]));
    ready(&channel, 2).await;
    spread(&channel, 10).await;
    // and when the second one is removed
    script.set(with(&[("z", 7, &[a.address()])]));
    eventually(|| b.connections() == 0).await;
    spread(&channel, 10).await;
    // then the channel has connected once to each
    assert_eq!((a.accepted(), b.accepted()), (1, 1));
}
