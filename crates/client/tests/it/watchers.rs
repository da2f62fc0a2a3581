//! Watches of an application: typed, shared, slow, many, and inspected.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use envoy_types::pb::envoy::config::cluster::v3::Cluster as Message;
use oxds_client::{
    Bootstrap, ClientPool, Invalid, Options, Protocol, ResourceParser, Update, WatchErrorReason,
    XdsClient,
};
use oxds_core::resource::{Assignment, Cluster};
use oxds_testkit::resources::{assignment, cluster, static_cluster};
use oxds_testkit::{ControlPlane, SOON};
use oxds_types::ResourceType;
use oxds_types::discovery::Any;
use tokio::time::timeout;

use crate::csds::{csds, entry, fetch};
use crate::scripted::{acknowledged, error, next, pool, start, value};

/// Long enough to show that something does not happen.
const A_WHILE: Duration = Duration::from_millis(200);

fn client_with(server: &ControlPlane, change: impl FnOnce(&mut Options)) -> XdsClient {
    let bootstrap = Bootstrap::builder(server.address().to_string()).node_id("scripted");
    let mut options = Options::default();
    change(&mut options);
    ClientPool::with_options(bootstrap.build().unwrap(), options).client("test")
}

fn both(version: &str) -> Vec<Any> {
    ["a", "b"].map(|name| cluster(name, version)).to_vec()
}

/// given two watchers, one of which does not read / when a response has updates for both / then it is acknowledged at
/// once, and the next response is not read until the slow watcher reads or ends.
#[tokio::test]
async fn c87_next_response_waits_until_watchers_have_read() {
    for reads in [true, false] {
        let server = ControlPlane::start().await.unwrap();
        let client = client_with(&server, |options| {
            options.slow_watcher_timeout = Duration::from_secs(3600);
        });
        let mut quick = client.watch::<Cluster>("a");
        let mut slow = client.watch::<Cluster>("b");
        let mut stream = server.next_stream().await.unwrap();
        stream.request().await.unwrap();
        stream.respond(&ResourceType::CLUSTER, "1", both("1"));
        assert_eq!(stream.request().await.unwrap().version_info, "1");
        value(&mut quick).await;

        stream.respond(&ResourceType::CLUSTER, "2", both("2"));
        assert!(timeout(A_WHILE, stream.request()).await.is_err());
        // In this time the client obeys commands.
        let other = client.watch::<Assignment>("e");
        assert_eq!(stream.request().await.unwrap().resource_names, ["e"]);
        drop(other);
        stream.request().await.unwrap();
        if reads {
            assert_eq!(&*value(&mut slow).await.eds_service_name, "1");
        } else {
            drop(slow);
        }
        let ack = loop {
            let request = stream.request().await.unwrap();
            if request.version_info == "2" {
                break request;
            }
        };
        assert_eq!(ack.response_nonce, "nonce-2");
        assert_eq!(&*value(&mut quick).await.eds_service_name, "2");
    }
}

/// given a watch that is never read / then it slows the stream down but does not stop it; in the end it returns the
/// newest value.
#[tokio::test]
async fn c87_unread_watch_does_not_stop_the_stream() {
    let server = ControlPlane::start().await.unwrap();
    let client = client_with(&server, |options| {
        options.slow_watcher_timeout = Duration::from_millis(20);
    });
    let mut unread = client.watch::<Cluster>("a");
    let mut stream = server.next_stream().await.unwrap();
    stream.request().await.unwrap();
    for version in ["1", "2", "3", "4"] {
        stream.respond(&ResourceType::CLUSTER, version, both(version));
        assert_eq!(stream.request().await.unwrap().version_info, version);
    }
    assert_eq!(&*value(&mut unread).await.eds_service_name, "4");
}

/// given a wildcard watch that is never read / when clusters are added and removed / then it returns the current
/// clusters, and no past state.
#[tokio::test]
async fn c280_unread_wildcard_watch_keeps_no_history() {
    let server = ControlPlane::start().await.unwrap();
    let client = client_with(&server, |options| {
        options.slow_watcher_timeout = Duration::ZERO;
    });
    let mut unread = client.watch_all::<Cluster>("*");
    let mut stream = server.next_stream().await.unwrap();
    stream.request().await.unwrap();
    for round in 0..100 {
        let version = round.to_string();
        let names = [format!("of-{round}"), "stays".to_owned()];
        let clusters = names.iter().map(|name| cluster(name, &version));
        stream.respond(&ResourceType::CLUSTER, &version, clusters.collect());
        assert_eq!(stream.request().await.unwrap().version_info, version);
    }
    let mut read = Vec::new();
    while let Ok(word) = timeout(A_WHILE, unread.next()).await {
        let (name, update) = word.unwrap();
        let Update::Changed(Ok(cluster)) = update else {
            panic!("{name}: {update:?}");
        };
        read.push((name.to_string(), cluster.eds_service_name.to_string()));
    }
    let newest = |name: &str| (name.to_owned(), "99".to_owned());
    assert_eq!(read, [newest("of-99"), newest("stays")]);
}

/// given a watcher that begins and ends other watches at each update / then there is no deadlock, and the client
/// requests exactly the names that are watched in the end.
#[tokio::test]
async fn c88_watcher_that_starts_watches_does_not_deadlock() {
    let server = ControlPlane::start().await.unwrap();
    let client = client_with(&server, |options| {
        options.slow_watcher_timeout = Duration::from_secs(3600);
    });
    let mut watch = client.watch::<Cluster>("a");
    let mut stream = server.next_stream().await.unwrap();
    stream.request().await.unwrap();
    let watching = tokio::spawn(async move {
        let mut others = Vec::new();
        for version in 1..=50 {
            let cluster = value(&mut watch).await;
            assert_eq!(*cluster.eds_service_name, *version.to_string());
            let same = client.watch::<Cluster>("a");
            others = vec![client.watch::<Assignment>(cluster.eds_service_name.clone())];
            drop(same);
        }
        (client, watch, others)
    });
    for version in 1..=50 {
        let version = version.to_string();
        stream.respond(
            &ResourceType::CLUSTER,
            &version,
            vec![cluster("a", &version)],
        );
        while stream.request().await.unwrap().version_info != version {}
    }
    let kept = timeout(SOON, watching).await.unwrap().unwrap();
    let last = loop {
        let request = stream.request().await.unwrap();
        if request.type_url == ResourceType::ENDPOINT.type_url() && request.resource_names == ["50"]
        {
            break request;
        }
    };
    assert!(last.error_detail.is_none());
    drop(kept);
}

/// given two clusters that always change together / when the cache is inspected all the time / then every result has
/// both at one version, while changes continue.
#[tokio::test(flavor = "multi_thread")]
async fn c128_inspection_shows_one_consistent_moment() {
    let server = ControlPlane::start().await.unwrap();
    let pool = pool(&server);
    let client = pool.client("test");
    let (_a, _b) = (
        client.watch_raw(ResourceType::CLUSTER, "a"),
        client.watch_raw(ResourceType::CLUSTER, "b"),
    );
    let mut asking = csds(&pool).await;
    let mut stream = server.next_stream().await.unwrap();
    stream.request().await.unwrap();
    stream.respond(&ResourceType::CLUSTER, "0", both("0"));
    stream.request().await.unwrap();
    let mut watches = [client.watch::<Cluster>("a"), client.watch::<Cluster>("b")];
    // These watches are never read, and must not delay others.
    drop((_a, _b));
    let reading = tokio::spawn(async move {
        loop {
            for watch in &mut watches {
                next(watch).await;
            }
        }
    });
    let enough = Arc::new(AtomicBool::new(false));
    let is_enough = Arc::clone(&enough);
    let changing = tokio::spawn(async move {
        let mut version = 0;
        while !is_enough.load(Ordering::Relaxed) {
            version += 1;
            let version = version.to_string();
            stream.respond(&ResourceType::CLUSTER, &version, both(&version));
            while stream.request().await.unwrap().version_info != version {}
        }
    });
    let mut seen = BTreeSet::new();
    while seen.len() < 20 {
        assert!(!changing.is_finished(), "changes go on");
        let configs = fetch(&mut asking).await;
        let [a, b] = ["a", "b"].map(|name| entry(&configs[0], name));
        assert_eq!(a.version_info, b.version_info);
        assert_eq!(a.last_updated, b.last_updated);
        seen.insert(a.version_info.clone());
    }
    enough.store(true, Ordering::Relaxed);
    changing.await.unwrap();
    reading.abort();
}

#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// given 1,000 watchers of one cluster, all waiting / when it changes / then each is woken once and gets the same
/// value, which was parsed once.
#[tokio::test]
async fn a_thousand_watchers_wake_once_and_share_one_value() {
    let (server, client) = start().await;
    let (mut stream, first) = acknowledged(&server, &client, cluster("c", "e")).await;
    let mut watches = vec![first];
    for _ in 1..1_000 {
        let mut watch = client.watch::<Cluster>("c");
        value(&mut watch).await;
        watches.push(watch);
    }
    let woken: Vec<_> = watches.iter().map(|_| Arc::new(Woken::default())).collect();
    let mut waiting: Vec<_> = watches
        .iter_mut()
        .map(|watch| Box::pin(watch.next()))
        .collect();
    for (watch, woken) in waiting.iter_mut().zip(&woken) {
        let waker = Waker::from(Arc::clone(woken));
        assert!(
            watch
                .as_mut()
                .poll(&mut Context::from_waker(&waker))
                .is_pending()
        );
    }
    stream.respond(&ResourceType::CLUSTER, "2", vec![cluster("c", "new")]);
    stream.request().await.unwrap();
    let mut read = Vec::new();
    for (watch, woken) in waiting.into_iter().zip(&woken) {
        assert_eq!(woken.0.load(Ordering::Relaxed), 1);
        match pin!(watch).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Some(Update::Changed(Ok(cluster)))) => read.push(cluster),
            other => panic!("{other:?}"),
        }
    }
    assert!(read.iter().all(|cluster| Arc::ptr_eq(cluster, &read[0])));
}

/// given a cluster that gRPC's rules reject / when it is watched as the generated message, and raw / then it is
/// accepted, parsed once, and unchanged; as a view it is rejected.
#[tokio::test]
async fn generated_message_is_watched_without_grpc_rules() {
    let (server, client) = start().await;
    let (mut one, mut two) = (client.watch::<Message>("c"), client.watch::<Message>("c"));
    let mut raw = client.watch_raw(ResourceType::CLUSTER, "c");
    let mut stream = server.next_stream().await.unwrap();
    stream.request().await.unwrap();
    stream.respond(&ResourceType::CLUSTER, "1", vec![static_cluster("c")]);
    assert!(stream.request().await.unwrap().error_detail.is_none());
    let (one, two) = (value(&mut one).await, value(&mut two).await);
    assert!(one.name == "c" && Arc::ptr_eq(&one, &two));
    let Some(Update::Changed(Ok(raw))) = raw.next().await else {
        panic!("no value");
    };
    assert_eq!(raw.value(), &static_cluster("c").value);

    // A watch with a type that rejects the cached resource gets an error.
    let mut view = client.watch::<Cluster>("c");
    let why = error(&mut view, WatchErrorReason::Invalid)
        .await
        .to_string();
    assert!(why.contains("\"c\" is cached, but is no valid"), "{why}");
}

/// given a type with a rule of the application / then a resource that breaks it is NACKed with that rule.
#[tokio::test]
async fn a_type_is_registered_with_its_rules() {
    let (server, client) = start().await;
    client.register(ResourceParser::checked(|cluster: &Message| {
        if cluster.connect_timeout.is_some() {
            Ok(())
        } else {
            Err(Invalid::new("must be set").at("connect_timeout"))
        }
    }));
    let mut watch = client.watch::<Message>("c");
    let mut stream = server.next_stream().await.unwrap();
    stream.request().await.unwrap();
    stream.respond(&ResourceType::CLUSTER, "1", vec![cluster("c", "e")]);
    let why = error(&mut watch, WatchErrorReason::Invalid)
        .await
        .to_string();
    assert!(why.contains("connect_timeout: must be set"), "{why}");
    let nack = stream.request().await.unwrap().error_detail.unwrap();
    assert!(
        nack.message.contains("c: connect_timeout: must be set"),
        "{}",
        nack.message
    );
}

/// given a wildcard watch of clusters at a real control plane, over delta / then additions, changes and removals are
/// delivered by name, and a cancelled read loses none.
#[tokio::test(flavor = "multi_thread")]
async fn c280_all_of_a_type_is_watched() {
    let yaml = |names: &[&str]| {
        let one = |name: &&str| {
            format!(
                "- \"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster\n  name: {name}\n"
            )
        };
        names.iter().map(one).collect::<String>()
    };
    let server = oxds_testkit::folder_server::FolderServer::start(&yaml(&["a", "b"]));
    let bootstrap = Bootstrap::builder(server.address().to_string());
    let options = Options::default().with_protocol(Protocol::Delta);
    let pool = ClientPool::with_options(bootstrap.build().unwrap(), options);
    let mut all = pool.client("test").watch_all::<Message>("*");
    let mut heard = Vec::new();
    server_says(&mut all, &mut heard, &["a there", "b there"]).await;
    server.write(&yaml(&["b", "c"]));
    server_says(&mut all, &mut heard, &["a gone", "c there"]).await;
}

async fn server_says(
    all: &mut oxds_client::WatchAll<Message>,
    heard: &mut Vec<String>,
    expected: &[&str],
) {
    heard.clear();
    while heard.len() < expected.len() {
        // Cancelled about half of the time.
        let Ok(word) = timeout(Duration::from_millis(1), all.next()).await else {
            tokio::task::yield_now().await;
            continue;
        };
        let (name, update) = word.unwrap();
        heard.push(match update {
            Update::Changed(Ok(cluster)) => {
                assert_eq!(cluster.name, *name);
                format!("{name} there")
            }
            Update::Changed(Err(error)) => {
                assert_eq!(error.reason, WatchErrorReason::DoesNotExist);
                format!("{name} gone")
            }
            Update::Ambient(ambient_error) => panic!("{ambient_error:?}"),
        });
    }
    heard.sort();
    assert_eq!(heard, expected);
}

/// given a server with `fail_on_data_errors`, and a client that obeys it / when a cached resource is NACKed / then it
/// is dropped, with the cause.
#[tokio::test]
async fn c112_fail_on_data_errors_drops_the_cache_on_nack() {
    for heeds in [true, false] {
        let server = ControlPlane::start().await.unwrap();
        let features = oxds_client::bootstrap::Features::default()
            .with_xds_v3(true)
            .with_fail_on_data_errors(true);
        let bootstrap = Bootstrap::builder(server.address().to_string()).features(features);
        let options = Options::default().with_data_error_handling(heeds);
        let pool = ClientPool::with_options(bootstrap.build().unwrap(), options);
        let (mut stream, mut watch) =
            acknowledged(&server, &pool.client("test"), cluster("c", "e")).await;
        stream.respond(&ResourceType::CLUSTER, "2", vec![static_cluster("c")]);
        match next(&mut watch).await {
            Update::Changed(Err(why)) => assert!(heeds && why.reason == WatchErrorReason::Invalid),
            Update::Ambient(Some(why)) => {
                assert!(!heeds && why.reason == WatchErrorReason::Invalid);
            }
            other => panic!("{other:?}"),
        }
    }
}

/// After a NACK of a wrong type, the resource type continues; resources of another type are not taken for it.
#[tokio::test]
async fn resource_of_another_type_is_nacked_and_value_stays() {
    let (server, client) = start().await;
    let (mut stream, mut watch) = acknowledged(&server, &client, cluster("c", "e")).await;
    stream.respond(&ResourceType::CLUSTER, "2", vec![assignment("c")]);
    let nack = stream.request().await.unwrap().error_detail.unwrap();
    assert!(
        nack.message
            .contains("must be a envoy.config.cluster.v3.Cluster"),
        "{}",
        nack.message
    );
    assert!(
        timeout(A_WHILE, watch.next()).await.is_err(),
        "it stays, for it was not deleted"
    );
    stream.respond(&ResourceType::CLUSTER, "3", vec![cluster("c", "new")]);
    assert_eq!(&*value(&mut watch).await.eds_service_name, "new");
}
