//! A control plane for gateways. Each gateway has its own resources, created when its first proxy connects. A token
//! identifies the gateway of a proxy, not the node that the proxy sends.

#![allow(clippy::print_stderr, reason = "an example prints for its user")]

use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use oxds_server::{
    Cache, Call, ChangeSet, Glob, HookFuture, Hooks, Nack, Node, NodeMatcher, Observer, Resource,
    Server, Status,
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cache = Cache::new();
    // No resources are for all nodes. Clients wait until the server knows this.
    cache.apply(ChangeSet::default());
    let hooks = Gateways(cache.clone());
    let server = Server::builder().cache(cache).hooks(hooks).bind().await?;
    eprintln!("ADS on {}", server.grpc_addr());
    let interrupted = async { tokio::signal::ctrl_c().await.unwrap_or_default() };
    server.run(interrupted).await;
    Ok(())
}

struct Gateways(Cache);

impl Hooks for Gateways {
    type Observer = Proxy;

    /// A real program would call a service that verifies tokens. Other calls continue during the wait.
    async fn open(&self, call: &Call) -> Result<Proxy, Status> {
        let token = call.headers.get("authorization");
        let token = token.and_then(|token| token.to_str().ok()?.strip_prefix("Bearer "));
        let gateway = token.ok_or_else(|| Status::unauthenticated("no token"))?;
        Ok(Proxy {
            cache: self.0.clone(),
            gateway: gateway.to_owned(),
        })
    }
}

/// The observer of one stream of a proxy.
struct Proxy {
    cache: Cache,
    gateway: String,
}

impl Observer for Proxy {
    fn node(&mut self, mut node: Node) -> HookFuture<'static, Node> {
        let (cache, gateway) = (self.cache.clone(), self.gateway.clone());
        Box::pin(async move {
            node.cluster = gateway;
            if cache.groups_of(&node).is_empty() {
                let cluster = Some(Glob::exact(&node.cluster));
                let matcher = NodeMatcher {
                    cluster,
                    ..NodeMatcher::default()
                };
                cache.replace_group(&node.cluster, matcher, [backend(&node.cluster)?]);
            }
            Ok(node)
        })
    }

    fn nacked(&mut self, nack: &Nack<'_>) -> Result<(), Status> {
        eprintln!(
            "{} rejects {}: {}",
            self.gateway, nack.resource_type, nack.reason
        );
        Ok(())
    }
}

/// Creates the resources of a gateway. A real program would translate its configuration here.
fn backend(gateway: &str) -> Result<Resource, Status> {
    let name = format!("backend-of-{gateway}");
    let cluster = Cluster {
        name,
        ..Cluster::default()
    };
    Resource::of(&cluster).map_err(|invalid| Status::internal(invalid.to_string()))
}
