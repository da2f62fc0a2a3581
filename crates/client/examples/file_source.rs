//! Watches a file of clusters, without a server: `cargo run -p oxds-client --example file_source -- clusters.yaml`
#![allow(clippy::print_stdout, reason = "an example")]
use oxds_client::{Bootstrap, Source, Update, XdsClient};
use oxds_core::resource::Cluster;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = std::env::args().nth(1).ok_or("usage: file_source FILE")?;
    let client = XdsClient::new(Bootstrap::without_servers().build()?.into());
    let mut clusters = client.watch_all_from::<Cluster>(&Source::file(file))?;
    while let Some((name, update)) = clusters.next().await {
        match update {
            Update::Changed(Ok(cluster)) => println!("{name}: {}", cluster.eds_service_name),
            Update::Changed(Err(error)) => println!("{name}: no cluster: {error}"),
            Update::Ambient(error) => println!("{name}: unchanged: {error:?}"),
        }
    }
    Ok(())
}
