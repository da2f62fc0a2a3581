//! Streams that end, and servers that cannot be reached.

use std::time::Instant;

use oxds_client::{Update, WatchErrorReason};
use oxds_core::resource::Cluster;
use oxds_testkit::resources::cluster;
use oxds_testkit::{ControlPlane, Manners};
use oxds_types::ResourceType;
use tonic::Code;

use crate::scripted::{
    FIRST_BACKOFF, acknowledged, ambient, error, essence, next, pool, start, value,
};

/// given a control plane that responds once and closes / when this happens twice / then each next stream begins about a
/// second later: no hot loop, and a response resets the backoff (gRFC A57).
#[tokio::test]
async fn c89_response_resets_backoff_to_its_first_step() {
    let (server, client) = start().await;
    let (stream, _watch) = acknowledged(&server, &client, cluster("c", "e")).await;
    let mut stream = Some(stream);
    for _ in 0..2 {
        let ended = Instant::now();
        stream.take().unwrap().end(Code::Ok, "");
        let mut again = server.next_stream().await.unwrap();
        assert!(ended.elapsed() >= FIRST_BACKOFF, "{:?}", ended.elapsed());
        again.request().await.unwrap();
        again.respond(&ResourceType::CLUSTER, "1", vec![cluster("c", "e")]);
        again.request().await.unwrap();
        stream = Some(again);
    }
}

/// given a server that rejects every stream / then the second delay is longer than the first.
#[tokio::test]
async fn c89_c91_backoff_grows_without_responses() {
    let (server, client) = start().await;
    let mut watch = client.watch::<Cluster>("c");
    let mut starts = Vec::new();
    for _ in 0..3 {
        let stream = server.next_stream().await.unwrap();
        starts.push(Instant::now());
        stream.end(Code::Unavailable, "go away");
    }
    let why = error(&mut watch, WatchErrorReason::Unreachable)
        .await
        .to_string();
    assert!(why.contains("go away"), "{why}");
    // 1 s and 1.6 s, each minus a fifth at most; a busy machine only makes them longer.
    let (first, second) = (starts[1] - starts[0], starts[2] - starts[1]);
    assert!(
        FIRST_BACKOFF <= first && FIRST_BACKOFF.mul_f32(1.6) <= second,
        "{first:?} {second:?}"
    );
}

/// given a stream that has responded / when it ends, with any status / then the watcher gets no error; the next stream
/// begins with the node, the accepted version and no nonce.
#[tokio::test]
async fn c72_c90_end_of_a_stream_after_a_response_is_no_error() {
    for code in [Code::Ok, Code::Internal] {
        let (server, client) = start().await;
        let (stream, mut watch) = acknowledged(&server, &client, cluster("c", "e")).await;
        stream.end(code, "restarting");

        let mut again = server.next_stream().await.unwrap();
        let first = again.request().await.unwrap();
        assert_eq!(essence(&first), (vec!["c"], "1", ""));
        assert_eq!(first.node.unwrap().id, "scripted");
        again.respond(&ResourceType::CLUSTER, "2", vec![cluster("c", "new")]);
        // The first update since then is the new value.
        assert_eq!(&*value(&mut watch).await.eds_service_name, "new");
    }
}

/// given a cached value / when the control plane dies / then the value stays, with an ambient error that names the
/// server; when the server returns with the same value / then the error is cleared.
#[tokio::test]
async fn c91_dead_server_is_ambient_error_if_cached() {
    let (server, client) = start().await;
    let (_stream, mut watch) = acknowledged(&server, &client, cluster("c", "e")).await;
    server.kill();
    let why = ambient(&mut watch, WatchErrorReason::Unreachable)
        .await
        .to_string();
    assert!(why.contains(&server.address().to_string()), "{why}");

    server.restart().await.unwrap();
    let mut stream = server.next_stream().await.unwrap();
    assert_eq!(essence(&stream.request().await.unwrap()).1, "1");
    stream.respond(&ResourceType::CLUSTER, "1", vec![cluster("c", "e")]);
    assert_eq!(next(&mut watch).await, Update::Ambient(None));
}

/// given an address without a server / when a resource is watched / then the watcher gets the reason, the server and
/// the node; a later watcher gets them at once.
#[tokio::test]
async fn c91_c108_an_unreachable_server_is_an_error_that_names_it() {
    let server = ControlPlane::start().await.unwrap();
    server.kill();
    server.has_connections(0).await.unwrap();
    let client = pool(&server).client("test");
    let mut watch = client.watch::<Cluster>("a");
    let why = error(&mut watch, WatchErrorReason::Unreachable)
        .await
        .to_string();
    let address = server.address().to_string();
    for part in ["refused", &address, "\"scripted\"", "\"a\""] {
        assert!(why.contains(part), "{part}: {why}");
    }
    let asked = Instant::now();
    error(
        &mut client.watch::<Cluster>("b"),
        WatchErrorReason::Unreachable,
    )
    .await;
    assert!(asked.elapsed() < FIRST_BACKOFF, "no attempt is waited for");
}

/// given a server without ADS / when it ends the stream as UNIMPLEMENTED / then the error quotes the server's message.
#[tokio::test]
async fn c91_a_server_that_refuses_is_quoted() {
    let (server, client) = start().await;
    let message = "unknown service".to_owned();
    server.set_manners(Manners::Refuse(Code::Unimplemented, message));
    let mut watch = client.watch::<Cluster>("c");
    let why = error(&mut watch, WatchErrorReason::Unreachable)
        .await
        .to_string();
    assert!(
        why.contains("Unimplemented") && why.contains("unknown service"),
        "{why}"
    );
}

/// given a server that accepts the socket and stays silent / when 20 s have passed / then the watcher gets an error
/// that says so.
#[tokio::test(start_paused = true)]
async fn c91_silent_server_is_an_error_after_connect_timeout() {
    let (server, client) = start().await;
    server.set_manners(Manners::Silent);
    let begun = tokio::time::Instant::now();
    let mut watch = client.watch::<Cluster>("c");
    let Some(Update::Changed(Err(why))) = watch.next().await else {
        panic!("no error");
    };
    assert_eq!(begun.elapsed().as_secs(), 20);
    assert_eq!(server.accepted(), 1);
    assert!(why.to_string().contains("no answer within 20s"), "{why}");
}

/// given a value, and a network that drops all packets from now on / then the keepalive notices: a ping after 5 min, 20
/// s for its answer; the next attempt fails after its own 20 s, which is an ambient error, because the value stays.
#[tokio::test]
async fn c92_keepalive_finds_a_black_hole() {
    let (server, client) = start().await;
    let (_stream, mut watch) = acknowledged(&server, &client, cluster("c", "e")).await;
    server.set_manners(Manners::Silent);
    tokio::time::pause();
    let begun = tokio::time::Instant::now();
    let Some(Update::Ambient(Some(why))) = watch.next().await else {
        panic!("no error");
    };
    assert_eq!(why.reason, WatchErrorReason::Unreachable);
    // 300 + 20, the backoff of 1 s with its jitter, 20.
    let seconds = begun.elapsed().as_secs_f32();
    assert!((338.0..343.0).contains(&seconds), "{seconds} s");
    assert_eq!(server.accepted(), 2);
}

/// given bytes that are not a response / then the stream ends, which is an error without a cached value, and another is
/// tried, as grpc-go does.
#[tokio::test]
async fn c85_garbage_ends_the_stream_and_another_is_tried() {
    let frame_of_garbage: &[u8] = &[0, 0, 0, 0, 3, 0xff, 0xff, 0xff];
    let no_frame: &[u8] = b"HTTP/1.1 200 OK\r\n\r\n";
    for garbage in [frame_of_garbage, no_frame] {
        let (server, client) = start().await;
        let mut watch = client.watch::<Cluster>("c");
        let mut stream = server.next_stream().await.unwrap();
        stream.garble(garbage);
        error(&mut watch, WatchErrorReason::Unreachable).await;
        stream.ended().await.unwrap();

        let mut again = server.next_stream().await.unwrap();
        again.respond(&ResourceType::CLUSTER, "1", vec![cluster("c", "e")]);
        value(&mut watch).await;
    }
}

/// given a stream that ends without a status, as behind a faulty proxy / then another is opened, as after any end.
#[tokio::test]
async fn c90_a_stream_without_a_status_is_over_like_any_other() {
    let (server, client) = start().await;
    let (stream, mut watch) = acknowledged(&server, &client, cluster("c", "e")).await;
    drop(stream);
    let mut again = server.next_stream().await.unwrap();
    again.respond(&ResourceType::CLUSTER, "2", vec![cluster("c", "new")]);
    assert_eq!(&*value(&mut watch).await.eds_service_name, "new");
}

/// given a request on the wire / when the server is silent about the resource for 15 s / then the resource does not
/// exist; if it comes later, it is accepted.
#[tokio::test]
async fn c94_c96_silence_about_a_resource_means_not_found() {
    let (server, client) = start().await;
    let mut watch = client.watch::<Cluster>("c");
    let mut stream = server.next_stream().await.unwrap();
    stream.send_headers();
    stream.request().await.unwrap();
    tokio::time::pause();
    let Some(Update::Changed(Err(why))) = watch.next().await else {
        panic!("no error");
    };
    tokio::time::resume();
    assert_eq!(why.reason, WatchErrorReason::DoesNotExist);
    assert!(why.to_string().contains("15 s"), "{why}");
    stream.respond(&ResourceType::CLUSTER, "1", vec![cluster("c", "e")]);
    value(&mut watch).await;
}
