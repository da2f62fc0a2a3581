//! Delta, from `oxds-server` over a folder to the client.

use std::time::{Duration, Instant};

use oxds_client::{Bootstrap, ClientPool, Options, Protocol, WatchErrorReason, XdsClient};
use oxds_core::resource::Cluster;

use crate::scripted::{error, value};
use oxds_channel::testing::expect::eventually;
use oxds_testkit::folder_server::FolderServer;
use oxds_testkit::resources::yaml::{documents, eds_cluster_of};

fn client(server: &FolderServer) -> XdsClient {
    let bootstrap = Bootstrap::builder(server.address().to_string());
    let options = Options::default().with_protocol(Protocol::Delta);
    ClientPool::with_options(bootstrap.build().unwrap(), options).client("test")
}

/// given a client that uses delta / then it gets existing resources, changes and removals; a missing resource is an
/// error at once; a resource that is watched again is sent again.
#[tokio::test(flavor = "multi_thread")]
async fn c273_c274_c277_c278_delta_follows_the_folder() {
    let server = FolderServer::start(&documents(&[
        eds_cluster_of("a", "one"),
        eds_cluster_of("b", "one"),
    ]));
    let client = client(&server);
    let mut a = client.watch::<Cluster>("a");
    let mut b = client.watch::<Cluster>("b");
    assert_eq!(&*value(&mut a).await.eds_service_name, "one");
    value(&mut b).await;

    let asked = Instant::now();
    let mut missing = client.watch::<Cluster>("missing");
    error(&mut missing, WatchErrorReason::DoesNotExist).await;
    assert!(asked.elapsed() < Duration::from_secs(5), "no 15 s");

    server.write(&documents(&[
        eds_cluster_of("a", "two"),
        eds_cluster_of("b", "one"),
    ]));
    assert_eq!(&*value(&mut a).await.eds_service_name, "two");
    drop(b);
    let mut b = client.watch::<Cluster>("b");
    assert_eq!(&*value(&mut b).await.eds_service_name, "one");

    server.write(&eds_cluster_of("b", "one"));
    error(&mut a, WatchErrorReason::DoesNotExist).await;
}

/// given a client with two clusters / when the server restarts without one of the clusters / then the client
/// loses that one, and the other is not sent again.
#[tokio::test(flavor = "multi_thread")]
async fn c276_after_a_restart_only_changes_are_sent() {
    let mut server = FolderServer::start(&documents(&[
        eds_cluster_of("a", "one"),
        eds_cluster_of("b", "one"),
    ]));
    let client = client(&server);
    let mut a = client.watch::<Cluster>("a");
    let mut b = client.watch::<Cluster>("b");
    value(&mut a).await;
    value(&mut b).await;

    server.kill();
    server.write(&eds_cluster_of("b", "one"));
    // The port is free once the server's runtime has ended.
    eventually(|| std::net::TcpListener::bind(server.address()).is_ok()).await;
    server.restart();
    loop {
        match crate::scripted::next(&mut a).await {
            // The server was away.
            oxds_client::Update::Ambient(_) => {}
            oxds_client::Update::Changed(Err(error)) => {
                assert_eq!(error.reason, WatchErrorReason::DoesNotExist);
                break;
            }
            other => panic!("{other:?}"),
        }
    }
    let more = tokio::time::timeout(Duration::from_millis(300), async {
        loop {
            if let Some(oxds_client::Update::Changed(changed)) = b.next().await {
                return changed;
            }
        }
    });
    assert!(more.await.is_err(), "b is what it was");
}
