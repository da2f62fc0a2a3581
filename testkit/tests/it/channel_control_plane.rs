//! Control planes that are late, silent, wrong or dead.

use std::time::{Duration, Instant};

use oxds_channel::testing::{Call, call};
use oxds_channel::{Bootstrap, ClientPool, Connectivity, Pool, XdsChannel};
use tokio::net::TcpListener;
use tonic::Code;

use crate::support::{
    FolderServer, SOON, Yaml, backends, call_once, channel_by, eventually, one, spread,
};

const SHORT: Duration = Duration::from_millis(150);

#[tokio::test]
async fn c91_an_unreachable_control_plane_fails_calls_and_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let channel = channel_by(address);
    let status = call_once(&channel).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    for part in [&address.to_string(), "test-node", "svc"] {
        assert!(status.message().contains(part), "{part}: {status}");
    }
}

#[tokio::test]
async fn c233_the_deadline_holds_while_the_control_plane_is_silent() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let channel = channel_by(silent.local_addr().unwrap());
    let began = Instant::now();
    let what = Call {
        timeout: Some(SHORT),
        ..Call::default()
    };
    let status = call(&channel, what).await.unwrap_err();
    assert!(began.elapsed() >= SHORT && began.elapsed() < SOON);
    assert_eq!(status.code(), Code::DeadlineExceeded);
    assert!(
        status.message().contains("waiting for the configuration"),
        "{status}"
    );
}

/// given a route for calls with a user agent / when the application sets none / then the route does not match, because
/// the one that the channel adds is not visible; one of the application is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c226_own_user_agent_is_invisible_to_routes() {
    let [a, b] = backends().await;
    let with_agent = "{ prefix: \"\", headers: [ { name: user-agent, present_match: true } ] }";
    let yaml = Yaml::default()
        .service(&[
            (with_agent, "{ cluster: a }"),
            ("{ prefix: \"\" }", "{ cluster: b }"),
        ])
        .cluster("a", &[("here", 1, 0, &[(a.address(), "HEALTHY")])])
        .cluster("b", &[("here", 1, 0, &[(b.address(), "HEALTHY")])]);
    let control_plane = FolderServer::start(yaml.as_str());
    let channel = channel_by(control_plane.address());
    assert_eq!(call_once(&channel).await.unwrap(), b.address());
    let mut what = Call {
        timeout: Some(SOON),
        ..Call::default()
    };
    let agent = http::HeaderValue::from_static("app/1");
    what.headers.insert(http::header::USER_AGENT, agent);
    let (_, picked) = call(&channel, what).await.unwrap();
    assert_eq!(picked.unwrap().address, a.address());
}

/// given a channel that is dropped after a call / when its target is opened again at once, time after time / then each
/// channel is served at once: no name waits for the resource timeout of 15 s.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn target_reopened_at_once_is_served() {
    let [a] = backends().await;
    let yaml = one("a", &[("here", 1, 0, &[(a.address(), "HEALTHY")])]);
    let control_plane = FolderServer::start(&yaml);
    let bootstrap = Bootstrap::builder(control_plane.address().to_string()).node_id("test-node");
    let clients = ClientPool::new(bootstrap.build().unwrap());
    let connections = Pool::new();
    for round in 0..300 {
        let channel = XdsChannel::builder("xds:///svc")
            .clients(clients.clone())
            .pool(connections.clone())
            .report_picks(true)
            .build()
            .unwrap();
        let called = tokio::time::timeout(Duration::from_secs(10), call_once(&channel)).await;
        let backend =
            called.unwrap_or_else(|_| panic!("round {round} waits: {:?}", channel.status()));
        assert_eq!(backend.unwrap(), a.address(), "round {round}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c119_c219_deleted_listener_fails_calls_until_it_returns() {
    let [a] = backends().await;
    let yaml = one("a", &[("here", 1, 0, &[(a.address(), "HEALTHY")])]);
    let control_plane = FolderServer::start(&yaml);
    let channel = channel_by(control_plane.address());
    spread(&channel, 5).await;
    // when the listener goes
    control_plane.write(Yaml::default().cluster("other", &[]).as_str());
    eventually(|| channel.status().error.is_some()).await;
    // then calls fail as unavailable, not as not-found, and name listener and node
    let status = call_once(&channel).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    for part in ["svc", "test-node", "does not exist"] {
        assert!(status.message().contains(part), "{part}: {status}");
    }
    // when it returns
    control_plane.write(&yaml);
    eventually(|| channel.status().error.is_none()).await;
    spread(&channel, 5).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c90_c149_dead_control_plane_stops_no_traffic() {
    let [a, b] = backends().await;
    let mut control_plane =
        FolderServer::start(&one("a", &[("here", 1, 0, &[(a.address(), "HEALTHY")])]));
    let channel = channel_by(control_plane.address());
    spread(&channel, 5).await;
    // when it is killed
    control_plane.kill();
    // then the last configuration serves, new connections included
    a.kill();
    let connectivity = || channel.status().clusters[0].connectivity;
    eventually(|| connectivity() == Connectivity::TransientFailure).await;
    a.restart().await.unwrap();
    // (connecting is not enough: calls fail until the channel reports ready)
    eventually(|| connectivity() == Connectivity::Ready).await;
    assert_eq!(spread(&channel, 100).await[&a.address()], 100);
    // when another one takes its place and routes to another cluster
    let yaml = Yaml::default()
        .service(&[("{ prefix: \"\" }", "{ cluster: b }")])
        .cluster("a", &[("here", 1, 0, &[(a.address(), "HEALTHY")])])
        .cluster("b", &[("here", 1, 0, &[(b.address(), "HEALTHY")])]);
    control_plane.write(yaml.as_str());
    control_plane.restart();
    // then traffic follows, and no call fails on the way
    let follow = async { while call_once(&channel).await.unwrap() != b.address() {} };
    tokio::time::timeout(SOON, follow).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c220_a_broken_cluster_fails_only_its_own_routes() {
    let [a] = backends().await;
    let yaml = Yaml::default()
        .service(&[
            ("{ prefix: /a }", "{ cluster: a }"),
            ("{ prefix: \"\" }", "{ cluster: bad }"),
        ])
        .cluster("a", &[("here", 1, 0, &[(a.address(), "HEALTHY")])]);
    let bad = "---\n\
        \"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster\n\
        name: bad\n\
        type: EDS\n\
        lb_policy: MAGLEV\n\
        eds_cluster_config: { eds_config: { ads: {}, resource_api_version: V3 } }\n";
    let control_plane = FolderServer::start(&format!("{}{bad}", yaml.as_str()));
    let channel = channel_by(control_plane.address());
    assert_eq!(
        crate::support::call_path(&channel, "/a.A/Get")
            .await
            .unwrap(),
        a.address()
    );
    let status = call_once(&channel).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    assert!(status.message().contains("MAGLEV"), "{status}");
}

#[tokio::test]
async fn c99_the_last_handle_ends_every_task_and_socket() {
    let [a] = backends().await;
    let control_plane =
        FolderServer::start(&one("a", &[("here", 1, 0, &[(a.address(), "HEALTHY")])]));
    let alive = || {
        tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks()
    };
    let before = alive();
    let channel = channel_by(control_plane.address());
    spread(&channel, 5).await;
    assert!(alive() > before);
    drop(channel);
    eventually(|| a.connections() == 0 && alive() <= before).await;
}
