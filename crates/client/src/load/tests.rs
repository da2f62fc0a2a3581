//! Tests of the server to which a cluster's load is reported, and of the metrics in the reports.

use envoy_types::pb::envoy::config::cluster::v3 as proto;
use envoy_types::pb::envoy::config::core::v3::{
    AggregatedConfigSource, ConfigSource, SelfConfigSource, config_source::ConfigSourceSpecifier,
};
use oxds_core::ads;
use oxds_core::resource::Typed;
use prost::Message;

use super::*;

/// A reporter of two servers. The first is a file, which has no load reports.
fn reporter(bootstrap: &Bootstrap) -> (LoadReporter, [ServerId; 2]) {
    let mut config = ads::ClientConfig::new(bootstrap.node.clone());
    let ids = ["file", "cp:1"].map(|uri| config.add_server(ads::Server::new(uri)));
    let server = &bootstrap.servers[0];
    let options = Options::default();
    let links = ServerLinks::new(options.keepalive);
    let loads = LoadReporter::new([(ids[1], server)], bootstrap, &options, &links);
    (loads, ids)
}

fn reporting_cluster(sender: ServerId) -> Cluster {
    let source = |specifier| ConfigSource {
        config_source_specifier: Some(specifier),
        ..ConfigSource::default()
    };
    let ads = source(ConfigSourceSpecifier::Ads(AggregatedConfigSource {}));
    let cluster = proto::Cluster {
        name: "a".to_owned(),
        cluster_discovery_type: Some(proto::cluster::ClusterDiscoveryType::Type(
            proto::cluster::DiscoveryType::Eds.into(),
        )),
        eds_cluster_config: Some(proto::cluster::EdsClusterConfig {
            eds_config: Some(ads),
            service_name: String::new(),
        }),
        lrs_server: Some(source(ConfigSourceSpecifier::Self_(
            SelfConfigSource::default(),
        ))),
        lrs_report_endpoint_metrics: vec!["cpu_utilization".to_owned()],
        ..proto::Cluster::default()
    };
    let mut cluster = Cluster::parse(&cluster.encode_to_vec()).unwrap();
    cluster.lrs_server = Some(LrsServer::Sender(sender));
    cluster
}

/// Given a client with a file source / the gRPC server is found by its id, and the file has no load reports.
#[tokio::test]
async fn c144_server_is_found_by_id() {
    let (loads, [file, server]) = reporter(&Bootstrap::builder("cp:1").build().unwrap());
    assert!(loads.of(&reporting_cluster(file)).is_none());
    let load = loads.of(&reporting_cluster(server)).unwrap();
    assert_eq!(*load.key(), ClusterKey::new("a", ""));
}

/// Given the rule of gRFC A85, or that of A64, which the environment selects / a cluster reports the metrics that it
/// lists, or every named metric.
#[tokio::test]
async fn c143_environment_selects_reported_metrics() {
    for (listed_metrics, expected) in [
        (true, MetricSelection::new(["cpu_utilization"])),
        (false, MetricSelection::every_named()),
    ] {
        let mut bootstrap = Bootstrap::builder("cp:1").build().unwrap();
        bootstrap.listed_metrics = listed_metrics;
        let (loads, [_, server]) = reporter(&bootstrap);
        let load = loads.of(&reporting_cluster(server)).unwrap();
        assert_eq!(*load.metrics, expected);
    }
}
