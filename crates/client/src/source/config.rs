//! Sources as the API writes them: `envoy.config.core.v3.ConfigSource`.

use std::collections::BTreeMap;
use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3::api_config_source::ApiType;
use envoy_types::pb::envoy::config::core::v3::config_source::ConfigSourceSpecifier;
use envoy_types::pb::envoy::config::core::v3::grpc_service::TargetSpecifier;
use envoy_types::pb::envoy::config::core::v3::{
    ApiConfigSource, ApiVersion, ConfigSource, GrpcService, PathConfigSource,
};
use envoy_types::pb::google::protobuf;
use oxds_core::ads::Protocol;
use oxds_types::ResourceType;

use super::{File, Grpc, Origin, Rest, Source};
use crate::bootstrap::{Bootstrap, Server, TransportPolicy};

/// A source that cannot be one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// ADS over REST: there is no such thing (C-270).
    #[error(
        "{field}: REST cannot carry ADS, which needs gRPC: it is one stream for all types, and a poll is for one"
    )]
    AdsOverRest {
        /// The field that says so.
        field: String,
    },
    /// A cluster that [`Clusters`] does not have.
    #[error("{field}: where the cluster {cluster:?} is was not said")]
    UnknownCluster {
        /// The field that names it.
        field: String,
        /// Its name.
        cluster: String,
    },
    /// The kind cannot be had that way.
    #[error("{resource_type} has no service of its own over {how}")]
    NoService {
        /// The kind.
        resource_type: ResourceType,
        /// Over what.
        how: &'static str,
    },
    /// The bootstrap has no server of its own.
    #[error("the bootstrap names no server")]
    NoServer,
    /// A value that will not do.
    #[error("{field}: {reason}")]
    Field {
        /// Where it stands.
        field: String,
        /// What is wrong with it.
        reason: String,
    },
}

impl SourceError {
    pub(super) fn field(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Field {
            field: field.into(),
            reason: reason.into(),
        }
    }

    pub(super) fn no_service(resource_type: &ResourceType, protocol: Protocol) -> Self {
        let how = match protocol {
            Protocol::Sotw => "gRPC with full states",
            Protocol::Delta => "gRPC with differences",
        };
        let resource_type = resource_type.clone();
        Self::NoService { resource_type, how }
    }
}

/// A server in plaintext.
pub(super) fn server(field: &str, uri: &str) -> Result<Server, SourceError> {
    let built = Bootstrap::builder(uri).build();
    let built = built.map_err(|error| SourceError::field(field, error.to_string()))?;
    let server = built.servers.into_iter().next();
    server.ok_or_else(|| SourceError::field(field, "names no server"))
}

/// Where the clusters are that config sources name: what a proxy has in its static configuration.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Clusters(BTreeMap<String, Server>);

impl Clusters {
    /// A cluster is at this server, in plaintext.
    ///
    /// # Errors
    /// The address is none.
    pub fn at(self, cluster: &str, server_uri: &str) -> Result<Self, SourceError> {
        let server = server(cluster, server_uri)?;
        Ok(self.by(cluster, server))
    }

    /// A cluster is at this server, which may ask for credentials.
    #[must_use]
    pub fn by(mut self, cluster: &str, server: Server) -> Self {
        self.0.insert(cluster.to_owned(), server);
        self
    }

    fn find(&self, field: &str, cluster: &str) -> Result<Server, SourceError> {
        let found = self.0.get(cluster).cloned();
        found.ok_or_else(|| SourceError::UnknownCluster {
            field: field.to_owned(),
            cluster: cluster.to_owned(),
        })
    }
}

impl Source {
    /// The source that a resource or a bootstrap names. `self` and `ads` are the client's own servers.
    ///
    /// # Errors
    /// The field that will not do, and why.
    pub fn from_config(config: &ConfigSource, clusters: &Clusters) -> Result<Self, SourceError> {
        let specifier = config.config_source_specifier.as_ref();
        let specifier = specifier
            .ok_or_else(|| SourceError::field("config_source_specifier", "must be set"))?;
        let mut source = match specifier {
            ConfigSourceSpecifier::Ads(_) | ConfigSourceSpecifier::Self_(_) => Self::ads(),
            #[allow(deprecated, reason = "files that are old are read")]
            ConfigSourceSpecifier::Path(path) => file(path, "path")?.into(),
            ConfigSourceSpecifier::PathConfigSource(path) => of_path(path)?.into(),
            ConfigSourceSpecifier::ApiConfigSource(api) => of_api(api, clusters)?,
        };
        if let Some(timeout) = &config.initial_fetch_timeout {
            let timeout = duration("initial_fetch_timeout", timeout)?;
            source.initial_fetch_timeout = Some(timeout);
        }
        Ok(source)
    }

    /// The source of all kinds that a proxy's bootstrap names in `dynamic_resources.ads_config`.
    ///
    /// # Errors
    /// The field that will not do, and why: REST, for one, cannot carry ADS (C-270).
    pub fn from_ads_config(
        config: &ApiConfigSource,
        clusters: &Clusters,
    ) -> Result<Self, SourceError> {
        if config.api_type() == ApiType::Rest {
            let field = "ads_config.api_type".to_owned();
            return Err(SourceError::AdsOverRest { field });
        }
        let mut source = of_api(config, clusters)?;
        if let Origin::Grpc(grpc) = &mut source.origin {
            grpc.aggregated = true;
        }
        Ok(source)
    }
}

fn file(path: &str, field: &str) -> Result<File, SourceError> {
    match path {
        "" => Err(SourceError::field(field, "must not be empty")),
        path => Ok(File::new(path)),
    }
}

fn of_path(config: &PathConfigSource) -> Result<File, SourceError> {
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

fn of_api(config: &ApiConfigSource, clusters: &Clusters) -> Result<Source, SourceError> {
    let (protocol, aggregated) = match config.api_type() {
        ApiType::Rest => return of_rest(config, clusters).map(Source::from),
        ApiType::Grpc => (Protocol::Sotw, false),
        ApiType::DeltaGrpc => (Protocol::Delta, false),
        ApiType::AggregatedGrpc => (Protocol::Sotw, true),
        ApiType::AggregatedDeltaGrpc => (Protocol::Delta, true),
        _ => {
            let field = "api_config_source.api_type";
            return Err(SourceError::field(field, "is none that is known"));
        }
    };
    if !config.cluster_names.is_empty() {
        let field = "api_config_source.cluster_names";
        let reason = "is for REST: gRPC has grpc_services";
        return Err(SourceError::field(field, reason));
    }
    let services = config.grpc_services.iter().enumerate();
    let servers = services.map(|(index, service)| {
        let field = format!("api_config_source.grpc_services[{index}]");
        of_service(service, &field, clusters).map(|server| in_version(server, config))
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

fn of_service(
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
                let reason = "credentials are not read from here: name the server as a cluster";
                return Err(SourceError::field(field, reason));
            }
            let field = format!("{field}.google_grpc.target_uri");
            server(&field, &google.target_uri)
        }
        None => Err(SourceError::field(field, "names no server")),
    }
}

fn of_rest(config: &ApiConfigSource, clusters: &Clusters) -> Result<Rest, SourceError> {
    if !config.grpc_services.is_empty() {
        let field = "api_config_source.grpc_services";
        return Err(SourceError::field(field, "REST has cluster_names"));
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
    let delay = delay.ok_or_else(|| SourceError::field(field, "is required by REST"))?;
    rest = rest.refresh_delay(positive(field, delay)?);
    if let Some(timeout) = &config.request_timeout {
        let field = "api_config_source.request_timeout";
        rest = rest.request_timeout(positive(field, timeout)?);
    }
    Ok(rest)
}

/// A server that is asked in the version that the source says.
fn in_version(mut server: Server, config: &ApiConfigSource) -> Server {
    #[allow(deprecated, reason = "old servers are spoken to")]
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
            "is no duration, or a negative one",
        )),
    }
}

fn positive(field: &str, given: &protobuf::Duration) -> Result<Duration, SourceError> {
    match duration(field, given)? {
        Duration::ZERO => Err(SourceError::field(field, "must be longer than nothing")),
        duration => Ok(duration),
    }
}

#[cfg(test)]
mod tests;
