//! Tests of the commands that connect to control planes over TLS.

use std::path::Path;

use oxds_testkit::certificates::{Authority, replace};
use serde_json::json;
use tempfile::TempDir;

use crate::observe::Watching;
use crate::support::{Ran, Serve, cluster, command, folder, oxds};

/// A server that requires client certificates, and the files of a client.
struct SecuredServer {
    dir: TempDir,
    server: Serve,
}

impl SecuredServer {
    fn start() -> Self {
        let dir = folder(&[("config/a.yaml", &cluster("a"))]);
        let authority = Authority::new("test").expect("an authority");
        let other = Authority::new("other").expect("an authority");
        for (name, pem) in [("ca.pem", authority.pem()), ("other.pem", other.pem())] {
            replace(&dir.path().join(name), &pem).expect("written");
        }
        for name in ["server", "client"] {
            let issued = authority.issue(&["127.0.0.1"]).expect("issued");
            issued.write(dir.path(), name).expect("written");
        }
        let mut command = command([
            "serve",
            "config",
            "--grpc",
            "127.0.0.1:0",
            "--http",
            "127.0.0.1:0",
        ]);
        command.args([
            "--tls-cert",
            "server.pem",
            "--tls-key",
            "server.key",
            "--tls-client-ca",
            "ca.pem",
        ]);
        let server = Serve::of(command.current_dir(dir.path()));
        Self { dir, server }
    }

    /// Runs a command line in the folder of the files; `HERE` is replaced by the server's address.
    fn run(&self, line: &str) -> Ran {
        self.run_trusting(line, None)
    }

    /// Runs a command line as on a machine that trusts the authorities of this file.
    fn run_trusting(&self, line: &str, system: Option<&str>) -> Ran {
        let line = line.replace("HERE", &self.server.grpc.to_string());
        let mut command = command(line.split_whitespace());
        if let Some(file) = system {
            command
                .env("SSL_CERT_FILE", self.path(file))
                .env_remove("SSL_CERT_DIR");
        }
        command
            .current_dir(self.dir.path())
            .output()
            .expect("the binary runs")
            .into()
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join(name)
    }
}

const CLIENT_CERTIFICATE: &str = "--cert client.pem --key client.key";

/// Given a server with TLS. Every command succeeds with the right files, and reports the error of wrong ones.
#[test]
fn c16_c17_commands_connect_over_tls() {
    let secured = SecuredServer::start();
    for command in [
        "get cds --server HERE",
        "status --server HERE",
        "wait --all --server HERE",
        "csds HERE",
    ] {
        secured
            .run(&format!("{command} --ca ca.pem {CLIENT_CERTIFICATE}"))
            .expect(0, &[]);
        secured
            .run(&format!("{command} --ca other.pem {CLIENT_CERTIFICATE}"))
            .expect(1, &["invalid peer certificate"]);
        assert_ne!(secured.run(command).code, Some(0), "in plaintext");
    }
    let ran = secured.run(&format!(
        "get cds --server HERE --ca ca.pem {CLIENT_CERTIFICATE}"
    ));
    ran.expect(0, &["\na "]);
    secured
        .run("get cds --server HERE --ca none.pem")
        .expect(2, &["error: none.pem: No such file"]);
    secured
        .run("get cds --server HERE --cert client.pem")
        .expect(2, &["--key"]);
    secured
        .run("get cds --server HERE --insecure --ca ca.pem")
        .expect(2, &["--insecure"]);
}

/// Given a server with TLS. Without `--ca`, the authorities of the machine are trusted.
#[test]
fn c16_tls_without_ca_trusts_system_authorities() {
    let secured = SecuredServer::start();
    let command = format!("get cds --server HERE --tls {CLIENT_CERTIFICATE}");
    secured
        .run_trusting(&command, Some("ca.pem"))
        .expect(0, &["\na "]);
    secured
        .run_trusting(&command, Some("other.pem"))
        .expect(1, &["invalid peer certificate: UnknownIssuer"]);
}

/// Given a bootstrap with `tls` credentials. The commands connect to its server with them.
#[test]
fn c16_bootstrap_credentials_are_used() {
    let secured = SecuredServer::start();
    let write = |path: &Path, fields: serde_json::Value| {
        let mut server = json!({ "server_uri": secured.server.grpc.to_string() });
        for (name, value) in fields.as_object().expect("fields") {
            server[name] = value.clone();
        }
        let json = json!({ "xds_servers": [server], "node": { "id": "me" } });
        std::fs::write(path, json.to_string()).expect("written");
    };
    let config = json!({
        "ca_certificate_file": secured.path("ca.pem"),
        "certificate_file": secured.path("client.pem"),
        "private_key_file": secured.path("client.key"),
    });
    let creds = json!([{ "type": "google_default" }, { "type": "tls", "config": config }]);
    write(&secured.path("b.json"), json!({ "channel_creds": creds }));
    for command in ["get cds", "status", "wait --all"] {
        secured
            .run(&format!("{command} --bootstrap b.json"))
            .expect(0, &[]);
        secured
            .run(&format!("{command} --bootstrap b.json --ca ca.pem"))
            .expect(2, &["--bootstrap"]);
    }
    secured.run("bootstrap check b.json").expect(0, &["(tls"]);
}

/// Given a server with TLS. `watch` polls it at `https://` with the right files. Options that contradict the URL, or
/// that do not apply to a file, are errors.
#[test]
fn c16_c266_watch_polls_over_tls() {
    let secured = SecuredServer::start();
    let url = format!("https://{}", secured.server.grpc);
    let file = |name: &str| secured.path(name).to_str().expect("UTF-8").to_owned();
    let (ca, cert, key) = (file("ca.pem"), file("client.pem"), file("client.key"));
    let tls = ["--ca", &ca, "--cert", &cert, "--key", &key];
    let mut watching = Watching::of(&[&["cds", "--rest", &url][..], &tls].concat());
    watching.expect("added", "a");
    std::fs::write(secured.path("config/b.yaml"), cluster("b")).expect("written");
    watching.expect("added", "b");

    let plaintext = format!("watch cds --rest http://{}", secured.server.http);
    for (line, text) in [
        (
            format!("{plaintext} --ca ca.pem"),
            "must begin with https:// for TLS credentials",
        ),
        (
            format!("{plaintext} --tls"),
            "must begin with https:// for TLS credentials",
        ),
        (
            format!("watch cds --rest {url} --insecure"),
            "must begin with http://",
        ),
        (
            "watch cds --file config/a.yaml --ca ca.pem".to_owned(),
            "--ca",
        ),
    ] {
        secured.run(&line).expect(2, &[text]);
    }
}

/// Given a server with a limit of 20 bytes per request. A larger request is an error.
#[test]
fn s77_max_request_bytes_rejects_larger_request() {
    let dir = folder(&[("a.yaml", &cluster("a"))]);
    let mut command = command([
        "serve",
        "--grpc",
        "127.0.0.1:0",
        "--http",
        "127.0.0.1:0",
        "--max-request-bytes",
        "20",
    ]);
    let server = Serve::of(command.arg(dir.path()));
    let address = server.grpc.to_string();
    oxds(["get", "cds", "--server", &address]).expect(1, &["20"]);
}
