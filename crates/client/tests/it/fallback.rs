//! Ordered control planes (gRFC A71), over real sockets.

use std::collections::BTreeSet;
use std::time::Duration;

use oxds_client::{
    Bootstrap, ClientPool, ConfigWatch, Target, Update, WatchErrorReason, XdsClient,
};
use oxds_core::resolve::XdsConfig;
use oxds_core::resource::{Cluster, Listener};
use oxds_testkit::resources::{assignment, cluster, listener_with_rds, routes_to};
use oxds_testkit::{AdsStream, ControlPlane};
use oxds_types::ResourceType;
use oxds_types::discovery::Any;

use crate::authorities::entry;
use crate::scripted::{ambient, error, essence, next, value};

async fn start() -> ControlPlane {
    ControlPlane::start().await.unwrap()
}

fn pool(servers: &[&ControlPlane]) -> ClientPool {
    let entries: Vec<String> = servers.iter().map(|server| entry(server, "")).collect();
    let json = format!(
        r#"{{"xds_servers":[{}],"node":{{"id":"scripted"}}}}"#,
        entries.join(",")
    );
    ClientPool::new(Bootstrap::from_json(&json).unwrap())
}

fn client(servers: &[&ControlPlane]) -> XdsClient {
    pool(servers).client("test")
}

/// Returns the next stream, after it has sent this response and received the ACK.
async fn serve(server: &ControlPlane, version: &str, clusters: Vec<Any>) -> AdsStream {
    let mut stream = server.next_stream().await.unwrap();
    stream.request().await.unwrap();
    stream.respond(&ResourceType::CLUSTER, version, clusters);
    stream.request().await.unwrap();
    stream
}

/// given two control planes that serve one name with different contents / when the first is dead at the start / then
/// the second serves; when the first returns / then its contents replace the second's, whose socket closes; when it
/// dies and a new name is watched / then the second's contents apply again; when the first returns with unchanged
/// contents / then the request carries no version, so that it responds, and its contents apply.
#[tokio::test]
async fn c147_c148_c158_c165_fallback_and_return_replace_contents() {
    let (first, second) = (start().await, start().await);
    first.kill();
    let client = client(&[&first, &second]);
    let mut watch = client.watch::<Cluster>("c");
    let _fallback = serve(&second, "s1", vec![cluster("c", "second")]).await;
    assert_eq!(&*value(&mut watch).await.eds_service_name, "second");

    first.restart().await.unwrap();
    let stream = serve(&first, "f1", vec![cluster("c", "first")]).await;
    assert_eq!(&*value(&mut watch).await.eds_service_name, "first");
    second.has_connections(0).await.unwrap();

    drop(stream);
    first.kill();
    ambient(&mut watch, WatchErrorReason::Unreachable).await;
    assert_eq!(second.connections(), 0, "every watched name is cached");
    let _new = client.watch::<Cluster>("new");
    let both = vec![cluster("c", "second"), cluster("new", "second")];
    let _fallback = serve(&second, "s2", both).await;
    assert_eq!(&*value(&mut watch).await.eds_service_name, "second");

    first.restart().await.unwrap();
    let mut stream = first.next_stream().await.unwrap();
    let request = stream.request().await.unwrap();
    assert_eq!(essence(&request), (vec!["c", "new"], "", ""));
    stream.respond(&ResourceType::CLUSTER, "f1", vec![cluster("c", "first")]);
    assert_eq!(&*value(&mut watch).await.eds_service_name, "first");
    second.has_connections(0).await.unwrap();
}

/// given two control planes, both dead / then the watcher gets one error, after the last has failed, and it names the
/// last.
#[tokio::test]
async fn c154_one_error_when_all_servers_are_dead() {
    let (first, second) = (start().await, start().await);
    first.kill();
    second.kill();
    let client = client(&[&first, &second]);
    let mut watch = client.watch::<Cluster>("c");
    let why = error(&mut watch, WatchErrorReason::Unreachable)
        .await
        .to_string();
    assert!(why.contains(&second.address().to_string()), "{why}");
    // The next attempts of both fail with the same error, which is not reported again.
    let more = tokio::time::timeout(Duration::from_secs(3), watch.next()).await;
    assert!(more.is_err(), "{more:?}");
}

/// given the second in use / when the first accepts connections but does not respond / then the second stays in use.
#[tokio::test]
async fn c157_connection_without_response_does_not_take_over() {
    let (first, second) = (start().await, start().await);
    first.kill();
    let client = client(&[&first, &second]);
    let mut watch = client.watch::<Cluster>("c");
    let mut fallback = serve(&second, "1", vec![cluster("c", "a")]).await;
    value(&mut watch).await;
    first.restart().await.unwrap();
    let mut silent = first.next_stream().await.unwrap();
    silent.send_headers();
    silent.request().await.unwrap();
    fallback.respond(&ResourceType::CLUSTER, "2", vec![cluster("c", "b")]);
    assert_eq!(&*value(&mut watch).await.eds_service_name, "b");
}

/// given three control planes, the third of which is in use / when the second returns / then it serves, the third's
/// socket closes, and the first is still tried; when the first returns / then it serves alone.
#[tokio::test]
async fn c155_c159_three_servers_are_promoted_in_order() {
    let (first, second, third) = (start().await, start().await, start().await);
    first.kill();
    second.kill();
    let client = client(&[&first, &second, &third]);
    let mut watch = client.watch::<Cluster>("c");
    let _third = serve(&third, "1", vec![cluster("c", "third")]).await;
    assert_eq!(&*value(&mut watch).await.eds_service_name, "third");

    second.restart().await.unwrap();
    let _second = serve(&second, "1", vec![cluster("c", "second")]).await;
    assert_eq!(&*value(&mut watch).await.eds_service_name, "second");
    third.has_connections(0).await.unwrap();

    first.restart().await.unwrap();
    let _first = serve(&first, "1", vec![cluster("c", "first")]).await;
    assert_eq!(&*value(&mut watch).await.eds_service_name, "first");
    second.has_connections(0).await.unwrap();
}

/// given a configuration from the first / when it sends a route to a new cluster and dies before it sends the cluster /
/// then the old configuration stays until the second has sent a complete one.
#[tokio::test]
async fn c166_server_that_dies_mid_update_leaves_whole_config() {
    let (first, second) = (start().await, start().await);
    let pool = pool(&[&first, &second]);
    let mut watch = ConfigWatch::new(&pool, &Target::parse("xds:///shop").unwrap()).unwrap();
    let mut stream = first.next_stream().await.unwrap();
    // The reader follows the references from one resource to the next.
    let (config, ()) = tokio::join!(watch.next(), answer(&mut stream, "old", "1"));
    assert_eq!(clusters(&config.unwrap()), ["old"]);

    stream.respond(
        &ResourceType::ROUTE,
        "2",
        vec![routes_to("routes", "shop", "new")],
    );
    let asked = tokio::select! {
        config = watch.next() => panic!("torn: {config:?}"),
        asked = clusters_asked(&mut stream) => asked,
    };
    assert_eq!(asked, ["new", "old"]);
    drop(stream);
    first.kill();

    let mut stream = second.next_stream().await.unwrap();
    let (config, ()) = tokio::join!(watch.next(), answer(&mut stream, "new", "1"));
    assert_eq!(clusters(&config.unwrap()), ["new"], "and nothing before it");
}

/// Returns the names in the next request for clusters.
async fn clusters_asked(stream: &mut AdsStream) -> Vec<String> {
    loop {
        let request = stream.request().await.unwrap();
        // An ACK repeats the one name.
        if request.type_url == ResourceType::CLUSTER.type_url() && request.resource_names.len() > 1
        {
            return request.resource_names;
        }
    }
}

fn clusters(config: &XdsConfig) -> Vec<&str> {
    let entries = config.clusters.iter();
    entries.map(|entry| entry.name.as_ref()).collect()
}

/// Responds to all requests of target `shop`, whose route leads to this cluster, until its endpoints are sent.
async fn answer(stream: &mut AdsStream, cluster_name: &str, version: &str) {
    let mut sent = BTreeSet::new();
    while !sent.contains(&(ResourceType::ENDPOINT, cluster_name.to_owned())) {
        let request = stream.request().await.unwrap();
        let (resource_type, _) = ResourceType::from_type_url(&request.type_url).unwrap();
        let names = request.resource_names.iter();
        let asked: BTreeSet<_> = names
            .map(|name| (resource_type.clone(), name.clone()))
            .collect();
        if asked.is_subset(&sent) {
            continue;
        }
        let resource = |name: &String| match request.type_url.rsplit('.').next() {
            Some("Listener") => listener_with_rds("shop", "routes"),
            Some("RouteConfiguration") => routes_to("routes", "shop", cluster_name),
            Some("Cluster") => cluster(name, name),
            _ => assignment(name),
        };
        let resources = request.resource_names.iter().map(resource).collect();
        stream.respond(&resource_type, version, resources);
        sent.extend(asked);
    }
}

/// given two spellings of one name / when both are watched / then one name is requested, in canonical form, and both
/// watchers get the resource, also when the response uses another parameter order.
#[tokio::test]
async fn c42_two_spellings_of_a_name_are_one_subscription() {
    let server = start().await;
    let json = format!(
        r#"{{"xds_servers":[{}],"authorities":{{"a":{{}}}}}}"#,
        entry(&server, "")
    );
    let client = ClientPool::new(Bootstrap::from_json(&json).unwrap()).client("test");
    let name = |context: &str| format!("xdstp://a/envoy.config.listener.v3.Listener/l?{context}");
    let mut one = client.watch::<Listener>(name("b=2&a=1"));
    let mut two = client.watch::<Listener>(name("a=1&b=2"));
    let mut stream = server.next_stream().await.unwrap();
    let request = stream.request().await.unwrap();
    assert_eq!(request.resource_names, [name("a=1&b=2")]);
    let listener = listener_with_rds(&name("b=2&a=1"), "routes");
    stream.respond(&ResourceType::LISTENER, "1", vec![listener]);
    for watch in [&mut one, &mut two] {
        assert!(matches!(next(watch).await, Update::Changed(Ok(_))));
    }
    drop(one);
    stream.request().await.unwrap();
    stream.respond(&ResourceType::LISTENER, "2", Vec::new());
    error(&mut two, WatchErrorReason::DoesNotExist).await;
}
