//! A store that does not answer, answers wrongly, or is no etcd.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::process::Stdio;

use oxds_testkit::etcd::{CallFault, Permission, User, refusal};
use tonic::{Code, Status};

use super::{Store, key_of, prefix};
use crate::support::{cluster, command, folder, oxds};

/// given a commit that took effect / when etcd answers with an error / then the publish is reported once, and seq grows
/// by one.
#[test]
fn g11_commit_with_unknown_outcome_is_looked_for() {
    let unknown = [
        Status::new(Code::Unavailable, "etcdserver: request timed out"),
        Status::new(Code::Unavailable, "etcdserver: leader changed"),
        refusal::no_space(),
    ];
    for status in unknown {
        let store = Store::start();
        store
            .publish(folder(&[("a.yaml", &cluster("a"))]).path(), [])
            .expect(0, &[]);
        let before = store.etcd.activity().calls;
        let calls = before.iter().filter(|(method, _)| **method != "Status");
        let calls = calls.map(|(_, count)| count).sum::<usize>();
        // The reads are answered; the commit is held until its fault is set.
        store.etcd.hold_after(2);
        let dir = folder(&[("b.yaml", &cluster("b"))]);
        let writer = store.begin(&store.etcd, dir.path(), []);
        store.wait_for_calls(&store.etcd, calls + 3);
        store
            .etcd
            .break_call("Txn", CallFault::EffectAndError(status.clone()));
        store.etcd.release();
        let ran: crate::support::Ran = writer.wait_with_output().expect("ended").into();
        ran.expect(0, &["published 2"]);
        assert_eq!(store.seq(), 2, "{status:?}");
        assert_eq!(store.keys().names("main"), [key_of("a"), key_of("b")]);
    }
}

/// given a full etcd / when something is published / then it fails with the remedy.
#[test]
fn g26_full_etcd_is_reported_with_the_remedy() {
    let store = Store::start();
    let dir = folder(&[("a.yaml", &cluster("a"))]);
    store.publish(dir.path(), []).expect(0, &[]);
    store.etcd.set_full(true);
    let next = folder(&[("b.yaml", &cluster("b"))]);
    let texts = [
        "not published",
        "NOSPACE",
        "compact",
        "defragment",
        "disarm",
    ];
    store.publish(next.path(), []).expect(1, &texts);
    assert_eq!(store.seq(), 1);
    store.etcd.set_full(false);
    store.publish(next.path(), []).expect(0, &["published 2"]);
}

/// given an etcd whose database is larger than half of its quota / when something is published / then it is published
/// with a warning that names the remedy; nothing is said at half of the quota.
#[test]
fn g26_publish_warns_of_scarce_space() {
    const QUOTA: i64 = 16 << 20;
    let store = Store::start();
    let dir = folder(&[("a.yaml", &cluster("a"))]);
    store.etcd.set_sizes([QUOTA / 2, 1, QUOTA]);
    let ran = store.publish(dir.path(), []);
    ran.expect(0, &["published 1"]);
    assert!(!ran.stdout.contains("quota"), "{}", ran.stdout);
    store.etcd.set_sizes([QUOTA * 3 / 4, 1, QUOTA]);
    let warning = "larger than 70 % of its quota of 16 MiB, at which publishes fail: compact";
    let unchanged = store.publish(dir.path(), []);
    unchanged.expect(0, &["nothing to publish", "warning", warning]);
    let report = store.publish(dir.path(), ["--format", "json"]);
    report.expect(0, &["\"rule\": \"space\"", "70 %"]);
}

/// given an address without an etcd, or with another program / when something is published / then the error names it.
#[test]
fn g33_other_programs_are_refused() {
    let store = Store::start();
    let dir = folder(&[("a.yaml", &cluster("a"))]);
    store.etcd.set_without_ids(true);
    store
        .publish(dir.path(), [])
        .expect(1, &["not an etcd", "kine"]);
    store.etcd.set_without_ids(false);
    store.etcd.set_version("3.3.10");
    store
        .publish(dir.path(), [])
        .expect(1, &["etcd 3.3.10 is too old"]);
    let path = dir.path().to_str().expect("UTF-8");
    oxds(["publish", path]).expect(2, &["--etcd"]);
    oxds(["publish", path, "--etcd", "localhost:1"]).expect(2, &["expected http://"]);
}

/// given a store with users / when a writer has none, a wrong password, or too small a role / then the error says so.
#[test]
fn g31_writer_needs_its_role() {
    let store = Store::start();
    let range = |key: String| Permission {
        range_end: oxds_types::etcd::prefix_end(key.as_bytes()),
        key: key.into_bytes(),
        read: true,
        write: true,
    };
    let read_all = Permission {
        write: false,
        ..range(prefix().to_string())
    };
    let writer = User {
        password: "secret".to_owned(),
        permissions: vec![
            read_all,
            range(format!("{}l/main/", prefix())),
            Permission {
                range_end: Vec::new(),
                ..range(format!("{}format", prefix()))
            },
        ],
        is_root: false,
    };
    store.etcd.set_user("writer", writer);
    let dir = folder(&[
        ("a.yaml", &cluster("a")),
        ("password", "secret\n"),
        ("wrong", "?\n"),
    ]);
    let file = |name: &str| dir.path().join(name).to_str().expect("UTF-8").to_owned();
    store
        .publish(dir.path(), [])
        .expect(1, &["authentication required"]);
    let wrong = file("wrong");
    let wrong = ["--etcd-user", "writer", "--etcd-password-file", &wrong];
    store
        .publish(dir.path(), wrong)
        .expect(1, &["wrong name or password"]);
    let password = file("password");
    let right = ["--etcd-user", "writer", "--etcd-password-file", &password];
    store.publish(dir.path(), right).expect(0, &["published 1"]);
    // The role has one lane (G-6).
    let other = right.into_iter().chain(["--lane", "other"]);
    let next = folder(&[("b.yaml", &cluster("b"))]);
    store
        .publish(next.path(), other)
        .expect(1, &["permission denied", "l/other/"]);
}

/// given several members / when the first one is gone / then another one is used.
#[test]
fn g17_writer_uses_another_member() {
    let store = Store::start();
    let other = store.runtime.block_on(store.etcd.join()).expect("a port");
    let urls = format!("{},{}", store.etcd.url(), other.url());
    store.etcd.kill();
    let dir = folder(&[("a.yaml", &cluster("a"))]);
    let path = dir.path().to_str().expect("UTF-8");
    oxds(["publish", path, "--etcd", &urls]).expect(0, &["published 1"]);
    oxds(["get", "cds", "--etcd", &urls]).expect(0, &["a "]);
}

/// given a member that is not there / when something is published / then the command says at once that it tries again,
/// and why.
#[test]
fn g17_writer_says_that_it_tries_again() {
    let free = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = free.local_addr().expect("bound");
    drop(free);
    let dir = folder(&[("a.yaml", &cluster("a"))]);
    let etcd = format!("http://{address}");
    let mut command = command(["publish", &dir.path().to_string_lossy(), "--etcd", &etcd]);
    let mut writer = command.stderr(Stdio::piped()).spawn().expect("oxds");
    // The command would end with an error after 30 s, of which the first line has nothing of this.
    let stderr = writer.stderr.take().expect("piped");
    let first = BufReader::new(stderr).lines().next();
    let first = first.expect("a line").expect("text");
    let _ = writer.kill();
    let _ = writer.wait();
    assert!(
        first.contains("trying again for up to 30 s") && first.contains(&etcd),
        "{first}"
    );
}
