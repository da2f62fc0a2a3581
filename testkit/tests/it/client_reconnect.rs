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

/// given a control plane that answers once and hangs up / when this happens twice / then each next stream begins
/// about a second later: no hot loop, and a response resets the backoff (DEC-1).
#[tokio::test]
async fn c89_a_server_that_answers_once_and_hangs_up_is_called_again_after_the_first_step() {
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

/// given a server that refuses every stream / then the second pause is longer than the first.
#[tokio::test]
async fn c89_c91_pauses_grow_while_no_response_comes() {
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
    // 1 s and 1.6 s, each less a fifth at the most; a busy machine only makes them longer.
    let (first, second) = (starts[1] - starts[0], starts[2] - starts[1]);
    assert!(
        FIRST_BACKOFF <= first && FIRST_BACKOFF.mul_f32(1.6) <= second,
        "{first:?} {second:?}"
    );
}

/// given a stream that has answered / when it ends, whatever its status / then the watcher hears nothing; the next
/// stream begins with the node, the accepted version and no nonce.
#[tokio::test]
async fn c72_c90_the_end_of_a_stream_that_answered_is_no_error() {
    for code in [Code::Ok, Code::Internal] {
        let (server, client) = start().await;
        let (stream, mut watch) = acknowledged(&server, &client, cluster("c", "e")).await;
        stream.end(code, "restarting");

        let mut again = server.next_stream().await.unwrap();
        let first = again.request().await.unwrap();
        assert_eq!(essence(&first), (vec!["c"], "1", ""));
        assert_eq!(first.node.unwrap().id, "scripted");
        again.respond(&ResourceType::CLUSTER, "2", vec![cluster("c", "new")]);
        // The first word since is the new value.
        assert_eq!(&*value(&mut watch).await.eds_service_name, "new");
    }
}

/// given a value held / when the control plane dies / then the value stays, with an ambient error that names the
/// server; when it is back with the same / then the error is taken back.
#[tokio::test]
async fn c91_a_dead_server_is_ambient_where_a_value_is_held() {
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

/// given nobody at the address / when something is watched / then the watcher hears why, and from which server, for
/// which node; so does a later one, at once.
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

/// given a server without ADS / when a stream is refused as unimplemented / then the error has the server's words.
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

/// given a server that accepts the socket and says nothing / when 20 s have passed / then the watcher hears that.
#[tokio::test(start_paused = true)]
async fn c91_a_server_that_says_nothing_is_an_error_after_the_connect_timeout() {
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

/// given a value, and a network that swallows everything from now on / then the keepalive finds out: a ping after 5 min,
/// 20 s for its answer; the next attempt fails after its own 20 s, which is ambient, for the value stays.
#[tokio::test]
async fn c92_a_connection_into_a_black_hole_is_found_out_by_keepalive() {
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

/// given bytes that are no response / then the stream is over, which is an error where nothing is held, and another
/// is tried (DEC-5).
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

/// given a stream that ends without a status, as behind a proxy in trouble / then another is opened, as after any end.
#[tokio::test]
async fn c90_a_stream_without_a_status_is_over_like_any_other() {
    let (server, client) = start().await;
    let (stream, mut watch) = acknowledged(&server, &client, cluster("c", "e")).await;
    drop(stream);
    let mut again = server.next_stream().await.unwrap();
    again.respond(&ResourceType::CLUSTER, "2", vec![cluster("c", "new")]);
    assert_eq!(&*value(&mut watch).await.eds_service_name, "new");
}

/// given a request on the wire / when the server is silent about the resource for 15 s / then there is none; what
/// comes late is welcome.
#[tokio::test]
async fn c94_c96_silence_about_a_resource_means_that_there_is_none() {
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
