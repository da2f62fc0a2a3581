//! TLS and authorization (S-78).

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

/// A server with a cluster and two secrets, and the certificate authority that it trusts.
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
        let files = TlsFiles::new(files.certificate, files.key).client_ca(client_ca);
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

    /// Returns security with the same server certificate, but without client certificates.
    pub(crate) fn without_client_ca(&self) -> Security {
        let path = |name: &str| self.folder.path().join(name);
        let files = TlsFiles::new(path("server.pem"), path("server.key"));
        Security::default().tls(&files).unwrap()
    }

    fn rules(&self) -> PathBuf {
        self.folder.path().join("rules.yaml")
    }

    /// Connects a client with these names in its certificate.
    async fn client(&self, names: &[&str]) -> Client {
        let certificate = self.authority.issue(names).unwrap();
        connect(&self.authority, self.running.grpc, Some(&certificate))
            .await
            .unwrap()
    }
}

/// Connects over TLS. In TLS 1.3 the handshake ends for the client before the server rejects its certificate: then the
/// first call fails instead.
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

/// Given a server that requires client certificates, then it serves a client with a certificate of its authority. It
/// refuses clients without a certificate, with one of another authority, and without TLS.
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
    let refused = "oxds_invalid_total{part=\"handshake\"} 3";
    server.running.counts(refused).await;
}

/// Given a certificate and key that are replaced on disk, then new connections get the new certificate and old
/// connections stay open. A certificate without its key changes nothing.
#[tokio::test]
async fn s78_changed_certificates_are_reloaded() {
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
    // The new certificate does not fit the old key, so the server keeps the old certificate.
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

/// Given rules, when a client claims a node id that its rule does not grant, sends no node id, or has no rule, then
/// SotW, delta and `Fetch` calls end with a status that explains it. Other clients are served.
#[tokio::test]
async fn s78_node_id_of_another_identity_is_denied() {
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
        .client(&["unknown.example.com"])
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
        "S-60: the node of a stream does not change"
    );
    let refused = "oxds_denied_total{reason=\"authorization\"} 7";
    server.running.counts(refused).await;
}

/// Given rules, when a client subscribes to secrets of others, by name or by `*`, then it gets only its own secrets, on
/// each type of stream and call.
#[tokio::test]
async fn s78_secret_is_sent_only_to_authorized_clients() {
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
    // If every subscribed secret is denied, the client gets a resource error, or a removal if it does not support
    // errors.
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
        .counts("oxds_denied_total{reason=\"secret\"} 9")
        .await;
}

/// Given a rule with the canonical `xdstp` name of a secret. When a client asks for other spellings of the name, over a
/// stream (by name, by locator) and over `Fetch`, then it gets the secret; and no spelling of another secret is
/// granted.
#[tokio::test]
async fn s78_secret_rule_matches_every_spelling_of_a_name() {
    let xdstp = "xdstp://shop/envoy.extensions.transport_sockets.tls.v3.Secret";
    let canonical = format!("{xdstp}/cert:1?a=1&b=2");
    let rules = RULES.replace(
        "[shop-cert]",
        &format!("['{canonical}', '{xdstp}/public/*']"),
    );
    let server = Secured::start(Some(&rules)).await;
    // Names that the rule does not grant, next to names that it does.
    let private = format!("{xdstp}/public/a/private");
    let upserts = [&canonical, &private].map(|name| {
        Arc::new(Resource::new(
            ResourceType::SECRET,
            name.as_str(),
            b"\x0a\x01s",
        ))
    });
    server.running.cache.apply(ChangeSet {
        upserts: upserts.into(),
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
    let fetch = "/envoy.service.secret.v3.SecretDiscoveryService/FetchSecrets";
    // "%2F" is the slash of the path (xds.core.v3.ResourceLocator.id), which `*` in a rule does not match.
    let denied = [
        "pay-cert".to_owned(),
        private.clone(),
        format!("{xdstp}/public/a%2Fprivate"),
        format!("{xdstp}/public/a%2fprivate#entry=x"),
        format!("{xdstp}/public%2Fa%2Fprivate"),
    ];
    for spelling in [
        "cert:1?a=1&b=2",
        "cert:1?b=2&a=1",
        "%63ert%3A1?a=%31&b=2",
        "cert%3a1?b=2&a=1&b=3#entry=x",
    ] {
        let asked = format!("{xdstp}/{spelling}");
        let mut names: Vec<&str> = denied.iter().map(String::as_str).collect();
        names.push(&asked);
        for (names, located) in [(&names[..], &[][..]), (&[], &names)] {
            let mut stream = client.open(DELTA).await;
            stream.send(&ask_for(names, located));
            let response = stream.delta().await;
            let sent = response.resources.iter().map(|r| {
                let located = r.resource_name.as_ref().map(|name| &name.name);
                located.unwrap_or(&r.name).clone()
            });
            assert_eq!(sent.collect::<Vec<_>>(), [&*canonical], "{spelling}");
        }
        let request = ask_as("shop-1", SDS, &names);
        let response: oxds_types::discovery::DiscoveryResponse =
            client.unary(fetch, &request).await;
        assert_eq!(response.resources.len(), 1, "{spelling}");
    }
}

/// Given a group that matches `node.cluster`, then only a client whose rule grants the group may claim that cluster. A
/// client with another cluster is served as before.
#[tokio::test]
async fn s78_node_in_the_group_of_another_identity_is_denied() {
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

/// Given rules, then plaintext REST, which has no identities, is denied. CSDS and the status page need the `inspect`
/// grant, and LRS needs a granted node id.
#[tokio::test]
async fn s78_every_other_endpoint_is_authorized() {
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
    // The status page on the gRPC port.
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

/// Given rules without TLS, so that no client has a certificate, then every client is denied.
#[tokio::test]
async fn s78_rules_without_certificates_deny_everyone() {
    let folder = tempfile::tempdir().unwrap();
    let rules = folder.path().join("rules.yaml");
    replace(&rules, RULES).unwrap();
    let security = Security::default().authorize(&rules).unwrap();
    let server = Running::start(Server::builder().security(security)).await;
    let mut stream = Stream::open(server.grpc, SOTW).await;
    stream.send(&ask_as("shop-1", CDS, &[]));
    assert_eq!(stream.status().await.0, UNAUTHENTICATED);
}

/// Given rules that change, then the streams whose grant changed end, and no others.
#[tokio::test]
async fn s78_new_rules_apply_to_open_streams() {
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

/// Given rules that change, then the next request on an open CSDS stream is denied without the `inspect` grant, the
/// next load report is denied without the node id, and a waiting long poll is not answered under the old rules.
#[tokio::test]
async fn s78_new_rules_apply_to_the_next_request() {
    let server = Secured::start(Some(RULES)).await;
    let mut admin = server.client(&["spiffe://prod/ns/ops/sa/admin"]).await;
    let mut csds = admin.open(crate::csds::STREAM).await;
    let request = ClientStatusRequest::default();
    csds.send(&request);
    let _: ClientStatusResponse = csds.message().await;
    let mut web = server.client(&[WEB]).await;
    let mut loads = web.open(crate::load::LRS).await;
    let mut hello = crate::load::hello(&[]);
    hello.node.as_mut().unwrap().id = "shop-1".into();
    loads.send(&hello);
    let _: LoadStatsResponse = loads.message().await;
    let held = server.held_poll(WEB, "shop-cert").await;

    let stricter = RULES.replace("inspect: true", "inspect: false");
    let stricter = stricter.replace("[shop-*]", "[other-*]");
    replace(&server.rules(), &stricter).unwrap();
    server.security.reload();
    until("the new rules", async || {
        let mut stream = web.open(SOTW).await;
        stream.send(&ask_as("shop-1", CDS, &[]));
        (stream.status().await.0 == PERMISSION_DENIED).then_some(())
    })
    .await;
    csds.send(&request);
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

/// Decodes spaces and quotes of a status message, which gRPC percent-encodes.
fn percent_decoded((code, text): (u32, String)) -> (u32, String) {
    (code, text.replace("%20", " ").replace("%22", "\""))
}
