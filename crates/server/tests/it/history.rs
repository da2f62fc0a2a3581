//! The history: the latest changes, where they come from, and how far the clients are with each.

use http::StatusCode;
use oxds_server::{Origin, Server, Store, Update};
use oxds_types::discovery::{DeltaDiscoveryRequest, Status};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::admin::get;
use crate::client::{CDS, DELTA, Stream, ack_delta, subscribe};
use crate::{Running, removal, until, upsert};

const HOSTILE: &str = "<script>alert(1)</script>\"'&";

/// Returns a page of `/history.json`.
async fn history(server: &Running, query: &str) -> Value {
    let (status, body) = get(server.http, &format!("/history.json{query}")).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    serde_json::from_str(&body).unwrap()
}

/// Waits until the latest change is like this, and returns it.
async fn latest(server: &Running, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    until(what, async || {
        let change = history(server, "").await["changes"][0].take();
        is_so(&change).then_some(change)
    })
    .await
}

/// Connects a client that subscribes to all clusters, and accepts the first response.
async fn client(server: &Running, id: &str) -> Stream {
    let mut stream = Stream::open(server.grpc, DELTA).await;
    let mut request = subscribe(CDS, &[]);
    request.node.as_mut().unwrap().id = id.into();
    stream.send(&request);
    let response = stream.delta().await;
    stream.send(&ack_delta(&response));
    let line = format!("oxds_acks_total{{resource_type=\"cds\"}} {}", id.len());
    server.counts(&line).await;
    stream
}

/// Returns the names of a part of the clusters of a change.
fn names(change: &Value, part: &str) -> Vec<String> {
    let part = &change["types"][0][part];
    let first = part["first"].as_array().unwrap().iter();
    let first: Vec<String> = first
        .map(|one| one["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(part["count"], first.len());
    first
}

/// Given clients that have accepted everything, when a change is answered by one and then by the other, then the
/// history has the time of the last answer; before, the page of the change lists the client that has not answered.
#[tokio::test]
async fn history_shows_who_has_not_answered() {
    let server = Running::with_clusters(&["a", "b"]).await;
    let first = history(&server, "").await["changes"][0].take();
    assert_eq!(names(&first, "added"), ["a", "b"]);
    assert_eq!(
        (&first["state"], &first["clients"]),
        (&json!("NO_CLIENT"), &json!(0))
    );
    // The lengths of their ids are the numbers of ACKs so far.
    let mut quick = client(&server, "q").await;
    let mut slow = client(&server, "sl").await;

    server.cache.apply(removal(&["b"]));
    let (response, late) = (quick.delta().await, slow.delta().await);
    quick.send(&ack_delta(&response));
    server.counts("oxds_streams_behind 1").await;
    let change = latest(&server, "the removal", |change| change["clients"] == 2).await;
    assert_eq!(names(&change, "removed"), ["b"]);
    assert_eq!(
        (&change["state"], &change["answered_seconds"]),
        (&json!("OPEN"), &Value::Null)
    );
    let number = &change["number"];
    let (status, page) = get(server.http, &format!("/change?number={number}")).await;
    assert_eq!(status, StatusCode::OK);
    let owing = page.split("Without an answer").nth(1).unwrap();
    assert!(owing.contains(">sl<") && !owing.contains(">q<"), "{page}");

    slow.send(&ack_delta(&late));
    let change = latest(&server, "the last answer", |change| {
        change["state"] == "ANSWERED"
    })
    .await;
    assert!(change["answered_seconds"].as_f64().unwrap() > 0.0);
    let (_, page) = get(server.http, "/history").await;
    assert!(page.contains("2 clients after"), "{page}");
}

/// Given a client that NACKs a change with a hostile text, then the history has the NACK, as text, and counts it as an
/// answer.
#[tokio::test]
async fn history_shows_nacks_as_text() {
    let server = Running::with_clusters(&["a"]).await;
    let mut client = client(&server, "q").await;
    server.cache.apply(upsert(&["a", HOSTILE]));
    let response = client.delta().await;
    client.send(&DeltaDiscoveryRequest {
        error_detail: Some(Status {
            code: 3,
            message: HOSTILE.into(),
            ..Status::default()
        }),
        ..ack_delta(&response)
    });
    let change = latest(&server, "the NACK", |change| change["nacked"] == 1).await;
    assert_eq!(names(&change, "added"), [HOSTILE]);
    let nack = &change["nacks"][0];
    assert_eq!(
        (&nack["node"], &nack["reason"]),
        (&json!("q"), &json!(HOSTILE))
    );
    latest(&server, "the answer", |change| {
        change["state"] == "ANSWERED"
    })
    .await;
    let views = [
        "/history".to_owned(),
        format!("/change?number={}", change["number"]),
    ];
    for view in views {
        let (status, page) = get(server.http, &view).await;
        assert_eq!(status, StatusCode::OK, "{view}");
        assert!(page.contains("&lt;script&gt;alert(1)"), "{view}: {page}");
        assert!(!page.contains("<script>alert"), "{view}: {page}");
    }
}

/// A store that yields the updates that the test sends.
struct TestStore(mpsc::UnboundedReceiver<Update>);

impl Store for TestStore {
    async fn next(&mut self) -> Option<Update> {
        self.0.recv().await
    }
}

/// Given an update of files, then the history names them. An update without a change gets no entry.
#[tokio::test]
async fn history_has_the_source_of_a_change() {
    let (store, updates) = mpsc::unbounded_channel();
    let server = Running::start(Server::builder().store(TestStore(updates))).await;
    let mut update = Update::from(upsert(&["a"]));
    let files = ["mesh.yaml", HOSTILE].map(|file| std::path::Path::new(file).into());
    update.origin = Origin::new("dir").documents(files);
    store.send(update).unwrap();
    let change = latest(&server, "the change", Value::is_object).await;
    let source = &change["source"];
    assert_eq!(source["store"], "dir");
    assert_eq!(source["documents"], json!(["mesh.yaml", HOSTILE]));
    store.send(Update::from(upsert(&["a"]))).unwrap();
    store.send(Update::from(upsert(&["b"]))).unwrap();
    latest(&server, "the next change", |change| {
        names(change, "added") == ["b"]
    })
    .await;
    let changes = history(&server, "").await["changes"].take();
    assert_eq!(changes.as_array().unwrap().len(), 2);
    let (_, page) = get(server.http, "/history").await;
    assert!(
        page.contains("mesh.yaml") && !page.contains("<script>alert"),
        "{page}"
    );
}

/// Given a change of more resources than a row names, then the row says how many it leaves out.
#[tokio::test]
async fn history_page_says_how_many_names_it_leaves_out() {
    let server = Running::start(Server::builder()).await;
    server.cache.apply(upsert(&["a", "b", "c"]));
    let (_, page) = get(server.http, "/history").await;
    assert!(
        page.contains("3 added") && !page.contains(" more<"),
        "{page}"
    );
    server.cache.apply(upsert(&["d", "e", "f", "g", "h"]));
    let (_, page) = get(server.http, "/history").await;
    assert!(
        page.contains("5 added") && page.contains("and 2 more<"),
        "{page}"
    );
}

/// Given many changes, then the history keeps the latest, in pages that lead to each other.
#[tokio::test]
async fn history_has_pages_and_a_bound() {
    let server = Running::start(Server::builder()).await;
    for number in 0..300 {
        server.cache.apply(upsert(&[&format!("c{number}")]));
    }
    let (mut query, mut seen) = ("?limit=70".to_owned(), Vec::new());
    loop {
        let mut page = history(&server, &query).await;
        let changes = page["changes"].take();
        let changes = changes.as_array().unwrap().iter();
        seen.extend(changes.map(|change| names(change, "added")[0].clone()));
        let Some(next) = page["next"].as_str() else {
            break;
        };
        query = next.trim_start_matches("/history.json").to_owned();
    }
    let expected: Vec<String> = (100..300)
        .rev()
        .map(|number| format!("c{number}"))
        .collect();
    assert_eq!(seen, expected);
    let (_, page) = get(server.http, "/history?page=4").await;
    assert!(page.contains("151–200 of 200"), "{page}");
    let (status, _) = get(server.http, "/change?number=1").await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    let (status, _) = get(server.http, "/history.json?limit=0").await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
}
