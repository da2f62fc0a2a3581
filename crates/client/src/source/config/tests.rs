//! Tests of reading config sources.

use envoy_types::pb::envoy::config::core::v3::grpc_service::{EnvoyGrpc, GoogleGrpc};
use envoy_types::pb::envoy::config::core::v3::{
    AggregatedConfigSource, SelfConfigSource, WatchedDirectory,
};

use super::*;

fn clusters() -> Clusters {
    let clusters = Clusters::default().at("xds", "127.0.0.1:1").unwrap();
    clusters.at("spare", "127.0.0.1:2").unwrap()
}

fn read(specifier: ConfigSourceSpecifier) -> Result<Source, SourceError> {
    let config = ConfigSource {
        config_source_specifier: Some(specifier),
        ..ConfigSource::default()
    };
    Source::from_config(&config, &clusters())
}

fn api(api_type: ApiType) -> ApiConfigSource {
    ApiConfigSource {
        api_type: api_type.into(),
        ..ApiConfigSource::default()
    }
}

fn envoy(cluster_name: &str) -> GrpcService {
    GrpcService {
        target_specifier: Some(TargetSpecifier::EnvoyGrpc(EnvoyGrpc {
            cluster_name: cluster_name.to_owned(),
            ..EnvoyGrpc::default()
        })),
        ..GrpcService::default()
    }
}

fn google(target_uri: &str) -> GrpcService {
    GrpcService {
        target_specifier: Some(TargetSpecifier::GoogleGrpc(GoogleGrpc {
            target_uri: target_uri.to_owned(),
            ..GoogleGrpc::default()
        })),
        ..GrpcService::default()
    }
}

fn seconds(seconds: i64) -> Option<protobuf::Duration> {
    Some(protobuf::Duration { seconds, nanos: 0 })
}

#[test]
fn ads_and_self_mean_the_clients_own_servers() {
    let ads = ConfigSourceSpecifier::Ads(AggregatedConfigSource {});
    let own = ConfigSourceSpecifier::Self_(SelfConfigSource::default());
    for specifier in [ads, own] {
        assert_eq!(read(specifier), Ok(Source::ads()));
    }
}

#[test]
fn c262_c263_path_is_a_file_source() {
    #[allow(deprecated)]
    let old = ConfigSourceSpecifier::Path("a.yaml".into());
    assert_eq!(read(old), Ok(Source::file("a.yaml")));
    let new = |interval| {
        ConfigSourceSpecifier::PathConfigSource(PathConfigSource {
            path: "a.yaml".into(),
            watched_directory: Some(WatchedDirectory {
                path: "dir".into(),
                ..WatchedDirectory::default()
            }),
            poll_interval: seconds(interval),
        })
    };
    let file = File::new("a.yaml").watched_directory("dir");
    let expected = file.poll_interval(Duration::from_secs(2));
    assert_eq!(read(new(2)), Ok(expected.into()));
    let error = read(new(0)).unwrap_err().to_string();
    assert!(error.starts_with("path_config_source.poll_interval: "));
}

#[test]
fn c271_grpc_keeps_server_order_and_variant() {
    for (api_type, protocol, aggregated) in [
        (ApiType::Grpc, Protocol::Sotw, false),
        (ApiType::DeltaGrpc, Protocol::Delta, false),
        (ApiType::AggregatedGrpc, Protocol::Sotw, true),
        (ApiType::AggregatedDeltaGrpc, Protocol::Delta, true),
    ] {
        let config = ApiConfigSource {
            grpc_services: vec![envoy("xds"), google("ipv4:127.0.0.1:3")],
            ..api(api_type)
        };
        let source = read(ConfigSourceSpecifier::ApiConfigSource(config)).unwrap();
        let SourceSpecifier::Grpc(grpc) = &source.specifier else {
            panic!("{source:?}");
        };
        let uris: Vec<_> = grpc.servers.iter().map(|server| &*server.uri).collect();
        assert_eq!(uris, ["127.0.0.1:1", "ipv4:127.0.0.1:3"]);
        assert_eq!((grpc.protocol, grpc.aggregated), (protocol, aggregated));
    }
}

#[test]
fn c266_c268_rest_keeps_cluster_order_and_intervals() {
    let config = ApiConfigSource {
        cluster_names: vec!["xds".into(), "spare".into()],
        refresh_delay: seconds(7),
        request_timeout: seconds(30),
        ..api(ApiType::Rest)
    };
    let clusters = clusters();
    let expected = Rest::of(clusters.0["xds"].clone()).or(clusters.0["spare"].clone());
    let expected = expected.refresh_delay(Duration::from_secs(7));
    let expected = expected.request_timeout(Duration::from_secs(30));
    let source = read(ConfigSourceSpecifier::ApiConfigSource(config));
    assert_eq!(source, Ok(expected.into()));
}

/// Given `ads_config` with REST / the error says that ADS needs gRPC; with gRPC, one stream carries all types.
#[test]
fn c270_ads_over_rest_is_error() {
    let rest = ApiConfigSource {
        cluster_names: vec!["xds".into()],
        refresh_delay: seconds(1),
        ..api(ApiType::Rest)
    };
    let error = Source::from_ads_config(&rest, &clusters()).unwrap_err();
    let field = "ads_config.api_type".to_owned();
    assert_eq!(error, SourceError::AdsOverRest { field });
    assert!(
        error
            .to_string()
            .contains("ADS is one stream for all types, and needs gRPC"),
        "{error}"
    );
    let grpc = ApiConfigSource {
        grpc_services: vec![envoy("xds")],
        ..api(ApiType::DeltaGrpc)
    };
    let source = Source::from_ads_config(&grpc, &clusters()).unwrap();
    assert!(source.is_aggregated());
}

#[test]
fn invalid_fields_are_named_in_errors() {
    let rest = |config| ApiConfigSource {
        cluster_names: vec!["xds".into()],
        ..config
    };
    for (config, error) in [
        (
            api(ApiType::Grpc),
            "api_config_source.grpc_services: must not be empty",
        ),
        (
            ApiConfigSource {
                grpc_services: vec![envoy("nope")],
                ..api(ApiType::Grpc)
            },
            "api_config_source.grpc_services[0].envoy_grpc.cluster_name: cluster \"nope\" not found: give its address in code",
        ),
        (
            rest(api(ApiType::Grpc)),
            "api_config_source.cluster_names: must be empty: it is for REST, gRPC uses grpc_services",
        ),
        (
            rest(api(ApiType::Rest)),
            "api_config_source.refresh_delay: must be set for REST",
        ),
        (
            api(ApiType::Rest),
            "api_config_source.cluster_names: must not be empty",
        ),
        (
            ApiConfigSource::default(),
            "api_config_source.api_type: must be REST, GRPC, DELTA_GRPC, AGGREGATED_GRPC or AGGREGATED_DELTA_GRPC",
        ),
    ] {
        let found = read(ConfigSourceSpecifier::ApiConfigSource(config)).unwrap_err();
        assert_eq!(found.to_string(), error);
    }
    let none = Source::from_config(&ConfigSource::default(), &clusters());
    assert!(none.unwrap_err().to_string().contains("must be set"));
}
