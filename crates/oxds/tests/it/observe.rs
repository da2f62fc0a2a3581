//! `oxds get`, `oxds watch` and `oxds csds`, against a running control plane.

use std::fs;
use std::io::{BufRead as _, BufReader, Lines};
use std::process::{Child, ChildStdout, Stdio};

use oxds_client::{Bootstrap, ClientPool, Csds};
use oxds_core::resource::Cluster;
use serde_json::Value;

use crate::support::{Serve, cluster, command, folder, oxds, shop};

/// A running `oxds watch -o json`, killed when dropped.
pub(crate) struct Watching {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Watching {
    fn start(arguments: &[&str], server: &Serve) -> Self {
        let grpc = server.grpc.to_string();
        Self::of(&[&["--server", &grpc], arguments].concat())
    }

    pub(crate) fn of(arguments: &[&str]) -> Self {
        let mut command = command(["watch", "-o", "json"]);
        let mut child = command
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let stdout = child.stdout.take().expect("piped");
        Self {
            child,
            lines: BufReader::new(stdout).lines(),
        }
    }

    /// The next change and its name.
    fn next(&mut self) -> (String, String, Value) {
        let line = self.lines.next().expect("a line").expect("UTF-8");
        let line: Value = serde_json::from_str(&line).expect("JSON");
        let text = |field: &str| line[field].as_str().expect("text").to_owned();
        (text("change"), text("name"), line["resource"].clone())
    }

    #[track_caller]
    pub(crate) fn expect(&mut self, change: &str, name: &str) -> Value {
        let (found, of, resource) = self.next();
        assert_eq!((&*found, &*of), (change, name));
        resource
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        // It may have ended before.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Given a folder in v3; when it is watched and read in v2; then resources come in v2, and the control plane knows who
/// asks in v2; given a bootstrap that does not say that its server knows v3, then `auto` is v2.
#[test]
fn s62_get_and_watch_ask_in_v2() {
    const V2: &str = "type.googleapis.com/envoy.api.v2.Cluster";
    let dir = folder(&[("a.yaml", &cluster("a"))]);
    let server = Serve::start(dir.path());
    server.shows("/readyz", "200 OK");
    for delta in [&[][..], &["--delta"]] {
        let arguments = [&["clusters", "--transport", "v2"], delta].concat();
        let mut watching = Watching::start(&arguments, &server);
        let resource = watching.expect("added", "a");
        assert_eq!(
            (&resource["@type"], &resource["name"]),
            (&V2.into(), &"a".into())
        );
    }
    let grpc = server.grpc.to_string();
    let bootstrap = format!(
        r#"{{ "xds_servers": [{{ "server_uri": "{grpc}", "channel_creds": [{{ "type": "insecure" }}] }}] }}"#
    );
    let file = dir.path().join("bootstrap.json.txt");
    fs::write(&file, bootstrap).expect("written");
    let file = file.to_str().expect("UTF-8");
    let get = |transport| {
        let asked = ["get", "cds", "-o", "json", "--bootstrap", file];
        oxds([&asked[..], &["--transport", transport]].concat())
    };
    get("auto").expect(0, &[V2]);
    get("v3").expect(0, &["envoy.config.cluster.v3.Cluster"]);
}

/// Given a folder that is served; when its files change; then `watch` tells each change, with full states and with
/// differences, and the control plane knows it as a client in sync.
#[test]
fn watch_follows_what_is_served() {
    for delta in [&[][..], &["--delta"]] {
        let dir = folder(&[("a.yaml", &cluster("a")), ("b.yaml", &cluster("b"))]);
        let server = Serve::start(dir.path());
        server.shows("/readyz", "200 OK");
        let arguments = [&["clusters", "--node-id", "me"], delta].concat();
        let mut watching = Watching::start(&arguments, &server);
        assert_eq!(watching.expect("added", "a")["name"], "a");
        watching.expect("added", "b");
        let changed = cluster("a").replace("1s", "2s");
        fs::write(dir.path().join("a.yaml"), changed).expect("written");
        assert_eq!(watching.expect("changed", "a")["connect_timeout"], "2s");
        fs::remove_file(dir.path().join("b.yaml")).expect("removed");
        assert_eq!(watching.expect("removed", "b"), Value::Null);
        let grpc = server.grpc.to_string();
        oxds(["wait", "--all", "--server", &grpc]).expect(0, &[]);
        oxds(["status", "--server", &grpc]).expect(0, &["me    cds   SYNCED"]);
    }
}

/// Given a folder that is served by REST, and a file of it; when they change; then `watch` tells each change, as it does of
/// a stream; what it asks for by name is all that it tells of; a file that cannot be read is told on stderr and changes
/// nothing.
#[test]
fn watch_follows_a_server_that_is_polled_and_a_file() {
    let dir = folder(&[(
        "all.yaml",
        &format!("{}---\n{}", cluster("a"), cluster("b")),
    )]);
    let file = dir.path().join("all.yaml");
    let server = Serve::start(dir.path());
    server.shows("/readyz", "200 OK");
    let url = format!("http://{}", server.http);
    let path = file.to_str().expect("UTF-8");
    for source in [["--rest", &url], ["--file", path]] {
        fs::write(&file, format!("{}---\n{}", cluster("a"), cluster("b"))).expect("written");
        let mut all = Watching::of(&[&["clusters"], &source[..]].concat());
        let mut one = Watching::of(&[&["clusters", "b"], &source[..]].concat());
        all.expect("added", "a");
        all.expect("added", "b");
        one.expect("added", "b");
        fs::write(&file, "nonsense: 1").expect("written");
        let changed = cluster("b").replace("1s", "2s");
        fs::write(&file, &changed).expect("written");
        let (mut seen, mut names) = (Vec::new(), Vec::new());
        for _ in 0..2 {
            let (change, name, _) = all.next();
            seen.push(change);
            names.push(name);
        }
        seen.sort();
        names.sort();
        assert_eq!(
            (seen.join(" "), names.join(" ")),
            ("changed removed".to_owned(), "a b".to_owned())
        );
        assert_eq!(one.expect("changed", "b")["connect_timeout"], "2s");
    }
    oxds(["watch", "cds", "--rest", "nonsense"]).expect(2, &["url: \"nonsense\""]);
    oxds(["watch", "vhds", "--rest", &url]).expect(2, &["no service of its own over REST"]);
}

/// Given a file that is yet to come; then `watch` says that it waits, and tells what is in it when it is there.
#[test]
fn watch_says_that_it_waits_for_a_file() {
    let dir = folder(&[]);
    let file = dir.path().join("late.yaml");
    let path = file.to_str().expect("UTF-8");
    let mut child = command(["watch", "-o", "json", "cds", "--file", path])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut said = BufReader::new(child.stderr.take().expect("piped")).lines();
    let warning = said.next().expect("a line").expect("UTF-8");
    assert!(
        warning.contains("late.yaml: there is no such file yet"),
        "{warning}"
    );
    let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut watching = Watching { child, lines };
    fs::write(&file, cluster("a")).expect("written");
    watching.expect("added", "a");
}

/// Given nobody at the address; then `watch` and `get` say so and end; given a control plane that goes and returns; then `watch`
/// goes on where it was.
#[test]
fn watch_outlives_a_control_plane_that_it_has_seen() {
    let dir = folder(&[("a.yaml", &cluster("a"))]);
    for asking in ["watch", "get"] {
        let asked = [asking, "cds", "--server", "127.0.0.1:1"];
        oxds(asked).expect(1, &["cannot connect to 127.0.0.1:1", "refused"]);
    }
    for delta in [&[][..], &["--delta"]] {
        let server = Serve::start(dir.path());
        server.shows("/readyz", "200 OK");
        let mut watching = Watching::start(&[&["cds"], delta].concat(), &server);
        watching.expect("added", "a");
        let grpc = server.grpc.to_string();
        drop(server);
        fs::write(dir.path().join("b.yaml"), cluster("b")).expect("written");
        let again = ["serve", "--grpc", &grpc, "--http", "127.0.0.1:0"];
        let _again = Serve::of(command(again).arg(dir.path()));
        watching.expect("added", "b");
        fs::remove_file(dir.path().join("b.yaml")).expect("removed");
    }
}

/// Given a name that there is not; then `watch --delta` says so, and tells when it comes.
#[test]
fn watch_by_name_tells_what_is_missing() {
    let dir = folder(&[("a.yaml", &cluster("a"))]);
    let server = Serve::start(dir.path());
    let mut watching = Watching::start(&["cds", "z", "--delta"], &server);
    watching.expect("missing", "z");
    fs::write(dir.path().join("z.yaml"), cluster("z")).expect("written");
    watching.expect("added", "z");
}

/// Given a folder that is served; then `get` shows the same from the control plane and from the folder, in each form;
/// what it prints as YAML is a folder's file again; and a name that there is not is an answer of no.
#[test]
fn get_shows_what_is_served_and_what_a_folder_holds() {
    let server = Serve::start(&shop());
    server.shows("/readyz", "200 OK");
    let grpc = server.grpc.to_string();
    let (shop, from_server) = (shop(), ["--server", &grpc]);
    let from_folder = ["--dir", shop.to_str().expect("UTF-8")];
    let get = |arguments: &[&str], from: &[&str]| oxds([&["get"], arguments, from].concat());
    for arguments in [
        &["clusters"][..],
        &["eds", "-o", "yaml"],
        &["rds", "checkout-routes", "-o", "json"],
    ] {
        let served = get(arguments, &from_server);
        served.expect(0, &["checkout"]);
        assert_eq!(served.stdout, get(arguments, &from_folder).stdout);
    }
    get(&["cds"], &from_server).expect(0, &["NAME         VERSION", "checkout-v2  "]);
    let yaml = get(&["eds", "-o", "yaml"], &from_server).stdout;
    let again = folder(&[("all.yaml", &yaml)]);
    let again = ["--dir", again.path().to_str().expect("UTF-8")];
    assert_eq!(get(&["eds", "-o", "yaml"], &again).stdout, yaml);
    for from in [&from_server[..], &from_folder] {
        get(&["cds", "nope"], from).expect(1, &["there is no cds \"nope\""]);
    }
    get(&["clutser"], &from_server).expect(2, &["one of cds, eds"]);
}

#[test]
fn get_from_a_folder_tells_its_errors() {
    let dir = folder(&[("a.yaml", &cluster("a")), ("b.yaml", "nonsense: 1")]);
    let path = dir.path().to_str().expect("UTF-8");
    oxds(["get", "cds", "--dir", path]).expect(1, &["b.yaml:1", "a     "]);
}

/// Given an application whose xDS client has a cluster and lacks another; then `csds` shows both, and in YAML the
/// contents as they came.
#[tokio::test(flavor = "multi_thread")]
async fn csds_shows_what_a_client_holds() {
    let eds =
        "type: EDS\neds_cluster_config: { eds_config: { ads: {}, resource_api_version: V3 } }\n";
    let dir = folder(&[("a.yaml", &(cluster("shop") + eds))]);
    let server = Serve::start(dir.path());
    let bootstrap = Bootstrap::builder(server.grpc.to_string()).node_id("app-1");
    let pool = ClientPool::new(bootstrap.build().expect("complete"));
    let client = pool.client("xds:///shop");
    let mut there = client.watch::<Cluster>("shop");
    let mut missing = client.watch::<Cluster>("nope");
    there.next().await.expect("an answer");
    let address = serve_csds(&pool).await.to_string();
    let shown = oxds(["csds", &address]);
    shown.expect(0, &["NODE   SCOPE", "shop  ACKED", "nope  REQUESTED"]);
    let yaml = oxds(["csds", &address, "-o", "yaml"]);
    yaml.expect(0, &["client_scope: xds:///shop", "connect_timeout: 1s"]);
    let json = oxds(["csds", &address, "-o", "json"]);
    let json: Value = serde_json::from_str(&json.expect(0, &[]).stdout).expect("JSON");
    assert_eq!(json[0]["config"][0]["node"]["id"], "app-1");
    drop((there, missing.next()));
}

/// Serves what the clients of a pool hold, as an application would.
async fn serve_csds(pool: &ClientPool) -> std::net::SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a port");
    let address = listener.local_addr().expect("bound");
    let incoming = tonic::transport::server::TcpIncoming::from(listener);
    let server = tonic::transport::Server::builder().add_service(Csds::new(pool).into_service());
    tokio::spawn(server.serve_with_incoming(incoming));
    address
}
