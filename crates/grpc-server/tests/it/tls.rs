//! TLS of filter chains, with certificate providers of the bootstrap (gRFC A29).

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use oxds_client::ClientPool;
use oxds_client::certificates::CertificateProviderInstance;
use oxds_client::credentials::{CertificateFiles, IdentityFiles, RevocationFiles, Trust};
use oxds_grpc_server::{Builder, ServingMode};
use oxds_testkit::certificates::{Authority, Issued, replace};
use oxds_testkit::{ControlPlane, SOON};
use tempfile::TempDir;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{HandshakeKind, RootCertStore, ServerConfig};

use crate::client::Client;
use crate::world::{ALL, World, bootstrap, chain_of, inline};

const H2: &[&str] = &["h2"];

/// The certificates of a server, in files, and the authority that issued them.
pub(crate) struct Mesh {
    folder: TempDir,
    pub(crate) authority: Authority,
}

impl Mesh {
    pub(crate) fn new() -> Self {
        let mesh = Self {
            folder: tempfile::tempdir().unwrap(),
            authority: Authority::new("mesh").unwrap(),
        };
        replace(&mesh.path("ca.pem"), &mesh.authority.pem()).unwrap();
        mesh.own(&mesh.issue(&["server.example"]));
        mesh
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn issue(&self, names: &[&str]) -> Issued {
        self.authority.issue(names).unwrap()
    }

    /// Makes this the certificate of the server.
    fn own(&self, issued: &Issued) {
        issued.write(self.folder.path(), "server").unwrap();
    }

    /// Returns the server's own TLS, in which clients must show a certificate of the authority.
    pub(crate) fn with_client_certificates(&self) -> Arc<ServerConfig> {
        let mut roots = RootCertStore::empty();
        let authority = CertificateDer::from_pem_file(self.path("ca.pem")).unwrap();
        roots.add(authority).unwrap();
        let clients = WebPkiClientVerifier::builder(Arc::new(roots))
            .build()
            .unwrap();
        let chain = CertificateDer::from_pem_file(self.path("server.pem")).unwrap();
        let key = PrivateKeyDer::from_pem_file(self.path("server.key")).unwrap();
        let mut config = ServerConfig::builder()
            .with_client_cert_verifier(clients)
            .with_single_cert(vec![chain], key)
            .unwrap();
        config.alpn_protocols = H2.iter().map(|name| name.as_bytes().to_vec()).collect();
        Arc::new(config)
    }

    /// Starts a server whose bootstrap has the instance `mesh`, with files that are read again before each connection.
    pub(crate) async fn world(&self) -> World {
        self.world_with(|builder| builder).await
    }

    /// Starts a server as [`world`](Self::world), whose builder the test changes.
    pub(crate) async fn world_with(&self, change: impl FnOnce(Builder) -> Builder) -> World {
        self.world_of(&self.files(), change).await
    }

    /// The files of the instance `mesh`, which are read again before each connection.
    fn files(&self) -> CertificateFiles {
        CertificateFiles::default()
            .with_identity(IdentityFiles {
                certificate: self.path("server.pem"),
                key: self.path("server.key"),
            })
            .with_trust(Trust::Authorities(self.path("ca.pem")))
            .with_refresh_interval(Duration::ZERO)
    }

    /// Starts a server whose instance `mesh` has these files.
    async fn world_of(
        &self,
        files: &CertificateFiles,
        change: impl FnOnce(Builder) -> Builder,
    ) -> World {
        let control_plane = ControlPlane::start().await.unwrap();
        let instance = CertificateProviderInstance::file_watcher(files);
        let bootstrap = bootstrap(&control_plane).certificate_provider("mesh", instance);
        let pool = ClientPool::new(bootstrap.build().unwrap());
        World::start_by(control_plane, pool, |builder, _| change(builder)).await
    }

    /// Starts a server that accepts all calls over mTLS.
    async fn serving(&self) -> World {
        let mut world = self.world().await;
        world.send_listener(&mutual(&inline(ALL), ""));
        assert_eq!(world.mode().await, ServingMode::Serving);
        world
    }

    /// Connects over TLS, with a certificate.
    pub(crate) async fn connect(
        &self,
        world: &World,
        client: Option<&Issued>,
    ) -> io::Result<Client> {
        Ok(Client::over(self.stream(world, client).await?).await)
    }

    /// Connects over TLS, with a certificate, and sends nothing.
    pub(crate) async fn stream(
        &self,
        world: &World,
        client: Option<&Issued>,
    ) -> io::Result<TlsStream<TcpStream>> {
        connected(&self.authority.connector(client, H2).unwrap(), world).await
    }

    /// Checks that a call with this certificate fails.
    async fn refuses(&self, world: &World, client: Option<&Issued>) {
        // In TLS 1.3 the client's handshake ends before the server has checked its certificate.
        if let Ok(mut client) = self.connect(world, client).await {
            client.call("Call").await.unwrap_err();
        }
    }
}

/// Connects over TLS with this configuration of a client.
async fn connected(connector: &TlsConnector, world: &World) -> io::Result<TlsStream<TcpStream>> {
    let name = ServerName::try_from("server.example").unwrap();
    let socket = TcpStream::connect(world.address).await?;
    connector.connect(name, socket).await
}

/// A default filter chain over mTLS, with this route source and these HTTP filters.
pub(crate) fn mutual(routes: &str, filters: &str) -> String {
    secured("mesh", routes, filters)
}

fn secured(instance: &str, routes: &str, filters: &str) -> String {
    let context =
        "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext";
    let socket = format!(
        ", transport_socket: {{ name: tls, typed_config: {{ '@type': {context}, require_client_certificate: true,
             common_tls_context: {{
               tls_certificate_provider_instance: {{ instance_name: {instance} }},
               validation_context: {{ ca_certificate_provider_instance: {{ instance_name: {instance} }} }} }} }} }}"
    );
    format!(
        "default_filter_chain: {}",
        chain_of("{}", routes, filters, &socket)
    )
}

#[tokio::test]
async fn c259_chain_with_tls_serves_by_mtls() {
    let mesh = Mesh::new();
    let world = mesh.serving().await;
    let client = mesh.issue(&["spiffe://mesh/client"]);
    let mut connection = mesh.connect(&world, Some(&client)).await.unwrap();
    connection.call("Call").await.unwrap();
    let names = connection.call("Names").await.unwrap();
    assert_eq!(names, "spiffe://mesh/client 1");
    assert_eq!(world.status().connections, 1);
}

#[tokio::test]
async fn c259_clients_without_a_valid_certificate_are_rejected() {
    let mesh = Mesh::new();
    let world = mesh.serving().await;
    let names = &["spiffe://mesh/client"];
    let other = Authority::new("other").unwrap().issue(names).unwrap();
    let expired = mesh.authority.issue_expired(names).unwrap();
    let future = mesh.authority.issue_future(names).unwrap();
    for client in [None, Some(&other), Some(&expired), Some(&future)] {
        mesh.refuses(&world, client).await;
    }
    let valid = mesh.issue(names);
    let mut connection = mesh.connect(&world, Some(&valid)).await.unwrap();
    connection.call("Call").await.unwrap();
}

#[tokio::test]
async fn c256_chain_with_tls_never_falls_back() {
    let mesh = Mesh::new();
    let world = mesh.serving().await;
    let mut plain = TcpStream::connect(world.address).await.unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut plain, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        .await
        .unwrap();
    let mut received = Vec::new();
    let end = timeout(SOON, plain.read_to_end(&mut received)).await;
    let _ = end.expect("closed in time");
    // At most a TLS alert, whose first byte is 21.
    assert!(
        received.first().is_none_or(|first| *first == 21),
        "{received:?}"
    );
}

#[tokio::test]
async fn c259_missing_certificate_closes_connections_until_it_exists() {
    let mesh = Mesh::new();
    let issued = mesh.issue(&["server.example"]);
    std::fs::remove_file(mesh.path("server.pem")).unwrap();
    // gRFC A36: the server does not wait for its certificates.
    let world = mesh.serving().await;
    let client = mesh.issue(&["a"]);
    mesh.refuses(&world, Some(&client)).await;
    mesh.own(&issued);
    let mut connection = mesh.connect(&world, Some(&client)).await.unwrap();
    connection.call("Call").await.unwrap();
}

#[tokio::test]
async fn c259_rotated_certificates_are_for_new_connections() {
    let mesh = Mesh::new();
    let world = mesh.serving().await;
    let client = mesh.issue(&["a"]);
    let mut old = mesh.connect(&world, Some(&client)).await.unwrap();
    old.call("Call").await.unwrap();
    // A new authority, and a new certificate of the server.
    let next = Authority::new("next").unwrap();
    replace(&mesh.path("ca.pem"), &next.pem()).unwrap();
    mesh.own(&next.issue(&["server.example"]).unwrap());
    let next = Mesh {
        folder: tempfile::tempdir().unwrap(),
        authority: next,
    };
    let known = next.issue(&["a"]);
    let mut new = next.connect(&world, Some(&known)).await.unwrap();
    new.call("Call").await.unwrap();
    next.refuses(&world, Some(&client)).await;
    // The connection with the certificates of before goes on.
    old.call("Call").await.unwrap();
}

#[tokio::test]
async fn c204_chain_of_an_unknown_instance_is_nacked() {
    let mesh = Mesh::new();
    let mut world = mesh.world().await;
    world.send_listener(&secured("other", &inline(ALL), ""));
    let reason = world.not_serving().await;
    assert!(
        reason.contains("default_filter_chain.transport_socket"),
        "{reason}"
    );
    assert!(reason.contains("\"other\""), "{reason}");
    world.refuses().await;
}

/// given a client that connects again / then its session is resumed with its identity, until the certificates change.
#[tokio::test]
async fn a29_server_resumes_sessions_until_rotation() {
    let mesh = Mesh::new();
    let world = mesh.serving().await;
    let client = mesh.issue(&["spiffe://mesh/client"]);
    let connector = mesh.authority.connector(Some(&client), H2).unwrap();
    let connect = async || {
        let stream = connected(&connector, &world).await.unwrap();
        let kind = stream.get_ref().1.handshake_kind();
        let mut connection = Client::over(stream).await;
        // The response comes after the ticket of the session.
        (kind, connection.call("Names").await.unwrap())
    };
    let names = "spiffe://mesh/client 1";
    assert_eq!(connect().await, (Some(HandshakeKind::Full), names.into()));
    assert_eq!(
        connect().await,
        (Some(HandshakeKind::Resumed), names.into())
    );
    mesh.own(&mesh.issue(&["server.example"]));
    assert_eq!(connect().await, (Some(HandshakeKind::Full), names.into()));
    // A client that is no longer trusted does not get in by the session of before.
    let next = Authority::new("next").unwrap();
    replace(&mesh.path("ca.pem"), &next.pem()).unwrap();
    let stream = connected(&connector, &world).await.unwrap();
    assert_eq!(
        stream.get_ref().1.handshake_kind(),
        Some(HandshakeKind::Full)
    );
    let mut connection = Client::over(stream).await;
    connection.call("Call").await.unwrap_err();
}

/// given a folder of revocation lists / then a revoked client is rejected, other clients get in, and a session of
/// before is not resumed.
#[tokio::test]
async fn a69_revoked_client_is_rejected() {
    let mesh = Mesh::new();
    let folder = mesh.path("crls");
    std::fs::create_dir(&folder).unwrap();
    let files = mesh.files().with_revocation(RevocationFiles {
        directory: folder.clone(),
        deny_undetermined: false,
    });
    let mut world = mesh.world_of(&files, |builder| builder).await;
    world.send_listener(&mutual(&inline(ALL), ""));
    assert_eq!(world.mode().await, ServingMode::Serving);
    let (good, bad) = (mesh.issue(&["good"]), mesh.issue(&["bad"]));
    let connector = mesh.authority.connector(Some(&bad), H2).unwrap();
    let mut before = Client::over(connected(&connector, &world).await.unwrap()).await;
    before.call("Call").await.unwrap();
    let list = mesh.authority.revocation_list(&[&bad], 2100).unwrap();
    replace(&folder.join("mesh.crl"), &list).unwrap();
    let stream = connected(&connector, &world).await.unwrap();
    let kind = stream.get_ref().1.handshake_kind();
    assert_eq!(kind, Some(HandshakeKind::Full));
    Client::over(stream).await.call("Call").await.unwrap_err();
    let mut connection = mesh.connect(&world, Some(&good)).await.unwrap();
    connection.call("Call").await.unwrap();
    // Open connections stay, as with every change of certificates.
    before.call("Call").await.unwrap();
}
