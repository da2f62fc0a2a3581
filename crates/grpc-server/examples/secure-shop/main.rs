//! Two services with mTLS and RBAC as the control plane configures them: `examples/secure-shop` has the resources, and
//! the commands in its README.
//!
//! ```text
//!   customer ── Order ──► shop: XdsServer, XdsChannel ── Charge ──► payment: XdsServer
//!      └───────────────── Charge: PERMISSION_DENIED ───────────────────┘
//! ```
//!
//! - `certificates DIR` makes the certificates: [`certificates`].
//! - `shop` and `payment` serve until Ctrl-C: [`services`].
//! - `order` calls both services with the certificate of its bootstrap. It exits with 1 if the order failed.
//! - `rotate DIR` orders without a pause while it replaces all certificates and their authority. It exits with 1 if an
//!   order failed.
//!
//! The services contain no code for TLS or authorization.

#![allow(clippy::print_stdout, reason = "an example prints what it does")]

mod certificates;
mod services;

use std::error::Error;
use std::io::IsTerminal as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use oxds_channel::{XdsChannel, code_name};
use oxds_grpc_server::XdsServer;
use tonic::Status;
use tracing_subscriber::EnvFilter;

use certificates::Folder;
use services::{CHARGE, ORDER, Payment, Receipt, Server, Shop, call};

/// The addresses in `examples/secure-shop`.
const SHOP: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 18121);
const PAYMENT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 18122);
/// Time between two steps of a rotation: more than twice the `refresh_interval` of the bootstraps, so that every
/// process has read the files of the step before.
const STEP: Duration = Duration::from_secs(3);
/// Time between two orders of a rotation.
const PAUSE: Duration = Duration::from_millis(20);

/// Serves until Ctrl-C, then finishes the calls that have begun.
async fn serve(
    builder: oxds_grpc_server::Builder,
    address: SocketAddr,
) -> Result<(), Box<dyn Error>> {
    let server = builder
        .on_serving_mode(|address, mode| println!("{address}: {mode}"))
        .build()?;
    let interrupted = async {
        // Without a handler for Ctrl-C, it ends the process.
        drop(tokio::signal::ctrl_c().await);
    };
    Ok(server.serve_with_shutdown(address, interrupted).await?)
}

async fn shop() -> Result<(), Box<dyn Error>> {
    let payment = XdsChannel::builder("xds:///payment").build()?;
    let service = Server {
        method: ORDER,
        service: Shop { payment },
    };
    serve(XdsServer::builder().add_service(service), SHOP).await
}

async fn payment() -> Result<(), Box<dyn Error>> {
    let service = Server {
        method: CHARGE,
        service: Payment,
    };
    serve(XdsServer::builder().add_service(service), PAYMENT).await
}

/// Prints the result of a call. Returns whether it succeeded.
fn print_result(method: &str, result: &Result<Receipt, Status>) -> bool {
    match result {
        Ok(receipt) => {
            println!("{method}: OK");
            for caller in &receipt.callers {
                println!("  {caller}");
            }
        }
        Err(status) => println!(
            "{method}: {}: {}",
            code_name(status.code()),
            status.message()
        ),
    }
    result.is_ok()
}

/// Calls the shop, then the payment, which customers may not call. Returns whether the order succeeded.
async fn order() -> Result<bool, Box<dyn Error>> {
    let shop = XdsChannel::builder("xds:///shop").build()?;
    let payment = XdsChannel::builder("xds:///payment").build()?;
    let is_ordered = print_result("Order", &call(&shop, ORDER).await);
    print_result("Charge", &call(&payment, CHARGE).await);
    shop.close().await;
    payment.close().await;
    Ok(is_ordered)
}

/// Orders over a new connection, whose handshake uses the current certificates.
async fn order_over_new_connection() -> Result<Receipt, Status> {
    let shop = XdsChannel::builder("xds:///shop").build();
    let shop = shop.map_err(|error| Status::internal(error.to_string()))?;
    let receipt = call(&shop, ORDER).await;
    shop.close().await;
    receipt
}

/// Orders until the flag is set. Returns the number of orders, and those that failed.
async fn order_until(done: Arc<AtomicBool>) -> (usize, Vec<Status>) {
    let (mut orders, mut failed) = (0, Vec::new());
    while !done.load(Ordering::Relaxed) {
        orders += 1;
        failed.extend(order_over_new_connection().await.err());
        tokio::time::sleep(PAUSE).await;
    }
    (orders, failed)
}

/// Replaces the authority and all certificates while orders continue. Returns whether all orders succeeded.
async fn rotate(folder: &Folder) -> Result<bool, Box<dyn Error>> {
    let rotation = folder.rotate()?;
    print_result("Order", &order_over_new_connection().await);
    let done = Arc::new(AtomicBool::new(false));
    let orders = tokio::spawn(order_until(Arc::clone(&done)));
    rotation.trust_both()?;
    println!("the new authority is trusted, too");
    tokio::time::sleep(STEP).await;
    rotation.issue()?;
    println!("the new authority has issued all certificates");
    tokio::time::sleep(STEP).await;
    rotation.distrust_old()?;
    println!("the old authority is no longer trusted");
    tokio::time::sleep(STEP).await;
    done.store(true, Ordering::Relaxed);
    let (orders, failed) = orders.await?;
    let is_ordered = print_result("Order", &order_over_new_connection().await);
    for status in &failed {
        println!("{}: {}", code_name(status.code()), status.message());
    }
    println!(
        "{orders} orders during the rotation, each over a new connection: {} failed",
        failed.len()
    );
    Ok(is_ordered && failed.is_empty())
}

#[tokio::main]
async fn main() -> Result<ExitCode, Box<dyn Error>> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .without_time()
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
        .init();
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let is_ok = match arguments[..] {
        ["certificates", dir] => {
            Folder::new(dir).create()?;
            true
        }
        ["payment"] => {
            payment().await?;
            true
        }
        ["shop"] => {
            shop().await?;
            true
        }
        ["order"] => order().await?,
        ["rotate", dir] => rotate(&Folder::new(dir)).await?,
        _ => {
            let text = "expected `certificates DIR`, `shop`, `payment`, `order` or `rotate DIR`";
            return Err(text.into());
        }
    };
    Ok(if is_ok {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
