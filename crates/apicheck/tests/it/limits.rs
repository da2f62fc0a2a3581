//! What is nested too deep, too long or cut short is refused in words: no stack ends, nothing hangs.

use std::time::{Duration, Instant};

use oxds_apicheck::input::tree_of_set;
use oxds_apicheck::model::Tree;

fn mistakes(text: &str) -> Vec<String> {
    match Tree::parse([("a.proto", text)]) {
        Ok(_) => Vec::new(),
        Err(errors) => errors.iter().map(ToString::to_string).collect(),
    }
}

/// An option that holds itself.
const RECURSIVE: &str = r#"syntax = "proto3"; import "google/protobuf/descriptor.proto";
    message R { R r = 1; repeated R rs = 2; int32 i = 3; }
    extend google.protobuf.FileOptions { R deep = 50000; }
"#;

#[test]
fn messages_nest_up_to_a_limit() {
    let nested = |depth: usize| {
        format!(
            "syntax = \"proto3\";{}{}",
            "message A {".repeat(depth),
            "}".repeat(depth)
        )
    };
    assert!(mistakes(&nested(31)).is_empty());
    for depth in [32, 100_000] {
        let mistakes = mistakes(&nested(depth));
        assert_eq!(mistakes.len(), 1, "{mistakes:?}");
        assert!(mistakes[0].contains("nested"), "{mistakes:?}");
    }
    let groups = "optional group G = 1 {".repeat(100_000);
    assert!(!mistakes(&format!("message A {{ {groups}")).is_empty());
}

#[test]
fn values_of_options_nest_up_to_a_limit() {
    let braces = |depth: usize| {
        format!(
            "{RECURSIVE} option (deep) = {{ {}i: 1{} }};",
            "r {".repeat(depth),
            "}".repeat(depth)
        )
    };
    assert_eq!(mistakes(&braces(32)), Vec::<String>::new());
    let refused = ["a.proto:4:2: error: option (deep): has more than 32 levels"];
    for depth in [33, 200_000] {
        assert_eq!(mistakes(&braces(depth)), refused);
    }
    let angles = format!(
        "{RECURSIVE} option (deep) = {{ {} }};",
        "rs: [<".repeat(100_000)
    );
    assert_eq!(mistakes(&angles), refused);
    let name = format!("{RECURSIVE} option (deep){}.i = 1;", ".r".repeat(100_000));
    assert_eq!(
        mistakes(&name),
        ["a.proto:4:2: error: option (deep).r.r…: its name has more than 32 parts"]
    );
}

#[test]
fn brackets_that_never_end_are_a_mistake() {
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
            assert!(!mistakes(&text).is_empty(), "{start}{open}");
        }
    }
}

#[test]
fn a_package_has_a_hundred_parts_at_most() {
    let package = |parts: usize| {
        format!(
            "syntax = \"proto3\"; package {};",
            vec!["a"; parts].join(".")
        )
    };
    assert!(mistakes(&package(100)).is_empty());
    assert_eq!(
        mistakes(&package(200_000)),
        ["a.proto:1:20: error: the package has more than 100 parts"]
    );
}

#[test]
fn a_file_of_many_mistakes_or_fields_takes_no_time_to_speak_of() {
    let started = Instant::now();
    assert!(!mistakes(&"message 1\n".repeat(20_000)).is_empty());
    let each = |format: &dyn Fn(usize) -> String| (1..10_000).map(format).collect::<String>();
    let maps = each(&|index| format!("map<int32, int32> m{index} = {index};"));
    assert!(mistakes(&format!("syntax = \"proto3\"; message A {{ {maps} }}")).is_empty());
    let optional = each(&|index| format!("optional int32 o{index} = {index};"));
    assert!(mistakes(&format!("syntax = \"proto3\"; message A {{ {optional} }}")).is_empty());
    // Seconds in a debug build on a busy machine; with a quadratic step, minutes.
    assert!(
        started.elapsed() < Duration::from_secs(30),
        "{:?}",
        started.elapsed()
    );
}

/// A message of `FileDescriptorSet`: field `number`, its content in front of it.
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
fn a_set_that_is_cut_short_or_too_deep_is_refused() {
    // given messages in each other
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
    // when any number of its bytes is missing, then it is refused or, cut between two fields, read
    let whole = set(20);
    for end in 0..whole.len() {
        assert!(tree_of_set(&whole[..end]).is_err(), "{end}");
    }
}
