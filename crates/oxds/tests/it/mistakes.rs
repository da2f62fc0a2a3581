//! What an operator is told who gives a command something that it cannot work with.

use std::fs;
use std::path::Path;

use oxds_testkit::certificates::Authority;

use crate::support::{Ran, cluster, command, folder};

/// A folder with one of everything that may be confused with another.
fn place() -> tempfile::TempDir {
    let dir = folder(&[
        ("config/a.yaml", &cluster("a")),
        ("text.yaml", "x: 1\n"),
        ("typo.yaml", "rules:\n- {identity: x, nodez: [a]}\n"),
        ("number.yaml", "rules:\n- {identity: x, nodes: 3}\n"),
        ("twice.yaml", "rules: []\nrules: []\n"),
        ("two.yaml", "rules: []\n---\nrules: []\n"),
        ("empty.yaml", ""),
        ("rules.yaml", "rules: []\n"),
        ("locked.key", "-----BEGIN ENCRYPTED PRIVATE KEY-----\n"),
        ("half.pem", "-----BEGIN CERTIFICATE-----\nMIIB\n"),
    ]);
    fs::write(dir.path().join("binary.yaml"), b"rules:\n- \xff").expect("written");
    let authority = Authority::new("test").expect("an authority");
    fs::write(dir.path().join("ca.pem"), authority.pem()).expect("written");
    for name in ["server", "other"] {
        let issued = authority.issue(&["localhost"]).expect("issued");
        issued.write(dir.path(), name).expect("written");
    }
    dir
}

/// Runs a line of words in the folder.
fn run(dir: &Path, line: &str) -> Ran {
    let mut command = command(line.split_whitespace());
    command.current_dir(dir).output().expect("it runs").into()
}

/// Each of these is refused before anything is begun, and told as `error: ` and this.
fn refused(prefix: &str, cases: &[(&str, &str)]) {
    let dir = place();
    for (line, said) in cases {
        let ran = run(dir.path(), &format!("{prefix} {line}"));
        assert_eq!((ran.code, &*ran.stdout), (Some(2), ""), "{line}: {ran:#?}");
        let told = format!("error: {said}");
        assert!(ran.stderr.starts_with(&told), "{line}: {}", ran.stderr);
    }
    let files = fs::read_dir(dir.path().join("config")).expect("a folder");
    assert_eq!(files.count(), 1, "nothing was written there");
}

#[test]
fn serve_refuses_addresses_with_the_form_that_it_wants() {
    let wants = "an IP address and a port: 127.0.0.1:18000, [::1]:18000, or 0.0.0.0:18000";
    for wrong in ["localhost:18000", ":18000", "127.0.0.1", "127.0.0.1:99999"] {
        let said = format!("invalid value '{wrong}' for '--grpc <ADDRESS>': {wants}");
        refused("serve config", &[(&format!("--grpc {wrong}"), &said)]);
    }
}

#[test]
fn serve_refuses_to_write_files_where_it_reads_them_or_cannot() {
    refused(
        "serve config --grpc 127.0.0.1:0 --http 127.0.0.1:0",
        &[
            (
                "--files config",
                "--files: config and config lie in each other",
            ),
            (
                "--files config/out",
                "--files: config/out and config lie in each other",
            ),
            ("--files .", "--files: . and config lie in each other"),
            (
                "--files text.yaml",
                "--files: cannot write into text.yaml: ",
            ),
            (
                "--files text.yaml/out",
                "--files: cannot write into text.yaml/out: ",
            ),
        ],
    );
}

#[test]
fn serve_refuses_limits_that_let_nobody_in() {
    refused(
        "serve config",
        &[
            (
                "--max-connections 0",
                "invalid value '0' for '--max-connections <COUNT>'",
            ),
            (
                "--request-rate -1",
                "invalid value '-1' for '--request-rate <COUNT>'",
            ),
            (
                "--nack-threshold 3",
                "--nack-threshold says when a change is taken back",
            ),
        ],
    );
}

#[test]
fn s78_serve_refuses_certificates_in_words() {
    refused(
        "serve config --grpc 127.0.0.1:0 --http 127.0.0.1:0",
        &[
            (
                "--tls-cert server.pem --tls-key other.key",
                "other.key: not the key of the certificate in server.pem",
            ),
            (
                "--tls-cert server.pem --tls-key server.pem",
                "server.pem: no private key found",
            ),
            (
                "--tls-cert server.pem --tls-key locked.key",
                "locked.key: the key is encrypted",
            ),
            (
                "--tls-cert half.pem --tls-key server.key",
                "half.pem: truncated PEM: missing `-----END CERTIFICATE-----`",
            ),
            (
                "--tls-cert text.yaml --tls-key server.key",
                "text.yaml: no certificate found",
            ),
            (
                "--tls-cert config --tls-key server.key",
                "config: Is a directory",
            ),
            (
                "--tls-cert server.pem --tls-key server.key --tls-client-ca server.key",
                "server.key: no certificate found",
            ),
        ],
    );
}

#[test]
fn s78_serve_refuses_rules_with_the_place_said_once() {
    let prefix = "serve config --grpc 127.0.0.1:0 --http 127.0.0.1:0 --tls-cert server.pem \
                  --tls-key server.key --tls-client-ca ca.pem --authorize";
    refused(
        prefix,
        &[
            (
                "typo.yaml",
                "typo.yaml:2:17: unknown field `nodez`, expected one of identity, nodes, groups, secrets, inspect\n",
            ),
            (
                "number.yaml",
                "number.yaml:2:24: expected a list (`- item`)\n",
            ),
            ("twice.yaml", "twice.yaml:2:1: duplicate key `rules`\n"),
            (
                "two.yaml",
                "two.yaml:3:1: unexpected second document: expected one document per file\n",
            ),
            ("empty.yaml", "empty.yaml:1:1: the file is empty\n"),
            ("binary.yaml", "binary.yaml:2:3: not UTF-8\n"),
            ("nowhere.yaml", "nowhere.yaml: No such file"),
            ("config", "config: Is a directory"),
        ],
    );
}

#[test]
fn those_who_ask_refuse_addresses_and_files_before_they_call_anybody() {
    for command in ["status", "wait --all", "get cds", "watch cds"] {
        refused(
            command,
            &[
                (
                    "--server localhost",
                    "invalid value 'localhost' for '--server <HOST:PORT>': a host and a port",
                ),
                (
                    "--server 127.0.0.1:1 --ca nowhere.pem",
                    "nowhere.pem: No such file",
                ),
                ("--bootstrap text.yaml", "text.yaml:1:1: "),
            ],
        );
    }
    refused(
        "csds",
        &[("localhost", "invalid value 'localhost' for '<HOST:PORT>'")],
    );
    refused(
        "watch cds --file",
        &[
            ("config", "--file: config is a folder"),
            ("ca.pem", "--file: ca.pem does not end in .pb, .json"),
        ],
    );
    refused(
        "wait",
        &[("", "the following required arguments were not provided")],
    );
}

#[test]
fn wait_shows_both_of_its_forms() {
    let ran = run(Path::new("."), "wait");
    ran.expect(
        2,
        &[
            "oxds wait [OPTIONS] <NAME>\n",
            "oxds wait [OPTIONS] --all\n",
        ],
    );
}

/// The tip is for the option that is in the way, and none is given that does not help.
#[test]
fn an_address_that_cannot_be_had_is_told_with_its_option() {
    let dir = place();
    let ran = run(
        dir.path(),
        "serve config --grpc 127.0.0.1:0 --http 192.0.2.1:80",
    );
    let said = "error: --http: cannot listen on 192.0.2.1:80: ";
    ran.expect(
        1,
        &[said, "tip: no interface of this machine has 192.0.2.1"],
    );
}
