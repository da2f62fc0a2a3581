//! Tests of wrong arguments and malformed inputs: each error names the option or file, and its place.

use std::fs;
use std::path::Path;

use oxds_testkit::certificates::Authority;

use crate::support::{Ran, cluster, command, folder};

/// Creates a folder with files that are wrong or may be given to the wrong option.
fn input_folder() -> tempfile::TempDir {
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

/// Runs a command line in the folder.
fn run(dir: &Path, line: &str) -> Ran {
    let mut command = command(line.split_whitespace());
    command.current_dir(dir).output().expect("it runs").into()
}

/// Asserts that each command line is a usage error (2) whose message begins with this text, and that it starts nothing.
fn assert_usage_errors(prefix: &str, cases: &[(&str, &str)]) {
    let dir = input_folder();
    for (line, message) in cases {
        let ran = run(dir.path(), &format!("{prefix} {line}"));
        assert_eq!((ran.code, &*ran.stdout), (Some(2), ""), "{line}: {ran:#?}");
        let expected = format!("error: {message}");
        assert!(ran.stderr.starts_with(&expected), "{line}: {}", ran.stderr);
    }
    let files = fs::read_dir(dir.path().join("config")).expect("a folder");
    assert_eq!(files.count(), 1, "nothing was written there");
}

#[test]
fn serve_malformed_address_error_has_the_expected_form() {
    let expected =
        "expected an IP address and a port: 127.0.0.1:18000, [::1]:18000, or 0.0.0.0:18000";
    for wrong in ["localhost:18000", ":18000", "127.0.0.1", "127.0.0.1:99999"] {
        let message = format!("invalid value '{wrong}' for '--grpc <ADDRESS>': {expected}");
        assert_usage_errors("serve config", &[(&format!("--grpc {wrong}"), &message)]);
    }
}

#[test]
fn serve_files_overlapping_or_unwritable_is_an_error() {
    assert_usage_errors(
        "serve config --grpc 127.0.0.1:0 --http 127.0.0.1:0",
        &[
            (
                "--files config",
                "--files: config overlaps the served folder config",
            ),
            (
                "--files config/out",
                "--files: config/out overlaps the served folder config",
            ),
            ("--files .", "--files: . overlaps the served folder config"),
            ("--files text.yaml", "--files: cannot write to text.yaml: "),
            (
                "--files text.yaml/out",
                "--files: cannot write to text.yaml/out: ",
            ),
        ],
    );
}

#[test]
fn serve_zero_or_negative_limits_are_errors() {
    assert_usage_errors(
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
                "--nack-threshold has no effect without --on-nack rollback",
            ),
        ],
    );
}

#[test]
fn s78_serve_unusable_certificate_is_an_error() {
    assert_usage_errors(
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
                "locked.key: the private key is encrypted: expected an unencrypted key",
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
fn s78_serve_malformed_rules_error_has_line_and_column() {
    let prefix = "serve config --grpc 127.0.0.1:0 --http 127.0.0.1:0 --tls-cert server.pem \
                  --tls-key server.key --tls-client-ca ca.pem --authorize";
    assert_usage_errors(
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
fn client_commands_check_arguments_before_connecting() {
    for command in ["status", "wait --all", "get cds", "watch cds"] {
        assert_usage_errors(
            command,
            &[
                (
                    "--server localhost",
                    "invalid value 'localhost' for '--server <HOST:PORT>': expected a host and a port",
                ),
                (
                    "--server 127.0.0.1:1 --ca nowhere.pem",
                    "nowhere.pem: No such file",
                ),
                ("--bootstrap text.yaml", "text.yaml:1:1: "),
            ],
        );
    }
    assert_usage_errors(
        "csds",
        &[("localhost", "invalid value 'localhost' for '<HOST:PORT>'")],
    );
    assert_usage_errors(
        "watch cds --file",
        &[
            ("config", "--file: config is a folder"),
            (
                "ca.pem",
                "--file: unknown file type ca.pem: expected .pb, .json",
            ),
        ],
    );
    assert_usage_errors(
        "wait",
        &[("", "the following required arguments were not provided")],
    );
}

#[test]
fn wait_usage_has_both_forms() {
    let ran = run(Path::new("."), "wait");
    ran.expect(
        2,
        &[
            "oxds wait [OPTIONS] <NAME>\n",
            "oxds wait [OPTIONS] --all\n",
            "oxds wait [OPTIONS] --dir <DIR>\n",
        ],
    );
}

/// The error names the option, and the tip fits the cause.
#[test]
fn serve_unavailable_address_error_names_its_option() {
    let dir = input_folder();
    let ran = run(
        dir.path(),
        "serve config --grpc 127.0.0.1:0 --http 192.0.2.1:80",
    );
    let error = "error: --http: cannot listen on 192.0.2.1:80: ";
    let tip = "tip: no interface of this machine has the address 192.0.2.1";
    ran.expect(1, &[error, tip]);
}
