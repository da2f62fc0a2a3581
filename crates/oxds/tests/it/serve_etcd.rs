//! `oxds serve --etcd`: options, and programs at the address that cannot be used.

use std::path::Path;

use oxds_testkit::etcd::ScriptedEtcd;

use crate::support::{Serve, command, folder, oxds, until};

/// Free ports.
const PORTS: [&str; 4] = ["--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"];

/// given kine at the address, or an etcd that is too old / when a replica starts / then it ends with an error that
/// names it.
#[test]
fn g33_serve_ends_if_the_address_is_no_etcd() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let etcd = runtime.block_on(ScriptedEtcd::start()).expect("an etcd");
    let url = etcd.url();
    let serve = || oxds(["serve", "--etcd", &url].into_iter().chain(PORTS));
    etcd.set_version("3.3.27");
    let message =
        format!("error: --etcd: etcd {url}: etcd 3.3.27 is too old: expected 3.4 or later");
    serve().expect(1, &[&message]);
    etcd.set_without_ids(true);
    serve().expect(1, &["error: --etcd: ", "not an etcd", "kine"]);
}

/// given a configuration with a newer format / when a replica starts / then it ends with an error that has both
/// numbers.
#[test]
fn g4_serve_ends_if_the_format_is_newer() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let etcd = runtime.block_on(ScriptedEtcd::start()).expect("an etcd");
    etcd.put("/oxds/blue/format", "2");
    let url = etcd.url();
    let line = ["serve", "--etcd", &url, "--prefix", "/oxds/blue"];
    let ran = oxds(line.into_iter().chain(PORTS));
    ran.expect(
        1,
        &["error: --etcd: the format is 2, and this build reads format 1"],
    );
}

#[test]
fn serve_etcd_and_options_of_files_are_errors() {
    let dir = folder(&[("config/a.yaml", "")]);
    let config = dir.path().join("config");
    let config = config.to_str().expect("UTF-8");
    let etcd = ["serve", "--etcd", "http://127.0.0.1:1"];
    for (more, text) in [
        (&[config][..], "cannot be used with"),
        (&["--strict"], "cannot be used with"),
        (&["--allow-empty"], "cannot be used with"),
        (&["--quiet", "1s"], "cannot be used with"),
        (&["--ledger", "x"], "have no effect with --etcd"),
        (&["--replica", "a/b"], "--replica: "),
    ] {
        let ran = oxds(etcd.iter().chain(more).chain(&PORTS));
        ran.expect(2, &[text]);
    }
    for line in [
        &["serve"][..],
        &["serve", config, "--accept-restored"],
        &["serve", config, "--replica", "a"],
        &["serve", config, "--prefix", "/a"],
    ] {
        oxds(line).expect(2, &["error: "]);
    }
}

/// given two members / when the one that a replica uses dies / then the log names this member, and not the one that is
/// used next.
#[test]
fn g20_log_names_the_member_that_failed() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let first = runtime.block_on(ScriptedEtcd::start()).expect("an etcd");
    let second = runtime.block_on(first.join()).expect("a member");
    let urls = format!("{},{}", first.url(), second.url());
    let dir = folder(&[]);
    let log = dir.path().join("log");
    let file = std::fs::File::create(&log).expect("a file");
    let mut serve = command(["serve", "--etcd", &urls].into_iter().chain(PORTS));
    let serve = Serve::with_stderr(&mut serve, file.into());
    serve.shows("/status.json", "\"connected\":true");
    let page = serve.page("/status.json");
    let uses = |url: &str| page.contains(&format!("\"member\":\"{url}\""));
    let used = [&first, &second]
        .into_iter()
        .find(|member| uses(&member.url()));
    let used = used.expect("a member");
    used.kill();
    let line = failure_in(&log);
    let named = format!("member=\"{}\"", used.url());
    assert!(line.contains(&named), "{line}");
}

/// given an etcd that is away / when a replica without a state starts / then the log says that nothing is served.
#[test]
fn g24_log_says_that_nothing_is_served_yet() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let etcd = runtime.block_on(ScriptedEtcd::start()).expect("an etcd");
    let url = etcd.url();
    etcd.kill();
    let dir = folder(&[]);
    let log = dir.path().join("log");
    let file = std::fs::File::create(&log).expect("a file");
    let mut serve = command(["serve", "--etcd", &url].into_iter().chain(PORTS));
    let _serve = Serve::with_stderr(&mut serve, file.into());
    let line = failure_in(&log);
    assert!(
        line.contains("nothing is served until a member answers"),
        "{line}"
    );
}

/// Returns the line about the first failure of a connection, as soon as the log has it.
fn failure_in(log: &Path) -> String {
    until(|| {
        let log = std::fs::read_to_string(log).map_err(|error| error.to_string())?;
        let mut lines = log.lines();
        let line = lines.find(|line| line.contains("etcd connection failed"));
        line.map(str::to_owned).ok_or(log)
    })
}
