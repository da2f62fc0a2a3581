//! The roles that serve: backends and control planes. They end with their parent.

#![allow(
    clippy::print_stdout,
    reason = "parts talk to their parent over standard output"
)]

use std::io::BufRead;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use oxds_channel::testing::EchoBackend;
use oxds_server::{DirStore, Server, dir};
use tokio::sync::oneshot;

pub(crate) const ANY_PORT: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

pub(crate) async fn backend() -> Result<(), String> {
    let everywhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    let backend = EchoBackend::start_on(everywhere).await;
    let backend = backend.map_err(|error| error.to_string())?;
    let port = backend.address().port();
    println!("{}", SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let count = move |line: &str| match line {
        "accepted" => backend.accepted(),
        _ => backend.calls(),
    };
    obey(move |line| Some(count(line).to_string())).await;
    Ok(())
}

pub(crate) async fn control_plane(folder: &Path) -> Result<(), String> {
    let store = DirStore::open(folder, dir::Options::default()).map_err(|e| e.to_string())?;
    let server = Server::builder().grpc(ANY_PORT).store(store).bind().await;
    let server = server.map_err(|error| error.to_string())?;
    println!("{}", server.grpc_addr());
    server.run(obey(|_| None)).await;
    Ok(())
}

/// Obeys each line of standard input, and ends with it, because then the parent has ended. Lines are read on a separate
/// thread.
pub(crate) async fn obey(mut command: impl FnMut(&str) -> Option<String> + Send + 'static) {
    let (ended, end) = oneshot::channel::<()>();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if let Some(answer) = command(&line) {
                println!("{answer}");
            }
        }
        drop(ended);
    });
    // An error is the end.
    let _ = end.await;
}
