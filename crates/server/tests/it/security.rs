//! TLS, and who may be whom (S-78).

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use envoy_types::pb::envoy::service::load_stats::v3::LoadStatsResponse;
use envoy_types::pb::envoy::service::status::v3::{ClientStatusRequest, ClientStatusResponse};
use http::StatusCode;
use oxds_core::snapshot::{ChangeSet, Resource};
use oxds_server::{Security, Server, TlsFiles};
use oxds_testkit::certificates::{Authority, Issued, replace};
use oxds_types::ResourceType;
use oxds_types::discovery::{DeltaDiscoveryRequest, DiscoveryRequest, Node, ResourceLocator};
use tempfile::TempDir;
use tokio::net::TcpStream;

use crate::client::{CDS, Client, DELTA, SOTW, Stream, ack, ask, subscribe};
use crate::groups::{group, matcher};
use crate::{Running, until, upsert};

const UNAUTHENTICATED: u32 = 16;
const PERMISSION_DENIED: u32 = 7;
const UNAVAILABLE: u32 = 14;
const SDS: &str = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret";
pub(crate) const WEB: &str = "spiffe://prod/ns/shop/sa/web";
pub(crate) const RULES: &str = "
rules:
- identity: spiffe://prod/ns/shop/sa/*
  nodes: [shop-*]
  secrets: [shop-cert]
- identity: spiffe://prod/ns/ops/sa/admin
  nodes: ['**']
  inspect: true
";

/// A server with a cluster and two secrets, and an authority that it trusts.
pub(crate) struct Secured {
    pub(crate) running: Running,
    security: Security,
    pub(crate) authority: Authority,
    folder: TempDir,
}

impl Secured {
    pub(crate) async fn start(rules: Option<&str>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::new("test").unwrap();
        let files = authority.issue(&["localhost"]).unwrap();
        let files = files.write(folder.path(), "server").unwrap();
        let client_ca = folder.path().join("ca.pem");
        replace(&client_ca, &authority.pem()).unwrap();
        let files = TlsFiles {
            certificate: files.certificate,
            key: files.key,
            client_ca: Some(client_ca),
        };
        let mut security = Security::default().tls(&files).unwrap();
        if let Some(rules) = rules {
            let path = folder.path().join("rules.yaml");
            replace(&path, rules).unwrap();
            security = security.authorize(&path).unwrap();
        }
        let running = Running::start(Server::builder().security(security.clone())).await;
        let secret = |name: &str| {
            let bytes = [&[0x0a, u8::try_from(name.len()).unwrap()], name.as_bytes()].concat();
            Arc::new(Resource::new(ResourceType::SECRET, name, &bytes))
        };
        let mut changes = upsert(&["a"]);
        changes
            .upserts
            .extend([secret("shop-cert"), secret("pay-cert")]);
        running.cache.apply(changes);
        Self {
            running,
            security,
            authority,
            folder,
        }
    }

    /// By the same certificate, which asks nobody for one.
    pub(crate) fn without_client_ca(&self) -> Security {
        let path = |name: &str| self.folder.path().join(name);
        let files = TlsFiles {
            certificate: path("server.pem"),
            key: path("server.key"),
            client_ca: None,
        };
        Security::default().tls(&files).unwrap()
    }

    fn rules(&self) -> PathBuf {
        self.folder.path().join("rules.yaml")
    }

    /// A client with these names in its certificate.
    async fn client(&self, names: &[&str]) -> Client {
        let certificate = self.authority.issue(names).unwrap();
        connect(&self.authority, self.running.grpc, Some(&certificate))
            .await
            .unwrap()
    }
}

/// In TLS 1.3 a server refuses a client after the handshake is over for the client: then the first call fails.
async fn connect(
    authority: &Authority,
    address: SocketAddr,
    client: Option<&Issued>,
) -> io::Result<Client> {
    let connector = authority.connector(client, &["h2"]).unwrap();
    let socket = TcpStream::connect(address).await.unwrap();
    let name = "localhost".try_into().unwrap();
    let socket = connector.connect(name, socket).await?;
    Client::over(socket).await.map_err(io::Error::other)
}

fn node(id: &str) -> Option<Node> {
    Some(Node {
        id: id.into(),
        ..Node::default()
    })
}

fn ask_as(id: &str, type_url: &str, names: &[&str]) -> DiscoveryRequest {
    DiscoveryRequest {
        node: node(id),
        ..ask(type_url, names)
    }
}

/// Given a server that asks for certificates; then a client with one of its authority is served; one without, one of
/// another authority, and one that speaks no TLS are not.
#[tokio::test]
async fn s78_clients_need_a_certificate() {
    let server = Secured::start(None).await;
    let mut stream = server.client(&[WEB]).await.open(SOTW).await;
    stream.send(&ask(CDS, &[]));
    assert_eq!(stream.sotw().await.resources.len(), 1);

    let address = server.running.grpc;
    let stranger = Authority::new("stranger").unwrap().issue(&[WEB]).unwrap();
    for refused in [None, Some(&stranger)] {
        if let Ok(mut client) = connect(&server.authority, address, refused).await {
            assert!(client.try_open(SOTW).await.is_err());
        }
    }
    assert!(Client::connect(address).await.try_open(SOTW).await.is_err());
    let refused = "oxds_refusals_total{reason=\"handshake\"} 3";
    server.running.counts(refused).await;
}

/// Given certificate and key replaced on disk; then new connections see the new certificate, the old ones live on, and
/// a certificate without its key changes nothing.
#[tokio::test]
async fn s78_certificates_are_read_again_when_they_change() {
    let server = Secured::start(None).await;
    let mut old = server.client(&[WEB]).await.open(SOTW).await;
    old.send(&ask(CDS, &[]));
    old.sotw_acked().await;

    let next = Authority::new("next").unwrap();
    let issued = next.issue(&["localhost"]).unwrap();
    let folder = server.folder.path();
    let client = server.authority.issue(&[WEB]).unwrap();
    replace(&folder.join("server.pem"), &issued.certificate).unwrap();
    server.security.reload();
    // Looked at, and left alone: what the clients of the old authority see is still the old certificate.
    let address = server.running.grpc;
    connect(&server.authority, address, Some(&client))
        .await
        .unwrap();

    replace(&folder.join("server.key"), &issued.key).unwrap();
    server.security.reload();
    until("the new certificate", async || {
        connect(&next, address, Some(&client)).await.ok()
    })
    .await;
    assert!(
        connect(&server.authority, address, Some(&client))
            .await
            .is_err()
    );
    server.running.cache.apply(upsert(&["b"]));
    assert_eq!(old.sotw().await.resources.len(), 2);
}

/// Given rules; when a client says that it is a node of others, or does not say, or is in no rule; then its stream ends
/// with a status that says why, SotW, delta and Fetch alike; others are served.
#[tokio::test]
async fn s78_a_node_that_claims_anothers_identity_is_refused() {
    let server = Secured::start(Some(RULES)).await;
    let mut client = server.client(&[WEB]).await;
    let mut good = client.open(SOTW).await;
    good.send(&ask_as("shop-1", CDS, &[]));
    let first = good.sotw().await;
    assert_eq!(first.resources.len(), 1);

    for id in ["pay-1", ""] {
        let mut stream = client.open(SOTW).await;
        stream.send(&ask_as(id, CDS, &[]));
        let refused = (PERMISSION_DENIED, format!("{WEB} may not be node \"{id}\""));
        assert_eq!(percent_decoded(stream.status().await), refused);
        let mut stream = client.open(DELTA).await;
        stream.send(&DeltaDiscoveryRequest {
            node: node(id),
            ..subscribe(CDS, &[])
        });
        assert_eq!(stream.status().await.0, PERMISSION_DENIED);
        let fetch = "/envoy.service.cluster.v3.ClusterDiscoveryService/FetchClusters";
        let mut stream = client.open_with(fetch, &ask_as(id, CDS, &[])).await;
        assert_eq!(stream.status().await.0, PERMISSION_DENIED);
    }
    let mut stream = server
        .client(&["nobody.example.com"])
        .await
        .open(SOTW)
        .await;
    stream.send(&ask_as("shop-1", CDS, &[]));
    assert_eq!(stream.status().await.0, PERMISSION_DENIED);

    good.send(&DiscoveryRequest {
        node: node("pay-1"),
        ..ack(&first)
    });
    server.running.cache.apply(upsert(&["b"]));
    assert_eq!(
        good.sotw().await.resources.len(),
        2,
        "S-60: a node does not change"
    );
    let refused = "oxds_refusals_total{reason=\"authorization\"} 7";
    server.running.counts(refused).await;
}

/// Given rules; when a client asks for secrets of others, by name or by `*`; then it gets its own and no other, on every
/// kind of stream.
#[tokio::test]
async fn s78_a_secret_goes_only_to_those_allowed() {
    let server = Secured::start(Some(RULES)).await;
    let mut client = server.client(&[WEB]).await;
    let service = "/envoy.service.secret.v3.SecretDiscoveryService/StreamSecrets";
    for path in [SOTW, service] {
        let mut stream = client.open(path).await;
        stream.send(&ask_as("shop-1", SDS, &["pay-cert", "shop-cert", "*"]));
        let response = stream.sotw_acked().await;
        assert_eq!(response.resources.len(), 1);
        assert!(response.resources[0].value.ends_with(b"shop-cert"));
    }
    let mut stream = client.open(DELTA).await;
    stream.send(&DeltaDiscoveryRequest {
        node: node("shop-1"),
        ..subscribe(SDS, &["*", "pay-cert", "shop-cert"])
    });
    let response = stream.delta().await;
    let names: Vec<_> = response.resources.iter().map(|r| &*r.name).collect();
    assert_eq!(names, ["shop-cert"]);
    // A client that asks for nothing that it may have is told, in the words it understands.
    for features in [&[][..], &["xds.config.supports-resource-errors"]] {
        let mut stream = client.open(DELTA).await;
        let features = features.iter().map(|feature| (*feature).to_owned());
        stream.send(&DeltaDiscoveryRequest {
            node: Some(Node {
                id: "shop-1".into(),
                client_features: features.clone().collect(),
                ..Node::default()
            }),
            ..subscribe(SDS, &["pay-cert"])
        });
        let response = stream.delta().await;
        let errors = response.resource_errors.iter();
        let codes: Vec<_> = errors
            .map(|e| e.error_detail.as_ref().unwrap().code)
            .collect();
        if features.len() == 0 {
            assert_eq!(response.removed_resources, ["pay-cert"]);
        } else {
            assert_eq!(codes, [i32::try_from(PERMISSION_DENIED).unwrap()]);
        }
    }
    let fetch = "/envoy.service.secret.v3.SecretDiscoveryService/FetchSecrets";
    let asked = ask_as("shop-1", SDS, &["pay-cert", "shop-cert"]);
    let response: oxds_types::discovery::DiscoveryResponse = client.unary(fetch, &asked).await;
    assert_eq!(response.resources.len(), 1);
    server
        .running
        .counts("oxds_refusals_total{reason=\"secret\"} 9")
        .await;
}

/// Given a rule with a secret's canonical `xdstp` name; when it is asked for in another order of parameters, by name and by
/// locator; then it comes, and what the rule does not name does not.
#[tokio::test]
async fn s78_a_secret_is_the_same_however_it_is_named() {
    let xdstp = "xdstp://shop/envoy.extensions.transport_sockets.tls.v3.Secret/cert";
    let rules = RULES.replace("[shop-cert]", &format!("['{xdstp}?a=1&b=2']"));
    let server = Secured::start(Some(&rules)).await;
    let canonical = format!("{xdstp}?a=1&b=2");
    let upserts = vec![Arc::new(Resource::new(
        ResourceType::SECRET,
        &*canonical,
        b"\x0a\x01s",
    ))];
    server.running.cache.apply(ChangeSet {
        upserts,
        ..ChangeSet::default()
    });
    let mut client = server.client(&[WEB]).await;
    let ask_for = |names: &[&str], located: &[&str]| DeltaDiscoveryRequest {
        node: node("shop-1"),
        resource_locators_subscribe: located
            .iter()
            .map(|name| ResourceLocator {
                name: (*name).to_owned(),
                ..ResourceLocator::default()
            })
            .collect(),
        ..subscribe(SDS, names)
    };
    let other_order = format!("{xdstp}?b=2&a=1");
    for (names, located) in [
        (&[&*other_order, "pay-cert"][..], &[][..]),
        (&[], &[&*other_order, "pay-cert"]),
    ] {
        let mut stream = client.open(DELTA).await;
        stream.send(&ask_for(names, located));
        let response = stream.delta().await;
        let told = response.resources.iter().map(|r| {
            let located = r.resource_name.as_ref().map(|name| &name.name);
            located.unwrap_or(&r.name).clone()
        });
        assert_eq!(
            told.collect::<Vec<_>>(),
            [&*canonical],
            "{names:?} {located:?}"
        );
    }
}

/// Given a group that is told by the cluster that a node claims; then only a client whose rule has the group may claim
/// it, and one that is not in it is served as before.
#[tokio::test]
async fn s78_a_node_is_in_no_group_of_others() {
    let rules = RULES.replace("nodes: ['**']", "nodes: ['**']\n  groups: [pay]");
    let server = Secured::start(Some(&rules)).await;
    let group = group("pay", matcher("payments"), &[("in-pay", b"")]);
    server.running.cache.update(upsert(&[]), vec![group]);
    let claim = |cluster: &str| DiscoveryRequest {
        node: Some(Node {
            id: "shop-1".into(),
            cluster: cluster.into(),
            ..Node::default()
        }),
        ..ask(CDS, &[])
    };
    let mut web = server.client(&[WEB]).await;
    let mut stream = web.open(SOTW).await;
    stream.send(&claim("payments"));
    let (code, text) = percent_decoded(stream.status().await);
    assert_eq!(code, PERMISSION_DENIED);
    assert!(text.contains("may not be in group \"pay\""), "{text}");
    let mut stream = web.open(SOTW).await;
    stream.send(&claim("shop"));
    assert_eq!(stream.sotw().await.resources.len(), 1);
    let admin = "spiffe://prod/ns/ops/sa/admin";
    let mut stream = server.client(&[admin]).await.open(SOTW).await;
    stream.send(&claim("payments"));
    assert_eq!(stream.sotw().await.resources.len(), 2);
}

/// Given rules; then REST, which knows no identities, is closed, and CSDS is for those who may inspect.
#[tokio::test]
async fn s78_no_other_door_is_open() {
    let server = Secured::start(Some(RULES)).await;
    let (status, text) =
        crate::polling::post(server.running.http, "/v3/discovery:secrets", "{}", None).await;
    assert_eq!(status, StatusCode::FORBIDDEN, "{text}");
    let csds = "/envoy.service.status.v3.ClientStatusDiscoveryService/FetchClientStatus";
    let nothing = DiscoveryRequest::default();
    let mut stream = server.client(&[WEB]).await.open_with(csds, &nothing).await;
    assert_eq!(stream.status().await.0, PERMISSION_DENIED);
    let admin = "spiffe://prod/ns/ops/sa/admin";
    let mut stream = server
        .client(&[admin])
        .await
        .open_with(csds, &nothing)
        .await;
    assert_eq!(stream.status().await.0, 0);
    // The page that operators' tools read, on this port.
    let page = "/status.json";
    assert_eq!(
        server.client(&[WEB]).await.get(page).await,
        StatusCode::FORBIDDEN
    );
    assert_eq!(
        server.client(&[admin]).await.get(page).await,
        StatusCode::OK
    );
    let lrs = "/envoy.service.load_stats.v3.LoadReportingService/StreamLoadStats";
    let report = DiscoveryRequest::default();
    let mut stream = server.client(&[WEB]).await.open_with(lrs, &report).await;
    assert_eq!(stream.status().await.0, PERMISSION_DENIED);
}

/// Given rules without TLS, so that nobody has a certificate; then nobody is told anything.
#[tokio::test]
async fn s78_rules_without_certificates_let_nobody_in() {
    let folder = tempfile::tempdir().unwrap();
    let rules = folder.path().join("rules.yaml");
    replace(&rules, RULES).unwrap();
    let security = Security::default().authorize(&rules).unwrap();
    let server = Running::start(Server::builder().security(security)).await;
    let mut stream = Stream::open(server.grpc, SOTW).await;
    stream.send(&ask_as("shop-1", CDS, &[]));
    assert_eq!(stream.status().await.0, UNAUTHENTICATED);
}

/// Given rules that change; then the streams whose grant changed are ended, and no others.
#[tokio::test]
async fn s78_new_rules_hold_for_open_streams() {
    let server = Secured::start(Some(RULES)).await;
    let mut web = server.client(&[WEB]).await.open(SOTW).await;
    web.send(&ask_as("shop-1", CDS, &[]));
    web.sotw_acked().await;
    let mut admin = server
        .client(&["spiffe://prod/ns/ops/sa/admin"])
        .await
        .open(SOTW)
        .await;
    admin.send(&ask_as("any", CDS, &[]));
    admin.sotw_acked().await;

    replace(&server.rules(), &RULES.replace("[shop-cert]", "[pay-cert]")).unwrap();
    server.security.reload();
    let (code, text) = web.status().await;
    assert_eq!(code, UNAVAILABLE, "{text}");
    server.running.cache.apply(ChangeSet {
        upserts: upsert(&["b"]).upserts,
        ..ChangeSet::default()
    });
    assert_eq!(admin.sotw().await.resources.len(), 2);
}

/// Given rules that change; then a client that may not inspect any more is told nothing by the CSDS stream that it has, one
/// that may not be its node any more reports no loads, and a poll that waits is not answered by the rules of before.
#[tokio::test]
async fn s78_new_rules_hold_for_whoever_asks_again() {
    let server = Secured::start(Some(RULES)).await;
    let mut admin = server.client(&["spiffe://prod/ns/ops/sa/admin"]).await;
    let mut csds = admin.open(crate::csds::STREAM).await;
    let question = ClientStatusRequest::default();
    csds.send(&question);
    let _: ClientStatusResponse = csds.message().await;
    let mut web = server.client(&[WEB]).await;
    let mut loads = web.open(crate::load::LRS).await;
    let mut hello = crate::load::hello(&[]);
    hello.node.as_mut().unwrap().id = "shop-1".into();
    loads.send(&hello);
    let _: LoadStatsResponse = loads.message().await;
    let held = server.held_poll(WEB, "shop-cert").await;

    let nobody = RULES.replace("inspect: true", "inspect: false");
    let nobody = nobody.replace("[shop-*]", "[other-*]");
    replace(&server.rules(), &nobody).unwrap();
    server.security.reload();
    until("the new rules", async || {
        let mut stream = web.open(SOTW).await;
        stream.send(&ask_as("shop-1", CDS, &[]));
        (stream.status().await.0 == PERMISSION_DENIED).then_some(())
    })
    .await;
    csds.send(&question);
    assert_eq!(csds.status().await.0, PERMISSION_DENIED);
    loads.send(&crate::load::report(1));
    assert_eq!(loads.status().await.0, PERMISSION_DENIED);
    let secret = Resource::new(
        ResourceType::SECRET,
        "shop-cert",
        b"\x0a\x09shop-cert\x10\x01",
    );
    server.running.cache.apply(ChangeSet {
        upserts: vec![Arc::new(secret)],
        ..ChangeSet::default()
    });
    let (status, answer) = held.await.unwrap();
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{answer}");
}

/// gRPC writes some characters of a message as `%XX`.
fn percent_decoded((code, text): (u32, String)) -> (u32, String) {
    (code, text.replace("%20", " ").replace("%22", "\""))
}
