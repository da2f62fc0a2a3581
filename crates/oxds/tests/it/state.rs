//! `oxds serve --state`: the last good configuration over a restart of the process (G-25).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::support::{Serve, cluster, command, folder, oxds, until};

/// A folder to serve, and one for the state.
struct Site(TempDir);

impl Site {
    fn new() -> Self {
        Self(folder(&[("config/a.yaml", &cluster("a"))]))
    }

    fn config(&self) -> PathBuf {
        self.0.path().join("config")
    }

    fn state(&self) -> PathBuf {
        self.0.path().join("state")
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.config().join(name), text).expect("written");
    }

    fn start(&self) -> Serve {
        Serve::with(&self.config(), [Path::new("--state"), &self.state()])
    }
}

/// Waits until this number of clusters is served, and saved.
#[track_caller]
fn saved(server: &Serve, clusters: usize) {
    let texts = [
        &*format!("\"resources\":{clusters},"),
        "\"unsaved_seconds\":null",
    ];
    until(|| {
        let page = server.page("/status.json");
        let has_all = texts.iter().all(|text| page.contains(text));
        has_all.then_some(()).ok_or(page)
    });
}

/// given a server that was killed after a change, and whose folder is gone / when it starts again / then it serves the
/// last state, marked as stale. When the folder is back, it follows it.
#[test]
fn g25_killed_server_serves_its_state_without_the_folder() {
    let site = Site::new();
    let server = site.start();
    saved(&server, 1);
    site.write("b.yaml", &cluster("b"));
    saved(&server, 2);
    // A SIGKILL.
    drop(server);

    let away = site.0.path().join("away");
    fs::rename(site.config(), &away).expect("renamed");
    let server = site.start();
    server.shows("/readyz", "ok, stale: serving the last good state, saved ");
    server.shows("/metrics", "oxds_store_stale 1\n");
    let grpc = server.grpc.to_string();
    for name in ["a", "b"] {
        oxds(["get", "cluster", name, "--server", &grpc]).expect(0, &[name]);
    }
    let status = oxds(["status", "--server", &grpc]);
    status.expect(
        1,
        &["store is not available: the last good state is served, saved "],
    );
    fs::write(away.join("a.yaml"), "name: [\n").expect("written");
    fs::rename(&away, site.config()).expect("renamed");
    server.shows("/readyz", "\r\n\r\nok\n");
    server.shows("/status.json", "a.yaml");
    saved(&server, 2);
    server.signal("TERM");
    let (code, log) = server.end();
    assert_eq!(code, Some(0), "{log}");
    for text in [
        "store is not available: serving the last good state",
        "the served state is current again",
    ] {
        assert!(log.contains(text), "{log}");
    }
}

/// given errors of the operator, and no state that could help / then the server does not start, and names the reason.
#[test]
fn g25_errors_of_the_operator_end_the_start() {
    let site = Site::new();
    let run = |arguments: &[&Path]| {
        let ports = ["serve", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"];
        command(ports)
            .args(arguments)
            .output()
            .expect("the binary runs")
            .into()
    };
    let run = |arguments: &[&Path]| -> crate::support::Ran { run(arguments) };
    let (config, state, option) = (site.config(), site.state(), Path::new("--state"));
    let missing = site.0.path().join("missing");
    run(&[&missing, option, &state]).expect(2, &["cannot read the folder", "missing"]);
    let inside = config.join("state");
    run(&[&config, option, &inside]).expect(2, &["--state: ", "is in the served folder"]);
    let file = config.join("a.yaml");
    run(&[&missing, option, &file]).expect(2, &["--state: ", "a.yaml: "]);
    run(&[&config, Path::new("--persist-secrets")]).expect(2, &["--persist-secrets has no effect"]);
    let server = site.start();
    let in_use = run(&[&config, option, &state]);
    in_use.expect(
        2,
        &["--state: ", "is in use by process ", "a folder of its own"],
    );
    drop(server);
}

/// given a disk without room for a change / then the change is served, a warning has the reason, and the error is
/// counted. When there is room, the state is saved.
#[cfg(target_os = "linux")]
#[test]
fn g25_full_disk_is_a_warning_until_the_state_is_saved() {
    let site = Site::new();
    // Files may have 10 KB, which is enough for the removals. Without the trap, the signal would end the process.
    let limited = "trap '' XFSZ; ulimit -f 20; exec \"$0\" serve --grpc 127.0.0.1:0 --http 127.0.0.1:0 \"$@\"";
    let mut shell = Command::new("sh");
    shell.args(["-c", limited, env!("CARGO_BIN_EXE_oxds")]);
    shell.arg(site.config()).arg("--state").arg(site.state());
    let server = Serve::of(shell.env_remove("RUST_LOG"));
    saved(&server, 1);
    let many: Vec<String> = (0..400).map(|i| cluster(&format!("cluster-{i}"))).collect();
    site.write("many.yaml", &many.join("---\n"));
    server.shows("/status.json", "\"resources\":401,");
    server.shows("/status.json", "the state is not saved: File too large");
    server.shows("/metrics", "oxds_state_errors_total ");
    fs::remove_file(site.config().join("many.yaml")).expect("removed");
    saved(&server, 1);
    server.shows("/status.json", "\"findings\":[]");
}
