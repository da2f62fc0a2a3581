//! Reads sources from `envoy.config.core.v3.ConfigSource`.

use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3::api_config_source::ApiType;
use envoy_types::pb::envoy::config::core::v3::config_source::ConfigSourceSpecifier;
use envoy_types::pb::envoy::config::core::v3::grpc_service::TargetSpecifier;
use envoy_types::pb::envoy::config::core::v3::{
    ApiConfigSource, ApiVersion, ConfigSource, GrpcService, PathConfigSource,
};
use envoy_types::pb::google::protobuf;
use oxds_core::ads::Protocol;

use super::clusters::{Clusters, plaintext_server};
use super::error::SourceError;
use super::file::File;
use super::grpc::Grpc;
use super::optional::require;
use super::rest::Rest;
use super::spec::{Source, SourceSpecifier};
use crate::bootstrap::{Server, TransportPolicy};

impl Source {
    /// Reads the source that a resource or a proxy's bootstrap names. `self` and `ads` mean the client's own servers.
    ///
    /// # Errors
    /// The field with an invalid value, and the rule that it breaks; [`SourceError::FeatureOff`] for a file or REST, if
    /// that feature of the crate is off.
    pub fn from_config(config: &ConfigSource, clusters: &Clusters) -> Result<Self, SourceError> {
        let specifier = config.config_source_specifier.as_ref();
        let specifier = specifier
            .ok_or_else(|| SourceError::field("config_source_specifier", "must be set"))?;
        let mut source = match specifier {
            ConfigSourceSpecifier::Ads(_) | ConfigSourceSpecifier::Self_(_) => Self::ads(),
            #[allow(deprecated, reason = "old configuration files still use it")]
            ConfigSourceSpecifier::Path(path) => file(path, "path")?.into(),
            ConfigSourceSpecifier::PathConfigSource(path) => read_path(path)?.into(),
            ConfigSourceSpecifier::ApiConfigSource(api) => read_api(api, clusters)?,
        };
        if let Some(timeout) = &config.initial_fetch_timeout {
            let timeout = duration("initial_fetch_timeout", timeout)?;
            source.initial_fetch_timeout = Some(timeout);
        }
        Ok(source)
    }

    /// Reads the source of all resource types that a proxy's bootstrap names in `dynamic_resources.ads_config`.
    ///
    /// # Errors
    /// As [`from_config`](Self::from_config); [`SourceError::AdsOverRest`] if the API type is REST (C-270).
    pub fn from_ads_config(
        config: &ApiConfigSource,
        clusters: &Clusters,
    ) -> Result<Self, SourceError> {
        // ADS is one stream for all types; a REST poll is for one (C-270).
        if config.api_type() == ApiType::Rest {
            let field = "ads_config.api_type".to_owned();
            return Err(SourceError::AdsOverRest { field });
        }
        let mut source = read_api(config, clusters)?;
        if let SourceSpecifier::Grpc(grpc) = &mut source.specifier {
            grpc.aggregated = true;
        }
        Ok(source)
    }
}

fn file(path: &str, field: &str) -> Result<File, SourceError> {
    require(field, "file", cfg!(feature = "file"))?;
    match path {
        "" => Err(SourceError::field(field, "must not be empty")),
        path => Ok(File::new(path)),
    }
}

fn read_path(config: &PathConfigSource) -> Result<File, SourceError> {
    let mut file = file(&config.path, "path_config_source.path")?;
    if let Some(watched) = &config.watched_directory {
        file = file.watched_directory(&watched.path);
    }
    if let Some(interval) = &config.poll_interval {
        let interval = positive("path_config_source.poll_interval", interval)?;
        file = file.poll_interval(interval);
    }
    Ok(file)
}

fn read_api(config: &ApiConfigSource, clusters: &Clusters) -> Result<Source, SourceError> {
    // config_source.proto, `ApiType`: the type selects transport, variant and aggregation at once (C-271).
    let (protocol, aggregated) = match config.api_type() {
        ApiType::Rest => return read_rest(config, clusters).map(Source::from),
        ApiType::Grpc => (Protocol::Sotw, false),
        ApiType::DeltaGrpc => (Protocol::Delta, false),
        ApiType::AggregatedGrpc => (Protocol::Sotw, true),
        ApiType::AggregatedDeltaGrpc => (Protocol::Delta, true),
        _ => {
            let field = "api_config_source.api_type";
            return Err(SourceError::field(
                field,
                "must be REST, GRPC, DELTA_GRPC, AGGREGATED_GRPC or AGGREGATED_DELTA_GRPC",
            ));
        }
    };
    if !config.cluster_names.is_empty() {
        let field = "api_config_source.cluster_names";
        let reason = "must be empty: it is for REST, gRPC uses grpc_services";
        return Err(SourceError::field(field, reason));
    }
    let services = config.grpc_services.iter().enumerate();
    let servers = services.map(|(index, service)| {
        let field = format!("api_config_source.grpc_services[{index}]");
        read_service(service, &field, clusters).map(|server| in_version(server, config))
    });
    let servers = servers.collect::<Result<Vec<_>, _>>()?;
    if servers.is_empty() {
        let field = "api_config_source.grpc_services";
        return Err(SourceError::field(field, "must not be empty"));
    }
    let grpc = Grpc {
        servers,
        protocol,
        aggregated,
    };
    Ok(grpc.into())
}

fn read_service(
    service: &GrpcService,
    field: &str,
    clusters: &Clusters,
) -> Result<Server, SourceError> {
    match &service.target_specifier {
        Some(TargetSpecifier::EnvoyGrpc(envoy)) => {
            let field = format!("{field}.envoy_grpc.cluster_name");
            clusters.find(&field, &envoy.cluster_name)
        }
        Some(TargetSpecifier::GoogleGrpc(google)) => {
            let secured = google.channel_credentials.is_some()
                || !google.channel_credentials_plugin.is_empty()
                || !google.call_credentials.is_empty()
                || !google.call_credentials_plugin.is_empty();
            if secured {
                let field = format!("{field}.google_grpc");
                let reason = "credentials here are not supported: name the server as a cluster";
                return Err(SourceError::field(field, reason));
            }
            let field = format!("{field}.google_grpc.target_uri");
            plaintext_server(&field, &google.target_uri)
        }
        None => Err(SourceError::field(field, "must name a server")),
    }
}

fn read_rest(config: &ApiConfigSource, clusters: &Clusters) -> Result<Rest, SourceError> {
    require("api_config_source.api_type", "rest", cfg!(feature = "rest"))?;
    if !config.grpc_services.is_empty() {
        let field = "api_config_source.grpc_services";
        return Err(SourceError::field(
            field,
            "must be empty: it is for gRPC, REST uses cluster_names",
        ));
    }
    let field = "api_config_source.cluster_names";
    let names = config.cluster_names.iter();
    let servers = names.map(|name| {
        let server = clusters.find(field, name)?;
        Ok(in_version(server, config))
    });
    let mut servers = servers.collect::<Result<Vec<_>, _>>()?.into_iter();
    let first = servers.next();
    let first = first.ok_or_else(|| SourceError::field(field, "must not be empty"))?;
    let mut rest = servers.fold(Rest::of(first), Rest::or);
    let field = "api_config_source.refresh_delay";
    let delay = config.refresh_delay.as_ref();
    let delay = delay.ok_or_else(|| SourceError::field(field, "must be set for REST"))?;
    rest = rest.refresh_delay(positive(field, delay)?);
    if let Some(timeout) = &config.request_timeout {
        let field = "api_config_source.request_timeout";
        rest = rest.request_timeout(positive(field, timeout)?);
    }
    Ok(rest)
}

/// Sets the transport version that the config source asks for.
fn in_version(mut server: Server, config: &ApiConfigSource) -> Server {
    #[allow(deprecated, reason = "old servers speak v2 only")]
    if config.transport_api_version() == ApiVersion::V2 {
        server.transport = TransportPolicy::V2Only;
    }
    server
}

fn duration(field: &str, duration: &protobuf::Duration) -> Result<Duration, SourceError> {
    let seconds = u64::try_from(duration.seconds);
    let nanos = u32::try_from(duration.nanos);
    match (seconds, nanos) {
        (Ok(seconds), Ok(nanos)) if nanos < 1_000_000_000 => Ok(Duration::new(seconds, nanos)),
        _ => Err(SourceError::field(
            field,
            "must be a duration that is not negative",
        )),
    }
}

fn positive(field: &str, given: &protobuf::Duration) -> Result<Duration, SourceError> {
    match duration(field, given)? {
        Duration::ZERO => Err(SourceError::field(field, "must be longer than 0 s")),
        duration => Ok(duration),
    }
}

#[cfg(test)]
mod tests;
