//! Distribution of traffic that a folder of YAML configures.

use std::net::SocketAddr;

use oxds_channel::testing::{Call, call};
use tonic::Code;

use crate::support::{
    FolderServer, Yaml, backends, call_once, call_path, channel_by, one, ready, spread,
};

const ALL: &str = "{ prefix: \"\" }";

fn healthy(address: SocketAddr) -> [(SocketAddr, &'static str); 1] {
    [(address, "HEALTHY")]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c218_c239_a_folder_becomes_traffic_and_weights_hold() {
    let [a, b] = backends().await;
    let split =
        "{ weighted_clusters: { clusters: [ { name: a, weight: 90 }, { name: b, weight: 10 } ] } }";
    let yaml = Yaml::default()
        .service(&[(ALL, split)])
        .cluster("a", &[("here", 1, 0, &healthy(a.address()))])
        .cluster("b", &[("here", 1, 0, &healthy(b.address()))]);
    let control_plane = FolderServer::start(yaml.as_str());
    let counts = spread(&channel_by(control_plane.address()), 2000).await;
    // σ = √(2000·0.9·0.1) ≈ 13.4; six σ are allowed.
    assert!(counts[&b.address()].abs_diff(200) < 81, "{counts:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c224_routes_by_path_prefix_and_header() {
    let [a, b, c, d] = backends().await;
    let yaml = Yaml::default()
        .service(&[
            ("{ prefix: \"/\", headers: [ { name: x-canary, string_match: { exact: \"yes\" } } ] }", "{ cluster: d }"),
            ("{ path: /pkg.A/Get }", "{ cluster: a }"),
            ("{ prefix: /pkg.A/ }", "{ cluster: b }"),
            (ALL, "{ cluster: c }"),
        ])
        .cluster("a", &[("here", 1, 0, &healthy(a.address()))])
        .cluster("b", &[("here", 1, 0, &healthy(b.address()))])
        .cluster("c", &[("here", 1, 0, &healthy(c.address()))])
        .cluster("d", &[("here", 1, 0, &healthy(d.address()))]);
    let control_plane = FolderServer::start(yaml.as_str());
    let channel = channel_by(control_plane.address());
    for (path, backend) in [("/pkg.A/Get", &a), ("/pkg.A/Put", &b), ("/pkg.B/Get", &c)] {
        assert_eq!(
            call_path(&channel, path).await.unwrap(),
            backend.address(),
            "{path}"
        );
    }
    let mut canary = Call {
        path: "/pkg.A/Get",
        ..Call::default()
    };
    canary
        .headers
        .insert("x-canary", http::HeaderValue::from_static("yes"));
    let (_, picked) = call(&channel, canary).await.unwrap();
    assert_eq!(picked.unwrap().address, d.address());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c213_unhealthy_endpoints_are_skipped() {
    let [up, unknown, down, draining] = backends().await;
    let endpoints = [
        (up.address(), "HEALTHY"),
        (unknown.address(), "UNKNOWN"),
        (down.address(), "UNHEALTHY"),
        (draining.address(), "DRAINING"),
    ];
    let control_plane = FolderServer::start(&one("a", &[("here", 1, 0, &endpoints)]));
    let channel = channel_by(control_plane.address());
    ready(&channel, 2).await;
    spread(&channel, 2).await;
    let counts = spread(&channel, 40).await;
    assert_eq!(
        (counts[&up.address()], counts[&unknown.address()]),
        (20, 20)
    );
    assert_eq!((down.accepted(), draining.accepted()), (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c244_localities_share_by_weight() {
    let [near, far] = backends().await;
    let places: &[_] = &[
        ("near", 3, 0, &healthy(near.address())[..]),
        ("far", 1, 0, &healthy(far.address())[..]),
    ];
    let control_plane = FolderServer::start(&one("a", places));
    let channel = channel_by(control_plane.address());
    ready(&channel, 2).await;
    spread(&channel, 2).await;
    let counts = spread(&channel, 2000).await;
    // σ = √(2000·¾·¼) ≈ 19.4; six σ are allowed.
    assert!(counts[&near.address()].abs_diff(1500) < 117, "{counts:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c245_drops_of_all_and_of_none() {
    let [a] = backends().await;
    let place: &[_] = &[("here", 1, 0, &healthy(a.address())[..])];
    let with = |percent| {
        let yaml = Yaml::default().service(&[(ALL, "{ cluster: a }")]);
        yaml.cluster_dropping("a", percent, place)
    };
    let control_plane = FolderServer::start(with(100).as_str());
    let channel = channel_by(control_plane.address());
    for _ in 0..20 {
        let status = call_once(&channel).await.unwrap_err();
        assert_eq!(status.code(), Code::Unavailable);
        assert!(status.message().contains("dropped as shed"), "{status}");
    }
    control_plane.write(with(0).as_str());
    while call_once(&channel).await.is_err() {
        tokio::task::yield_now().await;
    }
    assert_eq!(spread(&channel, 100).await[&a.address()], 100);
}
