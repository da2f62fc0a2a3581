//! Printing of files: the printed text reads back equal, comments included.

use std::collections::BTreeMap;

use oxds_apicheck::generate::next_major;
use oxds_apicheck::hash::{Hashes, VERSION_OPTION};
use oxds_apicheck::model::Tree;
use oxds_apicheck::plan::Plan;
use oxds_apicheck::print::Printer;

use crate::generate::{golden, read};

fn tree(text: &str) -> Tree {
    Tree::parse([("a/v1/a.proto", text)]).unwrap()
}

fn printed(tree: &Tree) -> String {
    let plan = Plan::default();
    Printer::new(tree, &plan).file(tree.file("a/v1/a.proto").unwrap())
}

fn hash(tree: &Tree) -> String {
    let hashes = Hashes::of(tree, VERSION_OPTION);
    hashes.file("a/v1/a.proto").unwrap().local.to_string()
}

/// Counts the comment lines of a text whose strings contain no comment markers.
fn comments(text: &str) -> BTreeMap<String, usize> {
    let mut lines = BTreeMap::new();
    let mut in_block = false;
    for line in text.lines() {
        let start = match (in_block, line.find("/*"), line.find("//")) {
            (true, ..) => Some(0),
            (_, Some(block), None) => {
                in_block = true;
                Some(block)
            }
            (_, _, line) => line,
        };
        in_block &= !line.contains("*/");
        let markers = |letter: char| letter.is_whitespace() || "/*".contains(letter);
        let inside = |start: usize| line[start..].split("*/").next().unwrap_or_default();
        let comment = start.map(|start| inside(start).trim_matches(markers).to_owned());
        if let Some(comment) = comment.filter(|comment| !comment.is_empty()) {
            *lines.entry(comment).or_default() += 1;
        }
    }
    lines
}

const COMMENTED: &str = r#"// Licence.

// Before syntax.
syntax = "proto2"; // after syntax

// before package
package a.v1;

// before import
import "google/protobuf/descriptor.proto"; // after import

// before option
option java_package = "a"; // after option

// before extend
extend google.protobuf.FieldOptions {
  // before extension
  optional M option = 50000; // after extension
  // end of extend
}

/* block before M
 * of two lines */
message M { // after brace
  // before message option
  option deprecated = true;
  // before reserved
  reserved 100 to 200; // after reserved
  // before names
  reserved "old";
  // before extensions
  extensions 1000 to max;

  // detached one

  // detached two

  // before field
  optional string a = 1 [
    // in brackets
    deprecated = true, /* in brackets, too */
    (option) = {
      // in a value
      a: "x"
    }
  ]; // after field

  optional /* in a field */ int32 b = 2;

  // before oneof
  oneof o {
    // before member
    string c = 3; // after member

    // end of oneof
  }
  // after oneof

  // before group
  repeated group G = 4 { // after group's brace
    // before group field
    optional int32 x = 1;
    // end of group
  }

  // before inner
  enum E { // after enum's brace
    // before enum option
    option allow_alias = true;
    // before enum reserved
    reserved 7;
    // before value
    ZERO = 0; // after value
    // before alias
    NULL = 0 [deprecated = true /* in value's brackets */];

    // end of enum
  } // behind E

  // end of message
} // behind M

// before service
service S {
  // before service option
  option deprecated = true;
  // before method
  rpc Get(M) returns (M) { // after method's brace
    // before method option
    option idempotency_level = NO_SIDE_EFFECTS;
    // end of method
  }
  // before bare method
  rpc Bare(M) returns (M); // after bare method
  // end of service
}
// after service

// end of file
"#;

#[test]
fn all_comments_are_printed() {
    let tree = tree(COMMENTED);
    let text = printed(&tree);
    assert_eq!(comments(&text), comments(COMMENTED), "{text}");
    let again = self::tree(&text);
    assert_eq!(hash(&tree), hash(&again), "{text}");
    assert_eq!(printed(&again), text);
    // each comment keeps its position
    let before = |first: &str, second: &str| {
        let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part}: {text}"));
        assert!(at(first) < at(second), "{first} {second} {text}");
    };
    before("// in brackets", "optional string a");
    before("// end of oneof", "// after oneof");
    before("// before group\n", "repeated group G = 4 {");
    before("// end of group", "// before inner");
    before("// end of enum", "// end of message");
    before("// end of message", "// before service\n");
    before("// after service", "// end of file");
}

#[test]
fn all_comments_of_the_golden_tree_are_printed() {
    let golden = golden();
    let tree = read(&golden);
    let plan = Plan::default();
    let printer = Printer::new(&tree, &plan);
    let mut lost = Vec::new();
    for (path, text, _) in golden.iter().filter(|(.., target)| *target) {
        let printed = comments(&printer.file(tree.file(path).unwrap()));
        for (line, count) in comments(text) {
            let found = printed.get(&line).copied().unwrap_or(0);
            // `http://` in an option is not a comment.
            if found < count && !text.contains(&format!("\"http://{line}")) {
                lost.push(format!("{path}: {line}"));
            }
        }
    }
    assert!(
        lost.is_empty(),
        "{} lost\n{}",
        lost.len(),
        lost[..lost.len().min(40)].join("\n")
    );
}

#[test]
fn groups_are_printed_as_groups() {
    let tree = tree(
        r#"syntax = "proto2"; package a.v1;
        message M {
          repeated group Item = 1 [deprecated = true] { required int32 x = 1; message Inner {} }
          oneof o { group Choice = 2 { optional Choice again = 1; } }
          extensions 100 to 200;
        }
        extend M { optional group Ext = 100 { optional string s = 1; } }"#,
    );
    let text = printed(&tree);
    for group in [
        "repeated group Item = 1 [deprecated = true] {",
        "    group Choice = 2 {",
        "  optional group Ext = 100 {",
    ] {
        assert!(text.contains(group), "{group}: {text}");
    }
    assert!(!text.contains("message Item"), "{text}");
    let again = self::tree(&text);
    assert_eq!(hash(&tree), hash(&again), "{text}");
    assert_eq!(printed(&again), text);
}

#[test]
fn group_in_an_option_has_the_name_of_its_message() {
    let tree = tree(
        r#"syntax = "proto2"; package a.v1; import "google/protobuf/descriptor.proto";
        message R { optional R r = 1; repeated group Item = 2 { required int32 x = 1; } }
        extend google.protobuf.MessageOptions { optional R option = 50000; }
        message M { option (option) = { r { r <> } Item: [{ x: 1 }] }; }"#,
    );
    let again = self::tree(&printed(&tree));
    assert_eq!(hash(&tree), hash(&again));
}

#[test]
fn block_comment_at_the_end_is_printed_without_empty_start() {
    // found by fuzzing
    let text = printed(&tree(";/*\np|p\n0;*/"));
    assert_eq!(text, "syntax = \"proto2\";\n\n// p|p\n// 0;\n");
    assert_eq!(printed(&tree(&text)), text);
}

#[test]
fn v39_references_in_comments_follow_moved_elements() {
    let file = |path: &str, text: &str| (path.to_owned(), text.to_owned(), true);
    let files = [
        file(
            "shop/a/v3/a.proto",
            r#"syntax = "proto3"; package shop.a.v3;
            // See :ref:`B <shop_v3_api_msg_a.v3.B>`, <shop_v3_api_field_a.v3.B.kept>,
            // <shop_v3_api_field_a.v3.B.gone>, :ref:`Z<shop_v3_api_enum_value_a.v3.B.E.ZERO>` and
            // <shop_v3_api_file_shop/a/v3/a.proto>, <shop_v3_api_msg_stays.v3.C>, <other>, a < b.
            message A {
              // [#next-major-version: rename <shop_v3_api_enum_a.v3.B.E>.]
              B b = 1;
            }
            message B { string kept = 1; string gone = 2 [deprecated = true]; enum E { ZERO = 0; } }"#,
        ),
        file(
            "shop/stays/v3/c.proto",
            r#"syntax = "proto3"; package shop.stays.v3; message C {}"#,
        ),
    ];
    let next = next_major(&read(&files));
    assert_eq!(next.files.len(), 1);
    let text = &next.files[0].text;
    for line in [
        "// See :ref:`B <shop_v4alpha_api_msg_a.v4alpha.B>`, <shop_v4alpha_api_field_a.v4alpha.B.kept>,",
        // A reference to a removed element points to the previous major.
        "// <shop_v3_api_field_a.v3.B.gone>, :ref:`Z<shop_v4alpha_api_enum_value_a.v4alpha.B.E.ZERO>` and",
        "// <shop_v4alpha_api_file_shop/a/v4alpha/a.proto>, <shop_v3_api_msg_stays.v3.C>, <other>, a < b.",
        "// [#next-major-version: rename <shop_v4alpha_api_enum_a.v4alpha.B.E>.]",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}

#[test]
fn v39_comments_of_removed_elements_are_removed() {
    let files = [(
        "a/v1/a.proto".to_owned(),
        r#"syntax = "proto3"; package a.v1;
message M {
  // of gone
  string gone = 1 [
    // in gone
    deprecated = true
  ]; // behind gone
  // of kept
  string kept = 2;
  // at the end

}
// of Old
message Old {
  option deprecated = true;
  string a = 1;

  // in Old
}
"#
        .to_owned(),
        true,
    )];
    let next = next_major(&read(&files));
    let text = &next.files[0].text;
    for (comment, is_there) in [
        ("gone", false),
        ("Old", false),
        ("// of kept", true),
        ("// at the end", true),
    ] {
        let found = text
            .lines()
            .any(|line| line.contains("//") && line.contains(comment));
        assert_eq!(found, is_there, "{comment}: {text}");
    }
}

#[test]
fn options_of_extension_ranges_are_printed() {
    let text = "syntax = \"proto2\";\npackage a.v1;\nmessage M {\n  // Ranges.\n  \
                extensions 100 [verification = UNVERIFIED];\n  extensions 1 to 9, 300;\n  \
                extensions 200 to 299 [declaration = { number: 200, full_name: \".a.v1.x\", type: \"int32\" }];\n}\n\
                extend M { optional int32 x = 200; }\n";
    let tree = Tree::parse([("a/v1/a.proto", text)]).unwrap();
    let again = printed(&tree);
    for line in [
        "// Ranges.\n  extensions 100 [verification = UNVERIFIED];",
        "extensions 1 to 9, 300;",
        "full_name: \".a.v1.x\"",
    ] {
        assert!(again.contains(line), "{line} in {again}");
    }
    let reread = Tree::parse([("a/v1/a.proto", again.as_str())]).unwrap();
    assert_eq!(printed(&reread), again);
}
