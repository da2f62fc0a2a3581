//! Tests of `oxds serve` with certificates and authorization rules (S-78).

use std::fs;
use std::io;
use std::path::Path;

use oxds_testkit::certificates::{Authority, Issued, replace};
use oxds_testkit::hostile::{Ended, Rude, framed};
use oxds_types::discovery::{DiscoveryRequest, Node};
use tempfile::TempDir;
use tokio::net::TcpStream;

use crate::support::{Serve, cluster, command, folder, oxds};

const SOTW: &str =
    "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources";
const CDS: &str = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
const RULES: &str = "rules:\n- {identity: 'spiffe://prod/*', nodes: [shop-*]}\n";

/// The files of a server, and the authority that issued its certificate.
struct ServerFiles {
    dir: TempDir,
    authority: Authority,
}

impl ServerFiles {
    fn create() -> Self {
        let dir = folder(&[("config/a.yaml", &cluster("a")), ("rules.yaml", RULES)]);
        let authority = Authority::new("test").expect("an authority");
        let files = Self { dir, authority };
        files.issue(&files.authority);
        replace(&files.path("ca.pem"), &files.authority.pem()).expect("written");
        files
    }

    /// Writes a new certificate for the server.
    fn issue(&self, authority: &Authority) {
        let issued = authority.issue(&["localhost"]).expect("issued");
        issued.write(self.dir.path(), "server").expect("written");
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join(name)
    }

    fn serve(&self) -> Serve {
        let addresses = ["--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"];
        let mut command = command(["serve", "config"]);
        command.args(addresses).current_dir(self.dir.path());
        for (option, file) in [
            ("--tls-cert", "server.pem"),
            ("--tls-key", "server.key"),
            ("--tls-client-ca", "ca.pem"),
            ("--authorize", "rules.yaml"),
        ] {
            command.args([option, file]);
        }
        Serve::of(&mut command)
    }
}

async fn connect(server: &Serve, authority: &Authority, client: &Issued) -> io::Result<Rude> {
    let connector = authority
        .connector(Some(client), &["h2"])
        .map_err(io::Error::other)?;
    let socket = TcpStream::connect(server.grpc).await?;
    let name = "localhost".try_into().map_err(io::Error::other)?;
    Rude::over(connector.connect(name, socket).await?, 65_535).await
}

/// Sends a first request as this node. Returns `Ok` after a response, or the end of the stream.
async fn subscribe(client: &mut Rude, node: &str) -> Result<(), Ended> {
    let mut call = client.call(SOTW).await.expect("a call");
    call.send(framed(&DiscoveryRequest {
        node: Some(Node {
            id: node.into(),
            ..Node::default()
        }),
        type_url: CDS.into(),
        ..DiscoveryRequest::default()
    }));
    call.message().await.map(drop)
}

/// Given certificates and rules. A client is served as a node that it may use, and denied as another. New certificates
/// and rules apply after SIGHUP.
#[tokio::test]
async fn s78_rules_apply_and_sighup_reloads_them() {
    let files = ServerFiles::create();
    let server = files.serve();
    server.shows("/readyz", "200 OK");
    let web = files
        .authority
        .issue(&["spiffe://prod/web"])
        .expect("issued");
    let mut client = connect(&server, &files.authority, &web)
        .await
        .expect("served");
    assert_eq!(subscribe(&mut client, "shop-1").await, Ok(()));
    let denied = subscribe(&mut client, "pay-1").await;
    assert!(matches!(denied, Err(Ended::Status(7, _))), "{denied:?}");

    let next = Authority::new("next").expect("an authority");
    files.issue(&next);
    replace(&files.path("rules.yaml"), &RULES.replace("shop-*", "pay-*")).expect("written");
    server.signal("HUP");
    let mut client = loop {
        if let Ok(client) = connect(&server, &next, &web).await {
            break client;
        }
    };
    while subscribe(&mut client, "pay-1").await.is_err() {}
    assert!(subscribe(&mut client, "shop-1").await.is_err());

    server.signal("TERM");
    let (code, log) = tokio::task::spawn_blocking(|| server.end())
        .await
        .expect("ended");
    assert_eq!(code, Some(0), "{log}");
    for text in [
        "certificates reloaded",
        "authorization rules reloaded",
        "(spiffe://prod/web)",
    ] {
        assert!(log.contains(text), "no {text:?} in {log}");
    }
    assert!(!log.contains("Some("), "{log}");
}

/// Given an expired certificate. The log reports it once, and does not report the valid certificate that replaces it.
#[test]
fn s78_expired_certificate_is_logged_once() {
    let files = ServerFiles::create();
    let expired = files
        .authority
        .issue_expired(&["localhost"])
        .expect("issued");
    expired.write(files.dir.path(), "server").expect("written");
    let server = files.serve();
    server.shows("/readyz", "200 OK");
    files.issue(&files.authority);
    server.signal("HUP");
    server.shows("/healthz", "200 OK");
    server.signal("TERM");
    let (_, log) = server.end();
    let reports = log
        .lines()
        .filter(|line| line.contains("server.pem") && line.contains("expired "));
    assert_eq!(reports.count(), 1, "{log}");
}

/// Given files that are missing, malformed or of the wrong format. The error names the file, and the line if there is
/// one, and no port is opened.
#[test]
fn s78_invalid_files_are_named_with_line() {
    let files = ServerFiles::create();
    let run = |options: &[(&str, &str)]| {
        let mut arguments = vec![
            "serve".to_owned(),
            files.path("config").display().to_string(),
        ];
        for (option, file) in options {
            arguments.extend([(*option).to_owned(), files.path(file).display().to_string()]);
        }
        oxds(arguments)
    };
    let (cert, key) = (("--tls-cert", "server.pem"), ("--tls-key", "server.key"));
    let ca = ("--tls-client-ca", "ca.pem");
    run(&[cert]).expect(2, &["--tls-key"]);
    run(&[cert, key, ("--authorize", "rules.yaml")]).expect(2, &["--tls-client-ca"]);
    run(&[cert, ("--tls-key", "none")]).expect(2, &["none: No such file"]);
    run(&[cert, ("--tls-key", "server.pem")]).expect(2, &["server.pem: "]);
    run(&[("--tls-cert", "rules.yaml"), key]).expect(2, &["rules.yaml: no certificate found"]);
    write(
        &files.path("bad.yaml"),
        "rules:\n- identity: a\n  node: b\n",
    );
    run(&[cert, key, ca, ("--authorize", "bad.yaml")])
        .expect(2, &["bad.yaml:3:3: unknown field `node`"]);
}

fn write(path: &Path, text: &str) {
    fs::write(path, text).expect("written");
}
