//! Limits: input that is nested too deep, too long or truncated is an error, without overflow or
//! hang.

use std::time::{Duration, Instant};

use oxds_apicheck::input::tree_of_set;
use oxds_apicheck::model::Tree;

fn errors(text: &str) -> Vec<String> {
    match Tree::parse([("a.proto", text)]) {
        Ok(_) => Vec::new(),
        Err(errors) => errors.iter().map(ToString::to_string).collect(),
    }
}

/// Option whose message type contains itself.
const RECURSIVE: &str = r#"syntax = "proto3"; import "google/protobuf/descriptor.proto";
    message R { R r = 1; repeated R rs = 2; int32 i = 3; }
    extend google.protobuf.FileOptions { R deep = 50000; }
"#;

#[test]
fn message_nesting_has_a_limit() {
    let nested = |depth: usize| {
        format!(
            "syntax = \"proto3\";{}{}",
            "message A {".repeat(depth),
            "}".repeat(depth)
        )
    };
    assert!(errors(&nested(31)).is_empty());
    for depth in [32, 100_000] {
        let found = errors(&nested(depth));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("nested"), "{found:?}");
    }
    let groups = "optional group G = 1 {".repeat(100_000);
    assert!(!errors(&format!("message A {{ {groups}")).is_empty());
}

#[test]
fn option_value_nesting_has_a_limit() {
    let braces = |depth: usize| {
        format!(
            "{RECURSIVE} option (deep) = {{ {}i: 1{} }};",
            "r {".repeat(depth),
            "}".repeat(depth)
        )
    };
    assert_eq!(errors(&braces(32)), Vec::<String>::new());
    let limit = ["a.proto:4:2: error: option (deep): value has more than 32 levels"];
    for depth in [33, 200_000] {
        assert_eq!(errors(&braces(depth)), limit);
    }
    let angles = format!(
        "{RECURSIVE} option (deep) = {{ {} }};",
        "rs: [<".repeat(100_000)
    );
    assert_eq!(errors(&angles), limit);
    let name = format!("{RECURSIVE} option (deep){}.i = 1;", ".r".repeat(100_000));
    assert_eq!(
        errors(&name),
        ["a.proto:4:2: error: option (deep).r.r…: name has more than 32 parts"]
    );
}

#[test]
fn unclosed_brackets_are_an_error() {
    for open in [
        "{",
        "[",
        "(",
        "<",
        "message",
        "option (",
        "/*",
        "\"",
        "oneof a {",
    ] {
        for start in [
            "",
            "edition = \"2023\"; message A { a b = 1 ",
            "message A { optional a b = 1 ",
        ] {
            let text = format!("{start}{}", open.repeat(20_000));
            assert!(!errors(&text).is_empty(), "{start}{open}");
        }
    }
}

#[test]
fn package_with_over_100_parts_is_an_error() {
    let package = |parts: usize| {
        format!(
            "syntax = \"proto3\"; package {};",
            vec!["a"; parts].join(".")
        )
    };
    assert!(errors(&package(100)).is_empty());
    assert_eq!(
        errors(&package(200_000)),
        ["a.proto:1:20: error: the package has more than 100 parts"]
    );
}

#[test]
fn many_errors_or_fields_take_linear_time() {
    let started = Instant::now();
    assert!(!errors(&"message 1\n".repeat(20_000)).is_empty());
    let each = |format: &dyn Fn(usize) -> String| (1..10_000).map(format).collect::<String>();
    let maps = each(&|index| format!("map<int32, int32> m{index} = {index};"));
    assert!(errors(&format!("syntax = \"proto3\"; message A {{ {maps} }}")).is_empty());
    let optional = each(&|index| format!("optional int32 o{index} = {index};"));
    assert!(errors(&format!("syntax = \"proto3\"; message A {{ {optional} }}")).is_empty());
    // Seconds in a debug build on a busy machine; a quadratic step would take minutes.
    assert!(
        started.elapsed() < Duration::from_secs(30),
        "{:?}",
        started.elapsed()
    );
}

/// Encodes a length-delimited field of `FileDescriptorSet`.
fn delimited(number: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![number << 3 | 2];
    let mut length = content.len();
    while length >= 0x80 {
        bytes.push(length as u8 | 0x80);
        length >>= 7;
    }
    bytes.push(length as u8);
    bytes.extend(content);
    bytes
}

#[test]
fn truncated_or_deep_descriptor_set_is_an_error() {
    // given nested messages
    let set = |depth: usize| {
        let mut message = delimited(1, b"M");
        for _ in 1..depth {
            message = [delimited(1, b"M"), delimited(3, &message)].concat();
        }
        let file = [delimited(1, b"a.proto"), delimited(4, &message)].concat();
        delimited(1, &file)
    };
    let tree = tree_of_set(&set(90)).unwrap();
    assert_eq!(tree.messages.len(), 90);
    for depth in [200, 20_000] {
        assert!(tree_of_set(&set(depth)).is_err());
    }
    // when the set is truncated anywhere, then loading fails
    let whole = set(20);
    for end in 0..whole.len() {
        assert!(tree_of_set(&whole[..end]).is_err(), "{end}");
    }
}
