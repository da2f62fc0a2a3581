//! Configurations without a control plane.
//!
//! [`Script`] stands where the xDS client stands: what it is told to [`set`](Script::set) is what the
//! channel is configured with.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use oxds_core::lb::{Drop, PathMatcher, PerMillion, RouteMatcher, Text, Weighted};
use oxds_core::resolve::{ClusterConfig, ClusterEntry, ClusterError, CompiledRoute, XdsConfig};
use oxds_core::resource::{Assignment, Cluster, Endpoint, Locality, LocalityId};
use tokio::sync::mpsc;
use tonic::Status;

use crate::builder::{BuildError, Builder};
use crate::channel::XdsChannel;
use crate::driver::Source;

type Config = Result<Arc<XdsConfig>, Status>;

/// Configures one channel by hand.
#[derive(Debug)]
pub struct Script {
    configs: mpsc::UnboundedSender<Config>,
}

impl Script {
    /// A channel, and the script that configures it. Unconfigured at first.
    ///
    /// # Errors
    /// As [`Builder::build`].
    pub fn channel(builder: Builder) -> Result<(Self, XdsChannel), BuildError> {
        let (configs, receiver) = mpsc::unbounded_channel();
        let channel = builder.with_source(Scripted(receiver))?;
        Ok((Self { configs }, channel))
    }

    /// Puts a configuration into use.
    pub fn set(&self, config: XdsConfig) {
        // A channel that is gone needs none.
        drop(self.configs.send(Ok(Arc::new(config))));
    }

    /// Says that there is no configuration.
    pub fn fail(&self, status: Status) {
        drop(self.configs.send(Err(status)));
    }
}

struct Scripted(mpsc::UnboundedReceiver<Config>);

impl Source for Scripted {
    async fn next(&mut self) -> Config {
        match self.0.recv().await {
            Some(config) => config,
            // The last one stays in use.
            None => std::future::pending().await,
        }
    }
}

/// A configuration: what a route sends where, and the clusters.
///
/// `routes` are path prefixes with weighted clusters, which they name by their index.
pub fn config(routes: &[(&str, &[(u32, usize)])], clusters: Vec<ClusterEntry>) -> XdsConfig {
    let routes = routes.iter().map(|&(prefix, clusters)| CompiledRoute {
        matcher: RouteMatcher {
            path: PathMatcher::Prefix(Text::new(prefix, false)),
            headers: Vec::new(),
            fraction: None,
        },
        limit: None,
        clusters: Weighted::new(clusters.iter().copied()),
    });
    XdsConfig {
        routes: routes.collect(),
        clusters: clusters.into(),
    }
}

/// The same, with a bound on every RPC's duration.
pub fn limited(mut config: XdsConfig, limit: Duration) -> XdsConfig {
    for route in &mut config.routes {
        route.limit = Some(limit);
    }
    config
}

/// A locality of a priority: name, weight, endpoints.
pub type Place<'a> = (&'a str, u32, &'a [SocketAddr]);

/// A cluster with the given priorities, of which a share of `dropped` per million is dropped.
pub fn cluster(name: &str, priorities: &[&[Place<'_>]], dropped: u32) -> ClusterEntry {
    let drop = Drop {
        category: "overload".into(),
        share: PerMillion::saturating(dropped),
    };
    let assignment = Assignment {
        name: name.into(),
        priorities: priorities
            .iter()
            .map(|level| level.iter().map(locality).collect())
            .collect(),
        drops: vec![drop],
    };
    let cluster = Cluster {
        name: name.into(),
        eds_service_name: name.into(),
        lrs_server: None,
        max_requests: 1024,
    };
    ClusterEntry {
        name: name.into(),
        config: Ok(Arc::new(ClusterConfig {
            cluster: Arc::new(cluster),
            assignment: Some(Arc::new(assignment)),
            note: None,
        })),
    }
}

/// A cluster that cannot be used.
pub fn broken(name: &str, error: &str) -> ClusterEntry {
    ClusterEntry {
        name: name.into(),
        config: Err(ClusterError(error.into())),
    }
}

fn locality(&(name, weight, endpoints): &Place<'_>) -> Locality {
    let id = LocalityId {
        region: name.to_owned(),
        ..LocalityId::default()
    };
    let endpoints = endpoints
        .iter()
        .map(|&address| Endpoint { address, weight: 1 });
    Locality {
        id: Arc::new(id),
        weight,
        endpoints: endpoints.collect(),
    }
}
