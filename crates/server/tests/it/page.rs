//! The status page: its views, their headers, and what hostile names do to them.

use std::sync::Arc;

use http::StatusCode;
use oxds_core::snapshot::{ChangeSet, Resource};
use oxds_server::Server;
use oxds_types::ResourceType;
use oxds_types::discovery::{DiscoveryRequest, Node, Status};

use crate::admin::get;
use crate::client::{CDS, SOTW, Stream, ack, ask};
use crate::metrics::nack;
use crate::{Running, until, upsert};

const HOSTILE: &str = "<script>alert(1)</script>\"'&";

/// Given a client whose id and whose NACK are HTML, then all views show them as text.
#[tokio::test]
async fn page_shows_hostile_names_as_text() {
    let running = Running::with_clusters(&["a", HOSTILE]).await;
    let mut stream = Stream::open(running.grpc, SOTW).await;
    let node = Node {
        id: HOSTILE.into(),
        cluster: HOSTILE.into(),
        ..Node::default()
    };
    stream.send(&DiscoveryRequest {
        node: Some(node),
        ..ask(CDS, &[])
    });
    let response = stream.sotw().await;
    stream.send(&DiscoveryRequest {
        response_nonce: response.nonce,
        error_detail: Some(Status {
            code: 3,
            message: HOSTILE.into(),
            ..Status::default()
        }),
        ..ask(CDS, &[])
    });
    until("the NACK", async || {
        let (_, page) = get(running.http, "/clients?state=nacked").await;
        page.contains("1 client").then_some(())
    })
    .await;
    for view in [
        "/",
        "/clients",
        "/client?at=stream:0",
        "/resources?type=cds",
        "/resource?type=cds&name=a",
    ] {
        let (status, page) = get(running.http, view).await;
        assert_eq!(status, StatusCode::OK, "{view}");
        assert!(page.contains("&lt;script&gt;alert(1)"), "{view}: {page}");
        assert!(!page.contains("<script>alert"), "{view}: {page}");
        assert_eq!(
            page.matches("<script>").count(),
            1,
            "{view}: the script of the page"
        );
    }
}

/// Given links to things that are gone, then the page says so.
#[tokio::test]
async fn page_of_a_missing_thing_is_not_found() {
    let running = Running::with_clusters(&["a"]).await;
    for view in [
        "/client?at=stream:7",
        "/client?at=x",
        "/client",
        "/resource?type=cds&name=b",
        "/resource?type=zds&name=a",
        "/resource?type=cds&name=a&group=none",
    ] {
        let (status, page) = get(running.http, view).await;
        assert_eq!(status, StatusCode::NOT_FOUND, "{view}");
        assert!(page.contains("<h1>Not found</h1>"), "{view}");
    }
}

/// Given a secret, then no view has its content.
#[tokio::test]
async fn page_never_shows_the_content_of_secrets() {
    let running = Running::start(Server::builder()).await;
    let secret = Resource::new(
        ResourceType::SECRET,
        "key",
        b"\x0a\x03key\x22\x06\x0a\x04\x1a\x02pw",
    );
    let mut changes: ChangeSet = upsert(&["a"]);
    changes.upserts.push(Arc::new(secret));
    running.cache.apply(changes);
    let (status, page) = get(running.http, "/resource?type=sds&name=key").await;
    assert_eq!(status, StatusCode::OK);
    assert!(page.contains("inline_string: (not shown)"), "{page}");
    assert!(!page.contains("pw"), "{page}");
}

/// Given 5,000 resources, then a view has one page of them, and a name finds its own.
#[tokio::test]
async fn page_of_many_resources_is_bounded() {
    let names: Vec<String> = (0..5_000).map(|i| format!("cluster-{i:04}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let running = Running::with_clusters(&names).await;
    let (_, page) = get(running.http, "/resources?type=cds&page=3").await;
    assert!(page.contains("201–300 of 5000") && page.contains("cluster-0299"));
    assert!(page.len() < 100_000, "{} bytes", page.len());
    let (_, page) = get(running.http, "/resources?type=cds&q=0299").await;
    assert!(
        page.contains("1–1 of 1") && page.contains("cluster-0299"),
        "{page}"
    );
}

/// Given two clients, of which one has accepted a change and the other has not, then the table shows the state of each,
/// at every step.
#[tokio::test]
async fn page_follows_the_state_of_each_client() {
    let running = Running::with_clusters(&["a"]).await;
    let shows = async |state: &str, count: usize| {
        let view = format!("/clients?state={state}");
        until(&view, async || {
            let (_, page) = get(running.http, &view).await;
            let rows = page.matches("<th scope=\"row\">").count();
            (rows == count).then_some(())
        })
        .await;
    };
    let mut streams = Vec::new();
    for _ in 0..2 {
        let mut stream = Stream::open(running.grpc, SOTW).await;
        stream.send(&ask(CDS, &[]));
        let response = stream.sotw().await;
        stream.send(&ack(&response));
        streams.push(stream);
        shows("synced", streams.len()).await;
    }
    running.cache.apply(upsert(&["b"]));
    let (first, last) = (streams[0].sotw().await, streams[1].sotw().await);
    shows("pending", 2).await;
    streams[0].send(&ack(&first));
    shows("pending", 1).await;
    shows("synced", 1).await;
    streams[1].send(&nack(&last));
    shows("nacked", 1).await;
    drop(streams.pop());
    shows("nacked", 0).await;
    shows("synced", 1).await;
}
