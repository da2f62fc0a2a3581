//! Tests of `oxds serve`.

use std::fs;
use std::net::TcpListener;
use std::process::{Command, Stdio};

use crate::support::{Serve, cluster, command, folder, oxds, until};

#[test]
fn printed_addresses_accept_requests() {
    let dir = folder(&[("a.yaml", &cluster("a"))]);
    let server = Serve::start(dir.path());
    assert_ne!(server.grpc.port(), 0);
    server.shows("/readyz", "200 OK");
    server.shows("/metrics", "\noxds_requests_total 0\n");
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

/// Given a folder that is a symbolic link, when the link gets another target, then it is followed. SIGHUP reads all
/// files again.
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
    server.shows("/status.json", "config/a.yaml");
    fs::write(dir.path().join("2/a.yaml"), cluster("b")).expect("written");
    server.shows("/status.json", "\"findings\":[]");
    let updates = |server: &Serve| {
        let page = server.page("/metrics");
        let line = page
            .lines()
            .find(|line| line.starts_with("oxds_store_updates_total"));
        line.expect("the metric").to_owned()
    };
    let before = updates(&server);
    server.signal("HUP");
    until(|| match updates(&server) {
        same if same == before => Err("nothing was read again".to_owned()),
        _ => Ok(()),
    });
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

/// Returns the command that serves a folder on free ports.
fn serve(dir: &std::path::Path) -> Command {
    let mut command = command(["serve", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"]);
    command.arg(dir);
    command
}

/// Given stderr on a full disk, then clients are served, lost lines are counted, and SIGTERM ends with 0.
#[test]
fn full_stderr_does_not_end_service() {
    let Ok(full) = fs::File::options().write(true).open("/dev/full") else {
        return;
    };
    let dir = folder(&[("a.yaml", &cluster("a")), ("b.yaml", "nonsense")]);
    let mut serve = serve(dir.path());
    serve.env("RUST_LOG", "info,a=b=c");
    let server = Serve::with_stderr(&mut serve, Stdio::from(full));
    server.shows("/readyz", "200 OK");
    server.shows("/status.json", "b.yaml");
    let lost = "oxds_log_lines_lost_total 0";
    until(|| {
        if server.page("/metrics").contains(lost) {
            Err("no line is counted as lost".to_owned())
        } else {
            Ok(())
        }
    });
    server.signal("TERM");
    assert_eq!(server.end().0, Some(0));
}

/// Given a reader of stderr that is gone, then clients are served, and SIGTERM ends with 0.
#[test]
fn vanished_stderr_reader_does_not_end_service() {
    let dir = folder(&[("a.yaml", &cluster("a"))]);
    let mut server = Serve::of(&mut serve(dir.path()));
    server.close_stderr();
    fs::write(dir.path().join("a.yaml"), "nonsense").expect("written");
    server.shows("/status.json", "a.yaml");
    server.shows("/readyz", "200 OK");
    server.signal("TERM");
    assert_eq!(server.end().0, Some(0));
}

/// Given a pipe as stderr without a reader, when more is logged than it takes, then clients are served, and SIGTERM
/// ends with 0.
#[test]
fn unread_stderr_does_not_stop_service() {
    let dir = folder(&[("a.yaml", &cluster("a"))]);
    // Findings of names that are long: 300 of them are more than a pipe holds.
    for i in 0..300 {
        let file = dir.path().join(format!("{i}-{}.yaml", "x".repeat(200)));
        fs::write(file, format!("name: {}\n", "y".repeat(200))).expect("written");
    }
    let server = Serve::of(&mut serve(dir.path()));
    server.shows("/status.json", "299-xxx");
    server.shows("/readyz", "200 OK");
    server.signal("TERM");
    let (code, log) = server.end();
    assert_eq!(code, Some(0));
    assert!(
        log.len() >= 60_000,
        "the pipe was full: {} bytes",
        log.len()
    );
}

/// Given an edited, a new and a deleted cluster, then the log has one line for each change, with its name.
#[test]
fn log_counts_an_edited_resource_once() {
    let dir = folder(&[("a.yaml", &cluster("a")), ("b.yaml", &cluster("b"))]);
    let server = Serve::start(dir.path());
    server.shows("/readyz", "200 OK");
    let changed = cluster("a").replace("1s", "2s");
    fs::write(dir.path().join("a.yaml"), changed).expect("written");
    server.shows("/status.json", "\"revision\":2");
    fs::remove_file(dir.path().join("b.yaml")).expect("removed");
    server.shows("/status.json", "\"revision\":3");
    server.signal("TERM");
    let (_, log) = server.end();
    for expected in [
        "config updated added=2 changed=0 removed=0 names=[cds/a, cds/b] origin=dir: /",
        "config updated added=0 changed=1 removed=0 names=[cds/a] origin=dir: /",
        "config updated added=0 changed=0 removed=1 names=[cds/b] origin=dir: /",
    ] {
        assert!(log.contains(expected), "no {expected:?} in {log}");
    }
}

/// Given a file with twelve clusters, when eleven of them are removed, then it is a warning with the file.
#[test]
fn removal_of_many_resources_is_a_warning() {
    let all: Vec<_> = (0..12).map(|i| cluster(&format!("c{i}"))).collect();
    let dir = folder(&[("all.yaml", &all.join("---\n"))]);
    let server = Serve::start(dir.path());
    server.shows("/readyz", "200 OK");
    fs::write(dir.path().join("new"), &all[0]).expect("written");
    fs::rename(dir.path().join("new"), dir.path().join("all.yaml")).expect("renamed");
    server.shows("/status.json", "\"revision\":2");
    server.signal("TERM");
    let (_, log) = server.end();
    let warning = log
        .lines()
        .find(|line| line.contains("many resources removed at once"));
    let warning = warning.unwrap_or_else(|| panic!("no warning in {log}"));
    for part in [
        "WARN",
        "resource_type=cds",
        "removed=11",
        "of=12",
        "all.yaml",
    ] {
        assert!(warning.contains(part), "{warning}");
    }
}

/// Given a file name with a line break, a terminal escape and a command of GitHub's runner, and a field name with a
/// bidirectional mark, then the log has one line without any of them.
#[test]
fn log_has_no_forged_lines() {
    let name = "x\n::error::forged\u{1b}[2J.yaml";
    let text = cluster("a") + "\"lb_\u{202e}\u{9b}p\": 1\n";
    for format in ["text", "json"] {
        let dir = folder(&[(name, &text)]);
        let mut serve = serve(dir.path());
        let server = Serve::of(serve.args(["--log-format", format]));
        server.shows("/status.json", "forged");
        server.signal("TERM");
        let (_, log) = server.end();
        assert!(log.contains("forged"), "{log}");
        assert!(!log.lines().any(|line| line.starts_with("::")), "{log}");
        assert!(!log.contains(['\u{1b}', '\u{202e}', '\u{9b}']), "{log:?}");
    }
}

/// Given `--files` and a name that is too long for a file, then `status` shows the finding, and `validate --files` has
/// it.
#[test]
fn errors_of_files_are_findings() {
    let long = "x".repeat(230);
    let text = format!(
        "\"@type\": type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment\ncluster_name: {long}\n"
    );
    let dir = folder(&[("config/a.yaml", &text), ("out/eds/x", "")]);
    let (config, out) = (dir.path().join("config"), dir.path().join("out"));
    let server = Serve::of(serve(&config).arg("--files").arg(&out));
    server.shows("/status.json", "\"long-name\"");
    let arguments = [
        "validate".as_ref(),
        config.as_os_str(),
        "--files".as_ref(),
        out.as_os_str(),
    ];
    oxds(arguments).expect(0, &["too long for a file", "0 errors, 1 warning"]);
    drop(server);
    fs::remove_dir_all(&out).expect("removed");
    fs::create_dir(&out).expect("created");
    fs::write(out.join("eds"), "in the way").expect("written");
    oxds(arguments).expect(
        1,
        &[
            "cannot write the file: is not a folder",
            "1 error, 1 warning",
        ],
    );
}

/// Given `--strict` and a new dangling reference, then the last content stays served, and the error is shown.
#[test]
fn strict_serve_refuses_a_dangling_reference() {
    let eds =
        "type: EDS\neds_cluster_config: { eds_config: { ads: {}, resource_api_version: V3 } }\n";
    let dir = folder(&[("a.yaml", &cluster("a"))]);
    let server = Serve::of(serve(dir.path()).arg("--strict"));
    server.shows("/readyz", "200 OK");
    fs::write(dir.path().join("a.yaml"), cluster("a") + eds).expect("written");
    server.shows("/status.json", "\"dangling\"");
    let grpc = server.grpc.to_string();
    let got = oxds(["get", "cds", "a", "-o", "yaml", "--server", &grpc]);
    got.expect(0, &["name: a"]);
    assert!(!got.stdout.contains("EDS"), "{got:#?}");
}

/// Given a pipe in the place of a file, and one more file, then the other is served, the pipe is a finding, and SIGTERM
/// ends with 0.
#[test]
fn pipe_in_the_folder_does_not_stop_serve() {
    let dir = folder(&[("a.yaml", &cluster("a"))]);
    let made = Command::new("mkfifo")
        .arg(dir.path().join("pipe.yaml"))
        .status();
    assert!(made.expect("mkfifo").success());
    let server = Serve::start(dir.path());
    server.shows("/status.json", "is not a regular file");
    server.shows("/readyz", "200 OK");
    server.signal("TERM");
    let (code, log) = server.end();
    assert_eq!(code, Some(0), "{log}");
}
