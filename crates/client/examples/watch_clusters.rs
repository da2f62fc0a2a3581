//! Watches all clusters of an Envoy control plane: `cargo run -p oxds-client --example watch_clusters -- HOST:PORT`
#![allow(clippy::print_stdout, reason = "an example")]
use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use oxds_client::{Bootstrap, Update, XdsClient};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = std::env::args()
        .nth(1)
        .ok_or("usage: watch_clusters HOST:PORT")?;
    let bootstrap = Bootstrap::builder(server).node_id("me").build()?;
    let mut clusters = XdsClient::new(bootstrap.into()).watch_all::<Cluster>("*");
    while let Some((name, update)) = clusters.next().await {
        match update {
            Update::Changed(Ok(cluster)) => println!("{name}: {:?}", cluster.lb_policy()),
            Update::Changed(Err(error)) => println!("{name}: no cluster: {error}"),
            Update::Ambient(error) => println!("{name}: unchanged: {error:?}"),
        }
    }
    Ok(())
}
