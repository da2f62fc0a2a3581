//! Tests of `oxds serve`.

use std::fs;
use std::net::TcpListener;

use crate::support::{Serve, cluster, command, folder, oxds};

#[test]
fn printed_addresses_accept_requests() {
    let dir = folder(&[("a.yaml", &cluster("a"))]);
    let server = Serve::start(dir.path());
    assert_ne!(server.grpc.port(), 0);
    server.shows("/readyz", "200 OK");
    server.shows("/metrics", "# EOF");
}

#[test]
fn s79_sigterm_and_sigint_exit_with_0() {
    for signal in ["TERM", "INT"] {
        let dir = folder(&[("a.yaml", &cluster("a"))]);
        let server = Serve::start(dir.path());
        server.shows("/healthz", "200 OK");
        server.signal(signal);
        let (code, log) = server.end();
        assert_eq!(code, Some(0), "{log}");
        assert!(log.contains(&format!("SIG{signal}")), "{log}");
    }
}

/// Given a folder that is a symbolic link. When the link gets another target, the system reports no event, because no
/// file of the old target changed. SIGHUP reads the new target, and later changes there are followed.
#[test]
fn s79_sighup_reloads_the_folder() {
    let dir = folder(&[("1/a.yaml", &cluster("a")), ("2/a.yaml", "nonsense")]);
    let link_to = |target: &str| {
        let new = dir.path().join("new");
        std::os::unix::fs::symlink(target, &new).expect("a link");
        fs::rename(new, dir.path().join("config")).expect("renamed");
    };
    link_to("1");
    let server = Serve::start(&dir.path().join("config"));
    server.shows("/readyz", "200 OK");
    link_to("2");
    assert!(server.page("/status.json").contains("\"findings\":[]"));
    server.signal("HUP");
    server.shows("/status.json", "config/a.yaml");
    fs::write(dir.path().join("2/a.yaml"), cluster("b")).expect("written");
    server.shows("/status.json", "\"findings\":[]");
    server.signal("TERM");
    let (code, log) = server.end();
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("SIGHUP"), "{log}");
}

/// The system reports absolute paths. A folder given by a relative path must still follow its files.
#[test]
fn s72_relative_folder_is_followed() {
    let dir = folder(&[("config/a.yaml", &cluster("first"))]);
    let arguments = [
        "serve",
        "config",
        "--grpc",
        "127.0.0.1:0",
        "--http",
        "127.0.0.1:0",
    ];
    let server = Serve::of(command(arguments).current_dir(dir.path()));
    server.shows("/readyz", "200 OK");
    // First a rename to the file, then a write to it: both are changes of the same file.
    fs::write(dir.path().join("new"), "nonsense").expect("written");
    fs::rename(dir.path().join("new"), dir.path().join("config/a.yaml")).expect("renamed");
    server.shows("/status.json", "config/a.yaml");
    fs::write(dir.path().join("config/a.yaml"), cluster("second")).expect("written");
    server.shows("/status.json", "\"findings\":[]");
}

#[test]
fn s73_invalid_file_is_reported_with_line_until_fixed() {
    let dir = folder(&[("a.yaml", &cluster("a"))]);
    let server = Serve::start(dir.path());
    server.shows("/readyz", "200 OK");
    fs::write(
        dir.path().join("a.yaml"),
        cluster("a") + "lb_polizy: RANDOM\n",
    )
    .expect("written");
    server.shows("/status.json", "lb_polizy");
    fs::write(dir.path().join("a.yaml"), cluster("a")).expect("written");
    server.shows("/status.json", "\"findings\":[]");
    server.signal("TERM");
    let (_, log) = server.end();
    assert!(log.contains("a.yaml:4:1: error: lb_polizy"), "{log}");
}

#[test]
fn missing_folder_is_a_usage_error() {
    let ran = oxds(["serve", "/no/such/folder"]);
    ran.expect(2, &["error: ", "/no/such/folder", "No such file"]);
    assert_eq!(ran.stdout, "", "no address is printed");
}

#[test]
fn address_in_use_is_reported_with_a_tip() {
    let dir = folder(&[]);
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let taken = taken
        .local_addr()
        .map(|address| (address, taken))
        .expect("bound");
    let address = taken.0.to_string();
    let arguments = ["--grpc", &address, "--http", "127.0.0.1:0"];
    let ran: crate::support::Ran = command(["serve"])
        .arg(dir.path())
        .args(arguments)
        .output()
        .expect("ran")
        .into();
    ran.expect(1, &[&address, "in use", "tip: "]);
}

#[test]
fn log_format_json_prints_json_lines() {
    let dir = folder(&[("a.yaml", "nonsense")]);
    let arguments = [
        "--log-format",
        "json",
        "serve",
        "--grpc",
        "127.0.0.1:0",
        "--http",
        "127.0.0.1:0",
    ];
    let server = Serve::of(command(arguments).arg(dir.path()));
    server.shows("/status.json", "a.yaml");
    server.signal("TERM");
    let (_, log) = server.end();
    for line in log.lines() {
        let line: serde_json::Value = serde_json::from_str(line).expect(line);
        assert!(
            line["level"].is_string() && line["message"].is_string(),
            "{line}"
        );
    }
    assert!(log.lines().count() >= 2, "{log}");
}
