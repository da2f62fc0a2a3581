//! Misbehaving control planes, over sockets: the client does not hang or leak, keeps valid data, and reports the cause.

use std::time::{Duration, Instant};

use oxds_client::WatchErrorReason;
use oxds_core::resource::Cluster;
use oxds_testkit::resources::{cluster, heavy_cluster, static_cluster};
use oxds_testkit::{ControlPlane, SOON};
use oxds_types::ResourceType;
use oxds_types::discovery::DiscoveryResponse;
use prost::Message;
use tokio::runtime::Handle;
use tokio::time::timeout;
use tonic::Code;

use crate::scripted::{acknowledged, ambient, error, next, start, value};

/// Waits until no more tasks live than before.
async fn tasks_are(before: usize) {
    let ended = async {
        while Handle::current().metrics().num_alive_tasks() > before {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(SOON, ended).await.expect("no task is left behind");
}

/// given a stream that ends in the middle of a response / then that response has no effect, the value stays, and the
/// next stream continues.
#[tokio::test]
async fn stream_that_ends_within_a_response_has_no_effect() {
    let (server, client) = start().await;
    let (mut stream, mut watch) = acknowledged(&server, &client, cluster("c", "e")).await;
    let response = DiscoveryResponse {
        type_url: ResourceType::CLUSTER.type_url().to_owned(),
        version_info: "2".to_owned(),
        resources: vec![cluster("c", "half")],
        ..DiscoveryResponse::default()
    };
    let whole = oxds_testkit::hostile::framed(&response);
    stream.garble(whole.slice(..whole.len() / 2));
    stream.end(Code::Unavailable, "restarting");
    let mut again = server.next_stream().await.unwrap();
    assert_eq!(again.request().await.unwrap().version_info, "1");
    again.respond(&ResourceType::CLUSTER, "3", vec![cluster("c", "new")]);
    assert_eq!(&*value(&mut watch).await.eds_service_name, "new");
}

/// given a server that answers every NACK with the same invalid response, 500 times / then each is NACKed, the watcher
/// gets one ambient error, the value stays; and the valid response after them applies.
#[tokio::test]
async fn repeated_nacks_are_one_ambient_error() {
    let (server, client) = start().await;
    let (mut stream, mut watch) = acknowledged(&server, &client, cluster("c", "e")).await;
    for _ in 0..500 {
        stream.respond(&ResourceType::CLUSTER, "2", vec![static_cluster("c")]);
        let nack = stream.request().await.unwrap();
        assert!(nack.error_detail.is_some() && nack.version_info == "1");
    }
    ambient(&mut watch, WatchErrorReason::Invalid).await;
    stream.respond(&ResourceType::CLUSTER, "3", vec![cluster("c", "new")]);
    // No other update comes before it.
    assert_eq!(&*value(&mut watch).await.eds_service_name, "new");
    assert_eq!(server.accepted(), 1);
}

/// given a resource that is deleted and returns again and again / then its watcher ends with the current state.
#[tokio::test]
async fn flapping_resource_ends_in_its_current_state() {
    let (server, client) = start().await;
    let (mut stream, mut watch) = acknowledged(&server, &client, cluster("c", "e")).await;
    for round in 0..20 {
        let version = format!("gone-{round}");
        stream.respond(&ResourceType::CLUSTER, &version, Vec::new());
        stream.request().await.unwrap();
        error(&mut watch, WatchErrorReason::DoesNotExist).await;
        let version = format!("there-{round}");
        stream.respond(
            &ResourceType::CLUSTER,
            &version,
            vec![cluster("c", &version)],
        );
        stream.request().await.unwrap();
        assert_eq!(*value(&mut watch).await.eds_service_name, *version);
    }
}

/// given resources that were not requested, duplicates, an enormous one, an undecodable one and a valid one / then the
/// valid one applies, and the others have no effect on it.
#[tokio::test]
async fn invalid_resources_do_not_affect_a_valid_one() {
    let (server, client) = start().await;
    let mut watch = client.watch::<Cluster>("c");
    let mut stream = server.next_stream().await.unwrap();
    stream.request().await.unwrap();
    let mut broken = cluster("broken", "");
    broken.value = broken.value.slice(..broken.value.len() - 1);
    let resources = vec![
        cluster("never asked for", ""),
        heavy_cluster("enormous", 8 << 20),
        broken,
        cluster("c", "e"),
        cluster("c", "e"),
    ];
    stream.respond(&ResourceType::CLUSTER, "1", resources);
    let nack = stream.request().await.unwrap().error_detail.unwrap();
    assert!(
        nack.message.contains("broken: cannot be decoded"),
        "{}",
        nack.message
    );
    assert_eq!(&*value(&mut watch).await.eds_service_name, "e");
}

/// given a control plane that restarts every 100 ms for 3 s / then the client connects about once a second, keeps its
/// value, follows the server afterwards, and leaves nothing behind when it is dropped.
#[tokio::test]
async fn restarting_control_plane_is_dialled_with_backoff() {
    let (server, client) = start().await;
    let before = Handle::current().metrics().num_alive_tasks();
    let (stream, mut watch) = acknowledged(&server, &client, cluster("c", "e")).await;
    drop(stream);
    let began = Instant::now();
    let mut restarts = 0;
    while began.elapsed() < Duration::from_secs(3) {
        server.kill();
        tokio::time::sleep(Duration::from_millis(50)).await;
        server.restart().await.unwrap();
        restarts += 1;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // The first step is at least 0.8 s; each failure makes it longer.
    assert!(
        restarts > 10 && server.accepted() <= 5,
        "{} calls",
        server.accepted()
    );
    // Streams of a server that has ended are over.
    let followed = async {
        loop {
            let mut stream = server.next_stream().await.unwrap();
            if stream.request().await.is_ok() {
                stream.respond(&ResourceType::CLUSTER, "2", vec![cluster("c", "new")]);
                if stream.request().await.is_ok() {
                    return stream;
                }
            }
        }
    };
    let mut stream = timeout(SOON, followed).await.unwrap();
    loop {
        // Before the value there may be an ambient error that the server was away, but never a missing resource.
        match next(&mut watch).await {
            oxds_client::Update::Ambient(_) => {}
            oxds_client::Update::Changed(Ok(cluster)) => {
                assert_eq!(&*cluster.eds_service_name, "new");
                break;
            }
            oxds_client::Update::Changed(Err(why)) => panic!("{why}"),
        }
    }
    drop((client, watch));
    stream.ended().await.unwrap();
    server.has_connections(0).await.unwrap();
    drop(stream);
    tasks_are(before).await;
}

/// given clients in every state / when they are dropped / then none of their tasks and sockets is left.
#[tokio::test]
async fn c99_drop_in_any_state_leaves_nothing_behind() {
    let server = ControlPlane::start().await.unwrap();
    let before = Handle::current().metrics().num_alive_tasks();
    for state in ["connecting", "asked", "answered", "rejected", "in backoff"] {
        let client = crate::scripted::pool(&server).client("test");
        let watch = client.watch::<Cluster>("c");
        let mut stream = match state {
            "connecting" => None,
            _ => Some(server.next_stream().await.unwrap()),
        };
        if let Some(stream) = &mut stream {
            stream.request().await.unwrap();
            match state {
                "answered" => stream.respond(&ResourceType::CLUSTER, "1", vec![cluster("c", "e")]),
                "rejected" => {
                    stream.respond(&ResourceType::CLUSTER, "1", vec![static_cluster("c")]);
                }
                _ => {}
            }
        }
        if state == "in backoff" {
            stream.take().unwrap().end(Code::Internal, "no");
        }
        drop((client, watch));
        if let Some(stream) = &mut stream {
            stream.ended().await.unwrap();
        }
        drop(stream);
        server.has_connections(0).await.unwrap();
        tasks_are(before).await;
        // If it was still connecting, its stream ended before the server accepted it.
        if state == "connecting"
            && let Ok(Ok(stream)) = timeout(Duration::from_millis(50), server.next_stream()).await
        {
            drop(stream);
        }
    }
}

/// given a response whose length prefix is larger than its body / then the client waits for it only as long as the
/// stream lives.
#[tokio::test]
async fn incomplete_message_ends_with_its_stream() {
    let (server, client) = start().await;
    let (mut stream, mut watch) = acknowledged(&server, &client, cluster("c", "e")).await;
    let mut frame = vec![0, 0x3f, 0xff, 0xff, 0xff];
    frame.extend(cluster("c", "never").encode_to_vec());
    stream.garble(frame);
    // In this time the client obeys commands.
    let other = client.watch::<Cluster>("d");
    assert_eq!(stream.request().await.unwrap().resource_names, ["c", "d"]);
    stream.end(Code::Ok, "");
    let mut again = server.next_stream().await.unwrap();
    again.respond(
        &ResourceType::CLUSTER,
        "2",
        vec![cluster("c", "new"), cluster("d", "e")],
    );
    assert_eq!(&*value(&mut watch).await.eds_service_name, "new");
    drop(other);
}
