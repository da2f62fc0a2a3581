//! Channels that use different API versions (gRFC A30).

use std::sync::Arc;
use std::time::Duration;

use oxds_client::bootstrap::{Features, TransportPolicy};
use oxds_client::{Bootstrap, ClientPool, ConfigWatch, Options, Protocol, Target};
use oxds_core::resolve::XdsConfig;

use crate::support::{
    FolderServer, Yaml, backends, call_once, channel_of, eventually, one, spread,
};

fn bootstrap_of(server: &FolderServer, policy: TransportPolicy) -> Bootstrap {
    let built = Bootstrap::builder(server.address().to_string())
        .node_id("test-node")
        .features(Features::default())
        .transport(policy);
    built.build().unwrap()
}

/// given our own server / when one channel uses v2 and one v3, over SotW and delta / then all have equal
/// configurations, and follow the same edits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c51_c57_our_server_configures_v2_and_v3_channels_alike() {
    let [a, b] = backends().await;
    let healthy = |backend: &oxds_channel::testing::EchoBackend| [(backend.address(), "HEALTHY")];
    let on_a = one("x", &[("here", 1, 0, &healthy(&a))]);
    let control_plane = FolderServer::start(&on_a);
    let policies = [TransportPolicy::V2Only, TransportPolicy::V3Only];
    let channels = policies.map(|policy| channel_of(bootstrap_of(&control_plane, policy)));
    for channel in &channels {
        assert_eq!(spread(channel, 5).await.len(), 1);
    }
    let target = Target::parse("xds:///svc").unwrap();
    let mut configurations = Vec::new();
    for policy in policies {
        for protocol in [Protocol::Sotw, Protocol::Delta] {
            let options = Options::default().with_protocol(protocol);
            let pool = ClientPool::with_options(bootstrap_of(&control_plane, policy), options);
            let config = ConfigWatch::new(&pool, &target).unwrap().next().await;
            configurations.push(config.unwrap());
        }
    }
    for other in &configurations[1..] {
        same(&configurations[0], other);
    }

    control_plane.write(&one("x", &[("here", 1, 0, &healthy(&b))]));
    for channel in &channels {
        while call_once(channel).await.unwrap() != b.address() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
    // A deletion is one in v2, too.
    control_plane.write(Yaml::default().cluster("other", &[]).as_str());
    for channel in &channels {
        eventually(|| channel.status().error.is_some()).await;
    }
}

fn same(one: &Arc<XdsConfig>, other: &Arc<XdsConfig>) {
    assert_eq!(one.listener.name, other.listener.name);
    assert_eq!(one.route_config, other.route_config);
    assert_eq!(one.routes, other.routes);
    let clusters = |config: &XdsConfig| {
        let entries = config.clusters.iter();
        let known = entries.map(|entry| entry.config.clone().unwrap());
        known.collect::<Vec<_>>()
    };
    assert_eq!(clusters(one), clusters(other));
}
