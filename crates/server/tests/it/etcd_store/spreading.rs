//! Clients spread over replicas (G-39).

use std::time::Duration;

use oxds_server::{Limits, Server};

use super::{Client, Replica, etcd, options, publish};
use crate::until;

/// gRPC's status code of a stream whose client reconnects.
const UNAVAILABLE: u32 = 14;

impl Client {
    /// Waits until the server asks the client to reconnect; the reason is not that of a refusal.
    async fn is_moved(&mut self) {
        let (code, message) = self.stream.status().await;
        let message = message.replace("%20", " ");
        let expected = "connection moved to another server: reconnect";
        assert_eq!((code, &*message), (UNAVAILABLE, expected));
    }
}

/// given a replica with 20 clients / when a second replica joins / then clients are asked to reconnect, the oldest
/// first; at the other replica they get nothing that they have.
#[tokio::test]
async fn g39_replica_above_the_mean_sheds_clients() {
    let (etcd, _) = etcd().await;
    publish(&etcd, &[("a", "1"), ("b", "1")]).await;
    let first = Replica::start(&[&etcd]).await;
    let mut clients = Vec::new();
    for _ in 0..20 {
        let mut client = Client::connect(&first).await;
        client.gets(&["a", "b"], &[]).await;
        clients.push(client);
    }
    let second = Replica::start(&[&etcd]).await;
    second.serves(1).await;
    for client in &mut clients[..2] {
        client.is_moved().await;
        *client = Client::with(&second, std::mem::take(&mut client.has)).await;
        client.gets(&[], &[]).await;
    }
    let moved = first
        .server
        .metric("oxds_connections_moved_total{reason=\"balance\"}")
        .await;
    assert!(moved >= 2, "{moved}");
    assert_eq!(
        second.server.metric("oxds_connections_moved_total").await,
        0
    );
    publish(&etcd, &[("a", "2"), ("b", "1")]).await;
    for client in &mut clients[..2] {
        client.gets(&["a"], &[]).await;
    }
}

/// given a replica whose etcd is away / then it moves no client, however many other replicas have; when etcd is back,
/// it does.
#[tokio::test]
async fn g39_nothing_is_moved_while_the_store_is_away() {
    let (etcd, _) = etcd().await;
    publish(&etcd, &[("a", "1")]).await;
    let first = Replica::start(&[&etcd]).await;
    let second = Replica::start(&[&etcd]).await;
    second.serves(1).await;
    first.serves(1).await;
    etcd.kill();
    first
        .shows("etcd is away", |store| store["connected"] == false)
        .await;
    let mut clients = Vec::new();
    for _ in 0..20 {
        let mut client = Client::connect(&first).await;
        client.gets(&["a"], &[]).await;
        clients.push(client);
    }
    let moved = first.server.metric("oxds_connections_moved_total").await;
    assert_eq!(moved, 0);
    etcd.restart().await.unwrap();
    first.serves(1).await;
    // Nothing was due before; now it is.
    let moved = until("a moved client", async || {
        let moved = first.server.metric("oxds_connections_moved_total").await;
        (moved > 0).then_some(moved)
    })
    .await;
    assert!(moved >= 1);
}

/// given a maximum age / then a connection ends at it, and its client gets nothing again; younger ones stay.
#[tokio::test]
async fn g39_old_connection_is_asked_to_reconnect() {
    let (etcd, _) = etcd().await;
    publish(&etcd, &[("a", "1")]).await;
    let mut limits = Limits::default();
    limits.timers.connection_age = Some(Duration::from_secs(3));
    let replica = Replica::build(Server::builder().limits(limits), options(&[&etcd])).await;
    let mut client = Client::connect(&replica).await;
    client.gets(&["a"], &[]).await;
    client.is_moved().await;
    let mut client = Client::with(&replica, std::mem::take(&mut client.has)).await;
    client.gets(&[], &[]).await;
    client.is_moved().await;
    let moved = replica
        .server
        .metric("oxds_connections_moved_total{reason=\"age\"}")
        .await;
    assert!(moved >= 2, "{moved}");
}
