//! Files that would end the process, or take its memory: each is an error, and the rest is served.

use std::process::Command;

use crate::support::{Serve, cluster, command, folder, oxds};

/// Returns a file of one message that is in this many others, each in an `Any`.
fn nested_any(levels: usize) -> Vec<u8> {
    let field = |number: u8, body: &[u8]| {
        let (mut bytes, mut length) = (vec![number << 3 | 2], body.len());
        while length >= 0x80 {
            bytes.push(length as u8 | 0x80);
            length >>= 7;
        }
        bytes.push(length as u8);
        [&bytes, body].concat()
    };
    let any = |message: &str, value: &[u8]| {
        let url = format!("type.googleapis.com/{message}");
        [field(1, url.as_bytes()), field(2, value)].concat()
    };
    let cluster = any("envoy.config.cluster.v3.Cluster", &field(1, b"deep"));
    (0..levels).fold(cluster, |inner, _| any("google.protobuf.Any", &inner))
}

/// Given a file of 6,000 nested messages beside a valid one, then `validate` reports it, and `serve` serves the other:
/// over gRPC and REST.
#[test]
fn nested_messages_end_no_process() {
    let dir = folder(&[("a.yaml", &cluster("a"))]);
    std::fs::write(dir.path().join("deep.pb"), nested_any(6000)).expect("a file");
    let path = dir.path().as_os_str();
    oxds(["validate".as_ref(), path]).expect(
        1,
        &["deep.pb: error: messages are nested more than 100 levels deep"],
    );
    let server = Serve::start(dir.path());
    server.shows("/status.json", "100 levels deep");
    let polled = server.post("/v3/discovery:clusters", "", "{}");
    assert!(polled.contains("\"name\":\"a\""), "{polled}");
}

/// Given 700 bytes of YAML whose aliases expand to a billion nodes, then `validate` refuses it, with 400 MB for data.
#[test]
fn alias_bomb_is_refused_in_little_memory() {
    let mut bomb =
        "'@type': type.googleapis.com/google.protobuf.Struct\nvalue:\n  a0: &a0 [x, x]\n"
            .to_owned();
    for level in 1..30 {
        bomb += &format!("  a{level}: &a{level} [*a{0}, *a{0}]\n", level - 1);
    }
    let dir = folder(&[("bomb.yaml", &bomb)]);
    let validate = command(["validate"]);
    let limited = Command::new("sh")
        .args(["-c", "ulimit -d 400000; exec \"$0\" validate \"$1\""])
        .arg(validate.get_program())
        .arg(dir.path())
        .output()
        .expect("a shell");
    let text = String::from_utf8_lossy(&limited.stdout);
    assert_eq!(limited.status.code(), Some(1), "{limited:?}");
    assert!(
        text.contains("bomb.yaml:") && text.contains("aliases expand to more than 2"),
        "{text}"
    );
}
