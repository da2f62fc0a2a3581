//! A service that uses retries, ring hash and outlier detection, with the folder `examples/cart` as its configuration.
//!
//! ```text
//! cargo run -- serve examples/cart
//! cargo run -p oxds-channel --features testing --example cart -- backends
//! cargo run -- bootstrap grpc --server 127.0.0.1:18000 > bootstrap.json
//! GRPC_XDS_BOOTSTRAP=bootstrap.json cargo run -p oxds-channel --features testing --example cart -- client
//! ```
//!
//! `backends` starts three servers; the last one fails every call. `client` makes calls for many users, and exits with
//! 1 if a call failed, or if a user did not stay with one backend.

#![allow(clippy::print_stdout, reason = "an example prints what it does")]

use std::collections::BTreeMap;
use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use http::uri::PathAndQuery;
use oxds_channel::testing::EchoBackend;
use oxds_channel::{Picked, PreviousAttempts, XdsChannel};
use tonic::{Code, GrpcMethod, Request, Status};

/// The ports of `examples/cart/endpoints.yaml`.
const PORTS: [u16; 3] = [18111, 18112, 18113];
const USERS: usize = 24;
/// Deadline of a call, including its retries.
const DEADLINE: Duration = Duration::from_secs(20);

/// `message Item { string name = 1; }`
#[derive(Clone, PartialEq, prost::Message)]
struct Item {
    #[prost(string, tag = "1")]
    name: String,
}

/// The client that tonic generates for `service Cart { rpc Add(Item) returns (Item); }`.
#[derive(Clone)]
struct CartClient(tonic::client::Grpc<XdsChannel>);

impl CartClient {
    async fn add(&mut self, mut request: Request<Item>) -> Result<tonic::Response<Item>, Status> {
        if let Err(never) = self.0.ready().await {
            match never {}
        }
        let method = GrpcMethod::new("shop.Cart", "Add");
        request.extensions_mut().insert(method);
        let path = PathAndQuery::from_static("/shop.Cart/Add");
        let codec = tonic_prost::ProstCodec::<Item, Item>::default();
        self.0.unary(request, path, codec).await
    }
}

/// Results of one user's call.
struct Added {
    backend: SocketAddr,
    retries: u32,
}

async fn add(mut client: CartClient, user: usize) -> Result<Added, Status> {
    let item = Item {
        name: "apple".to_owned(),
    };
    let mut request = Request::new(item);
    request.set_timeout(DEADLINE);
    let name = format!("user-{user}");
    let name = name
        .parse()
        .map_err(|_| Status::internal("a name of ASCII"))?;
    request.metadata_mut().insert("x-user", name);
    let response = client.add(request).await?;
    let extensions = response.extensions();
    let picked = extensions.get::<Arc<Picked>>();
    let previous = extensions.get::<PreviousAttempts>();
    Ok(Added {
        backend: picked
            .map(|picked| picked.address)
            .ok_or_else(|| Status::internal("the channel reports picks"))?,
        retries: previous.map_or(0, |previous| previous.0),
    })
}

/// Calls for every user at the same time, twice, and prints where the calls went. Returns whether the results are as
/// expected.
async fn run_client() -> Result<bool, Box<dyn Error>> {
    let channel = XdsChannel::builder("xds:///cart")
        .report_picks(true)
        .build()?;
    let client = CartClient(tonic::client::Grpc::new(channel.clone()));
    let (mut failed, mut retries) = (0, 0);
    let mut backends = BTreeMap::<usize, Vec<SocketAddr>>::new();
    for _ in 0..2 {
        let calls: Vec<_> = (0..USERS)
            .map(|user| tokio::spawn(add(client.clone(), user)))
            .collect();
        for (user, call) in calls.into_iter().enumerate() {
            match call.await? {
                Ok(added) => {
                    retries += added.retries;
                    backends.entry(user).or_default().push(added.backend);
                }
                Err(status) => {
                    failed += 1;
                    println!("user-{user}: {:?}: {}", status.code(), status.message());
                }
            }
        }
    }
    println!(
        "{} calls for {USERS} users: {failed} failed, {retries} retries",
        2 * USERS
    );
    let mut users = BTreeMap::<SocketAddr, usize>::new();
    for backend in backends.values().filter_map(|all| all.last()) {
        *users.entry(*backend).or_default() += 1;
    }
    for (backend, users) in users {
        println!("  {backend}  {users:>3} users");
    }
    for endpoint in channel
        .status()
        .clusters
        .iter()
        .flat_map(|one| &one.endpoints)
    {
        if let Some(ejected) = endpoint.ejected {
            println!(
                "ejected: {}, {:?}",
                endpoint.endpoint.address, ejected.reason
            );
        }
    }
    let stayed = backends
        .values()
        .all(|all| all.windows(2).all(|two| two[0] == two[1]));
    if stayed {
        println!("every user stayed with one backend");
    }
    channel.close().await;
    Ok(failed == 0 && stayed)
}

/// Runs the backends until Ctrl-C.
async fn run_backends() -> Result<(), Box<dyn Error>> {
    let mut backends = Vec::new();
    for port in PORTS {
        let address = (Ipv4Addr::LOCALHOST, port).into();
        backends.push(EchoBackend::start_on(address).await?);
        println!("listening on {address}");
    }
    if let Some(broken) = backends.last() {
        broken.set_status(i32::from(Code::Unavailable).try_into()?);
        println!("{} fails every call", broken.address());
    }
    std::future::pending::<()>().await;
    drop(backends);
    Ok(())
}

#[tokio::main]
async fn main() -> Result<ExitCode, Box<dyn Error>> {
    match std::env::args().nth(1).as_deref() {
        Some("backends") => run_backends().await?,
        Some("client") => {
            if !run_client().await? {
                return Ok(ExitCode::FAILURE);
            }
        }
        _ => return Err("expected `backends` or `client`".into()),
    }
    Ok(ExitCode::SUCCESS)
}
