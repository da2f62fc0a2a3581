//! Clients that do not finish their handshake.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Duration;

use oxds_testkit::SOON;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::client::Client;
use crate::tls::{Mesh, mutual};
use crate::world::{ALL, World, inline};
use oxds_grpc_server::ServingMode;

/// Waits until the server closes a connection, and returns what it has sent.
async fn closed(socket: &mut TcpStream) -> Vec<u8> {
    let mut received = Vec::new();
    let end = timeout(SOON, socket.read_to_end(&mut received)).await;
    // An end or a reset.
    let _ = end.expect("closed in time");
    received
}

#[tokio::test]
async fn c259_half_open_handshakes_are_bounded() {
    let world = World::serving_with(|builder| builder.max_handshakes(8)).await;
    let mut silent = Vec::new();
    for _ in 0..200 {
        silent.push(TcpStream::connect(world.address).await.unwrap());
    }
    // The oldest are closed, however many there are.
    for socket in &mut silent[..192] {
        assert!(closed(socket).await.is_empty());
    }
    // An honest client gets in.
    let mut client = world.client().await;
    client.call("Call").await.unwrap();
    world
        .until(|status| status.connections == 1 && status.handshakes <= 8)
        .await;
    // Its own connection stays, whatever comes later.
    for _ in 0..20 {
        silent.push(TcpStream::connect(world.address).await.unwrap());
    }
    for socket in &mut silent[192..200] {
        closed(socket).await;
    }
    client.call("Call").await.unwrap();
}

#[tokio::test]
async fn c259_slow_handshake_is_closed() {
    let limit = Duration::from_millis(50);
    let world = World::serving_with(|builder| builder.handshake_timeout(limit)).await;
    let mut silent = TcpStream::connect(world.address).await.unwrap();
    let mut slow = TcpStream::connect(world.address).await.unwrap();
    slow.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        .await
        .unwrap();
    assert!(closed(&mut silent).await.is_empty());
    assert!(closed(&mut slow).await.is_empty());
    world.until(|status| status.handshakes == 0).await;
    // The limit is not for connections whose handshake is complete.
    let mut client = world.client().await;
    client.call("Call").await.unwrap();
    let mut another = TcpStream::connect(world.address).await.unwrap();
    closed(&mut another).await;
    client.call("Call").await.unwrap();
}

#[tokio::test]
async fn c259_other_protocols_are_closed_at_once() {
    let world = World::serving().await;
    let ping = [
        &b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..],
        &[0, 0, 8, 6, 0, 0, 0, 0, 0],
    ]
    .concat();
    for first in [&b"GET / HTTP/1.1\r\n"[..], b"\x16\x03\x01", &ping] {
        let mut socket = TcpStream::connect(world.address).await.unwrap();
        socket.write_all(first).await.unwrap();
        assert!(closed(&mut socket).await.is_empty());
    }
    world.client().await.call("Call").await.unwrap();
}

#[tokio::test]
async fn c259_shutdown_does_not_wait_for_handshakes() {
    let mut world = World::serving().await;
    let mut silent = TcpStream::connect(world.address).await.unwrap();
    world.until(|status| status.handshakes == 1).await;
    world.shut_down();
    world.ended().await;
    assert!(closed(&mut silent).await.is_empty());
}

/// given 5,000 clients that send nothing, in bursts / then the number of their connections stays bounded, and each
/// honest client gets in between them.
#[tokio::test]
async fn c259_thousands_of_half_open_handshakes_are_bounded() {
    const MAX: usize = 16;
    const BURST: usize = 250;
    let world = World::serving_with(|builder| builder.max_handshakes(MAX)).await;
    let bounded = async {
        loop {
            let handshakes = world.status().handshakes;
            assert!(handshakes <= 2 * MAX, "{handshakes}");
            tokio::task::yield_now().await;
        }
    };
    let bursts = async {
        for _ in 0..20 {
            // The server finds all of them at once: this blocks its thread.
            let connect = |_| {
                let socket = std::net::TcpStream::connect(world.address).unwrap();
                socket.set_nonblocking(true).unwrap();
                TcpStream::from_std(socket).unwrap()
            };
            let mut burst: Vec<_> = (0..BURST).map(connect).collect();
            let mut client = world.client().await;
            client.call("Call").await.unwrap();
            for socket in &mut burst[..BURST - MAX] {
                assert!(closed(socket).await.is_empty());
            }
            world.until(|status| status.handshakes <= MAX).await;
        }
    };
    tokio::select! {
        () = bursts => {}
        () = bounded => {}
    }
    world.until(|status| status.handshakes == 0).await;
}

#[tokio::test]
async fn c259_unfinished_tls_handshake_is_closed() {
    let mesh = Mesh::new();
    let limit = Duration::from_secs(1);
    let mut world = mesh
        .world_with(|builder| builder.handshake_timeout(limit))
        .await;
    world.send_listener(&mutual(&inline(ALL), ""));
    assert_eq!(world.mode().await, ServingMode::Serving);
    // The header of a record with 512 bytes, and the first byte of a ClientHello.
    let mut partial = TcpStream::connect(world.address).await.unwrap();
    partial.write_all(&[22, 3, 1, 2, 0, 1]).await.unwrap();
    let mut silent = TcpStream::connect(world.address).await.unwrap();
    // After the TLS handshake no preface comes.
    let known = mesh.issue(&["a"]);
    let mut without_preface = mesh.stream(&world, Some(&known)).await.unwrap();
    assert!(closed(&mut partial).await.is_empty());
    assert!(closed(&mut silent).await.is_empty());
    let mut received = Vec::new();
    let end = timeout(SOON, without_preface.read_to_end(&mut received)).await;
    let _ = end.expect("closed in time");
    assert!(received.is_empty(), "{received:?}");
    world.until(|status| status.handshakes == 0).await;
}

/// Set in the process that has few file descriptors.
const FEW_FILES: &str = "OXDS_TEST_FEW_FILES";

/// given a server that may have 100 open files, and 300 clients that send nothing / then an honest client gets in,
/// although the limit on handshakes is not reached.
#[cfg(unix)]
#[tokio::test]
async fn c259_silent_clients_do_not_use_up_the_open_files() {
    if std::env::var_os(FEW_FILES).is_some() {
        return serve_until_end_of_input().await;
    }
    let test = "handshakes::c259_silent_clients_do_not_use_up_the_open_files";
    let mut process = Command::new("sh")
        .args(["-c", "ulimit -n 100 && exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(FEW_FILES, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let output = BufReader::new(process.stdout.take().unwrap());
    let address = tokio::task::spawn_blocking(move || {
        let mut lines = output.lines().map_while(Result::ok);
        let address = lines.find_map(|line| line.split("address ").nth(1)?.parse().ok());
        // Reads on, so that the process can write.
        (address, std::thread::spawn(move || lines.for_each(drop)))
    });
    let (address, reader) = timeout(SOON, address).await.unwrap().unwrap();
    let address: SocketAddr = address.expect("the address of the server");
    let mut silent = Vec::new();
    for _ in 0..300 {
        silent.push(TcpStream::connect(address).await.unwrap());
    }
    let call = async {
        let mut client = Client::connect(address).await;
        client.call("Call").await
    };
    let reply = timeout(SOON, call).await;
    // The process ends with its input.
    drop(process.stdin.take());
    let end = process.wait().unwrap();
    reader.join().unwrap();
    reply.expect("a reply in time").unwrap();
    assert!(end.success());
}

/// Serves in a process of its own.
async fn serve_until_end_of_input() {
    let world = World::serving().await;
    let address = format!("\naddress {}\n", world.address);
    std::io::stdout().write_all(address.as_bytes()).unwrap();
    let input = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new()));
    input.await.unwrap().unwrap();
}
