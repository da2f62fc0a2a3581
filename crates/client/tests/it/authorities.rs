//! Choice of the control plane by the authority of a name (gRFC A47).

use oxds_client::{Bootstrap, ClientPool, ConfigWatch, Target, WatchErrorReason, XdsClient};
use oxds_core::resource::Cluster;
use oxds_testkit::ControlPlane;
use oxds_testkit::resources::cluster;
use oxds_types::ResourceType;

use crate::scripted::{error, value};

const TYPE: &str = "envoy.config.cluster.v3.Cluster";

/// An entry of `xds_servers`.
pub(crate) fn entry(server: &ControlPlane, features: &str) -> String {
    format!(
        r#"{{"server_uri":"{}","channel_creds":[{{"type":"insecure"}}],"server_features":[{features}]}}"#,
        server.address()
    )
}

fn pool(default: &ControlPlane, authorities: &str) -> ClientPool {
    let json = format!(
        r#"{{"xds_servers":[{}],"node":{{"id":"scripted"}},"authorities":{{{authorities}}}}}"#,
        entry(default, "")
    );
    ClientPool::new(Bootstrap::from_json(&json).unwrap())
}

fn client(default: &ControlPlane, authorities: &str) -> XdsClient {
    pool(default, authorities).client("test")
}

/// given an authority with its own servers and one without / when a name of each and a plain name are watched / then
/// the first goes to its own server, the others to the top-level one.
#[tokio::test]
async fn c28_c29_authority_uses_its_own_or_the_top_level_servers() {
    let (top, own) = (start().await, start().await);
    let authorities = format!(
        r#""own":{{"xds_servers":[{}]}},"none":{{}}"#,
        entry(&own, "")
    );
    let client = client(&top, &authorities);
    let names = ["own", "none"].map(|authority| format!("xdstp://{authority}/{TYPE}/c"));
    let mut watches = names.clone().map(|name| client.watch::<Cluster>(name));
    let _plain = client.watch::<Cluster>("plain");

    let mut stream = own.next_stream().await.unwrap();
    let request = stream.request().await.unwrap();
    assert_eq!(request.resource_names, [names[0].as_str()]);
    stream.respond(&ResourceType::CLUSTER, "1", vec![cluster(&names[0], "e")]);
    assert_eq!(&*value(&mut watches[0]).await.name, names[0]);

    let mut stream = top.next_stream().await.unwrap();
    let request = stream.request().await.unwrap();
    assert_eq!(request.resource_names, ["plain", names[1].as_str()]);
}

/// The same rule for the listener of a target.
#[tokio::test]
async fn c29_the_listener_of_a_target_comes_from_its_authority() {
    let (top, own) = (start().await, start().await);
    let authorities = format!(r#""own":{{"xds_servers":[{}]}}"#, entry(&own, ""));
    let pool = pool(&top, &authorities);
    let target = Target::parse("xds://own/shop").unwrap();
    let _watch = ConfigWatch::new(&pool, &target).unwrap();
    let mut stream = own.next_stream().await.unwrap();
    assert_eq!(
        stream.request().await.unwrap().resource_names,
        ["xdstp://own/envoy.config.listener.v3.Listener/shop"]
    );
    assert_eq!(top.accepted(), 0);
}

/// given two authorities with identical servers, and one whose server differs in a feature / then the two share a
/// stream, which stays until both have no watch; the third has its own stream.
#[tokio::test]
async fn c46_c47_identical_server_definitions_share_a_stream() {
    let (top, own) = (start().await, start().await);
    let authorities = format!(
        r#""a":{{"xds_servers":[{0}]}},"b":{{"xds_servers":[{0}]}},"other":{{"xds_servers":[{1}]}}"#,
        entry(&own, ""),
        entry(&own, r#""ignore_resource_deletion""#)
    );
    let client = client(&top, &authorities);
    let watch = |authority: &str| client.watch::<Cluster>(format!("xdstp://{authority}/{TYPE}/c"));
    let (a, b) = (watch("a"), watch("b"));
    let mut shared = own.next_stream().await.unwrap();
    assert_eq!(shared.request().await.unwrap().resource_names.len(), 2);

    let _other = watch("other");
    let mut separate = own.next_stream().await.unwrap();
    assert_eq!(separate.request().await.unwrap().resource_names.len(), 1);

    drop(a);
    assert_eq!(shared.request().await.unwrap().resource_names.len(), 1);
    drop(b);
    shared.ended().await.unwrap();
    own.has_connections(1).await.unwrap();
}

/// given names of an unknown authority, without authority, of another type and malformed / when they are watched / then
/// each watcher gets the error of its name, and no server is contacted.
#[tokio::test]
async fn c43_c44_c45_bad_name_is_an_error_for_its_watcher_only() {
    let top = start().await;
    let client = client(&top, r#""known":{}"#);
    let listener = "envoy.config.listener.v3.Listener";
    for (name, reason, why) in [
        (
            format!("xdstp://who/{TYPE}/c"),
            WatchErrorReason::Unreachable,
            "unknown authority \"who\"",
        ),
        (
            format!("xdstp:///{TYPE}/c"),
            WatchErrorReason::Unreachable,
            "unknown authority \"\"",
        ),
        (
            format!("xdstp://known/{listener}/c"),
            WatchErrorReason::Invalid,
            listener,
        ),
        (
            "xdstp://known".to_owned(),
            WatchErrorReason::Invalid,
            "xdstp://authority/",
        ),
    ] {
        let mut watch = client.watch::<Cluster>(name.as_str());
        let error = error(&mut watch, reason).await.to_string();
        assert!(
            error.contains(why) && error.contains("\"scripted\""),
            "{error}"
        );
    }
    assert_eq!(top.accepted(), 0);
}

async fn start() -> ControlPlane {
    ControlPlane::start().await.unwrap()
}
