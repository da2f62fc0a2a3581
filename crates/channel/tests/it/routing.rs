//! From a request to its cluster, and configurations that change or fail.

use oxds_channel::testing::{broken, cluster, config};
use tonic::Code;

use crate::support::{backends, call_once, call_path, channel, spread};

const ALL: &[(&str, &[(u32, usize)])] = &[("", &[(1, 0)])];

#[tokio::test]
async fn c224_the_first_route_that_matches_wins() {
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
    // and none for the rest (C-229)
    let status = call_path(&channel, "/other.C/Get").await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    assert!(status.message().contains("/other.C/Get"), "{status}");
}

#[tokio::test]
async fn c219_without_a_listener_rpcs_fail_with_the_cause_and_recover() {
    let [a] = backends().await;
    let (script, channel) = channel();
    // given a call that waits for the configuration
    let waiting = tokio::spawn({
        let channel = channel.clone();
        async move { call_once(&channel).await }
    });
    tokio::task::yield_now().await;
    // when there is none
    script.fail("listener svc: does not exist");
    // then it fails, as do new ones
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
    // when there is one
    script.set(config(
        ALL,
        vec![cluster("a", &[&[("here", 1, &[a.address()])]], 0)],
    ));
    // then calls arrive
    crate::support::eventually(|| channel.status().error.is_none()).await;
    assert_eq!(call_once(&channel).await.unwrap(), a.address());
}

#[tokio::test]
async fn c220_only_the_routes_of_a_broken_cluster_fail() {
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
async fn c231_an_update_moves_traffic_without_a_failed_call() {
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
    // when the route changes to and fro
    for round in 0..20 {
        let (name, backend) = if round % 2 == 0 { ("b", &b) } else { ("a", &a) };
        let before = backend.calls();
        script.set(to(name, backend));
        // then traffic follows, and none of it is lost
        crate::support::eventually(|| backend.calls() > before + 10).await;
    }
    stop.cancel();
    for task in traffic {
        assert!(task.await.unwrap() > 0);
    }
}

#[tokio::test]
async fn c243_an_update_that_leaves_an_endpoint_leaves_its_connection() {
    let [a, b] = backends().await;
    let (script, channel) = channel();
    let with = |places: &[(&str, u32, &[std::net::SocketAddr])]| {
        config(ALL, vec![cluster("one", &[places], 0)])
    };
    script.set(with(&[("x", 1, &[a.address()])]));
    spread(&channel, 1).await;
    // when the endpoint moves to another locality and another one comes
    script.set(with(&[("y", 1, &[a.address(), b.address()])]));
    crate::support::ready(&channel, 2).await;
    spread(&channel, 10).await;
    // and when that one goes again
    script.set(with(&[("z", 7, &[a.address()])]));
    crate::support::eventually(|| b.connections() == 0).await;
    spread(&channel, 10).await;
    // then the first was connected to once
    assert_eq!((a.accepted(), b.accepted()), (1, 1));
}
