//! A control plane that serves a folder: `cargo run -p oxds-server --example serve -- DIR`.

#![allow(clippy::print_stderr, reason = "an example prints for its user")]

use std::net::SocketAddr;

use oxds_server::{DirStore, Server, dir};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).ok_or("usage: serve DIR")?;
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let server = Server::builder()
        .grpc(any)
        .http(any)
        .store(DirStore::open(folder, dir::Options::default())?)
        .bind()
        .await?;
    eprintln!("ADS on {}", server.grpc_addr());
    if let Some(address) = server.http_addr() {
        eprintln!("status on http://{address}/status.json");
    }
    let interrupted = async { tokio::signal::ctrl_c().await.unwrap_or_default() };
    server.run(interrupted).await;
    Ok(())
}
