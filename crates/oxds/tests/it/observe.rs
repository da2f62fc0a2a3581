//! Tests of `oxds get`, `oxds watch` and `oxds csds` with a running control plane.

use std::fs;
use std::io::{BufRead as _, BufReader, Lines};
use std::process::{Child, ChildStdout, Stdio};

use oxds_client::admin::Csds;
use oxds_client::{Bootstrap, ClientPool};
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

    /// Returns the next change: event, name and resource.
    fn next(&mut self) -> (String, String, Value) {
        let line = self.lines.next().expect("a line").expect("UTF-8");
        let line: Value = serde_json::from_str(&line).expect("JSON");
        let text = |field: &str| line[field].as_str().expect("text").to_owned();
        (text("change"), text("name"), line["resource"].clone())
    }

    #[track_caller]
    pub(crate) fn expect(&mut self, change: &str, name: &str) -> Value {
        let (event, of, resource) = self.next();
        assert_eq!((&*event, &*of), (change, name));
        resource
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Given a folder in v3. When it is watched over the v2 transport, resources arrive in v2. Given a bootstrap without
/// the server feature `xds_v3`, `--transport auto` uses v2.
#[test]
fn s62_get_and_watch_support_v2_transport() {
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
        let arguments = ["get", "cds", "-o", "json", "--bootstrap", file];
        oxds([&arguments[..], &["--transport", transport]].concat())
    };
    get("auto").expect(0, &[V2]);
    get("v3").expect(0, &["envoy.config.cluster.v3.Cluster"]);
}

/// Given a served folder. When its files change, `watch` prints each change, with SotW and with delta, and `status`
/// lists it as a client in sync.
#[test]
fn watch_prints_each_change() {
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

/// Given a folder served over REST, and a file of it. When they change, `watch` prints each change, and with a name
/// only changes of this resource. An invalid file is reported on stderr and changes nothing.
#[test]
fn watch_follows_rest_server_and_file() {
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

/// Given a file that does not exist. `watch` logs that it waits, and prints the resources when the file exists.
#[test]
fn watch_waits_for_missing_file() {
    let dir = folder(&[]);
    let file = dir.path().join("late.yaml");
    let path = file.to_str().expect("UTF-8");
    let mut child = command(["watch", "-o", "json", "cds", "--file", path])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut log = BufReader::new(child.stderr.take().expect("piped")).lines();
    let warning = log.next().expect("a line").expect("UTF-8");
    assert!(
        warning.contains("file not found, waiting for it") && warning.contains("late.yaml"),
        "{warning}"
    );
    let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut watching = Watching { child, lines };
    fs::write(&file, cluster("a")).expect("written");
    watching.expect("added", "a");
}

/// Given an address without a server, `watch` and `get` end with an error. Given a control plane that restarts, `watch`
/// continues with the changes.
#[test]
fn watch_survives_restart_of_control_plane() {
    let dir = folder(&[("a.yaml", &cluster("a"))]);
    for command in ["watch", "get"] {
        let arguments = [command, "cds", "--server", "127.0.0.1:1"];
        oxds(arguments).expect(1, &["cannot connect to 127.0.0.1:1", "refused"]);
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

/// Given a name that does not exist. `watch --delta` prints `missing`, and `added` when the resource exists.
#[test]
fn watch_delta_prints_missing_name() {
    let dir = folder(&[("a.yaml", &cluster("a"))]);
    let server = Serve::start(dir.path());
    let mut watching = Watching::start(&["cds", "z", "--delta"], &server);
    watching.expect("missing", "z");
    fs::write(dir.path().join("z.yaml"), cluster("z")).expect("written");
    watching.expect("added", "z");
}

/// Given a served folder. `get` prints the same from the control plane and from the folder, in each format. The YAML is
/// again a valid file of a folder. An unknown name gives exit code 1.
#[test]
fn get_prints_same_resources_from_server_and_folder() {
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
        get(&["cds", "nope"], from).expect(1, &["cds \"nope\" not found"]);
    }
    get(&["clutser"], &from_server).expect(2, &["expected one of cds, eds"]);
}

#[test]
fn get_from_folder_logs_its_errors() {
    let dir = folder(&[("a.yaml", &cluster("a")), ("b.yaml", "nonsense: 1")]);
    let path = dir.path().to_str().expect("UTF-8");
    oxds(["get", "cds", "--dir", path]).expect(1, &["b.yaml:1", "a     "]);
}

/// Given an application whose xDS client has one cluster and waits for another. `csds` prints both, and in YAML their
/// contents as received.
#[tokio::test(flavor = "multi_thread")]
async fn csds_prints_resources_of_a_client() {
    let eds =
        "type: EDS\neds_cluster_config: { eds_config: { ads: {}, resource_api_version: V3 } }\n";
    let dir = folder(&[("a.yaml", &(cluster("shop") + eds))]);
    let server = Serve::start(dir.path());
    let bootstrap = Bootstrap::builder(server.grpc.to_string()).node_id("app-1");
    let pool = ClientPool::new(bootstrap.build().expect("complete"));
    let client = pool.client("xds:///shop");
    let mut existing = client.watch::<Cluster>("shop");
    let mut missing = client.watch::<Cluster>("nope");
    existing.next().await.expect("a resource");
    let address = serve_csds(&pool).await.to_string();
    let table = oxds(["csds", &address]);
    table.expect(0, &["NODE   SCOPE", "shop  ACKED", "nope  REQUESTED"]);
    let yaml = oxds(["csds", &address, "-o", "yaml"]);
    yaml.expect(0, &["client_scope: xds:///shop", "connect_timeout: 1s"]);
    let json = oxds(["csds", &address, "-o", "json"]);
    let json: Value = serde_json::from_str(&json.expect(0, &[]).stdout).expect("JSON");
    assert_eq!(json[0]["config"][0]["node"]["id"], "app-1");
    drop((existing, missing.next()));
}

/// Serves CSDS for the clients of a pool, as an application does.
pub(crate) async fn serve_csds(pool: &ClientPool) -> std::net::SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a port");
    let address = listener.local_addr().expect("bound");
    let incoming = tonic::transport::server::TcpIncoming::from(listener);
    let server = tonic::transport::Server::builder().add_service(Csds::new(pool).into_service());
    tokio::spawn(server.serve_with_incoming(incoming));
    address
}
