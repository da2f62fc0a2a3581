//! A control plane for gateways: each has resources of its own, made when its first proxy comes, and proxies are told
//! apart by a token instead of by what they say.

#![allow(clippy::print_stderr, reason = "it tells its user what it does")]

use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use oxds_server::{
    Cache, Call, ChangeSet, Glob, HookFuture, Hooks, Nack, Node, NodeMatcher, Observer, Resource,
    Server, Status,
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cache = Cache::new();
    cache.apply(ChangeSet::default()); // What all see: nothing, but that is known.
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

    /// A real one would ask somebody who knows tokens; other calls go on meanwhile.
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

/// One stream of a proxy.
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

/// A real one would have a translator here.
fn backend(gateway: &str) -> Result<Resource, Status> {
    let name = format!("backend-of-{gateway}");
    let cluster = Cluster {
        name,
        ..Cluster::default()
    };
    Resource::of(&cluster).map_err(|unfit| Status::internal(unfit.to_string()))
}
