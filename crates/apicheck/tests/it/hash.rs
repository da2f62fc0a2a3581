//! The semantic hash: relevant and irrelevant edits, and the published vectors.

use std::fs;
use std::path::Path;

use oxds_apicheck::hash::{FileHash, Hashes, VERSION_OPTION, root, roots};
use oxds_apicheck::model::Tree;
use proptest::prelude::*;

use crate::support::tree;

const PATH: &str = "shop/v1/order.proto";

const IMPORTED: (&str, &str) = (
    "shop/type/v1/money.proto",
    "syntax = \"proto3\"; package shop.type.v1; message Money { int64 cents = 1; }",
);

/// File with every sort of element.
const FILE: &str = r#"syntax = "proto3";
package shop.v1;

import "buf/validate/validate.proto";
import "google/api/annotations.proto";
import "oxds/annotations/version.proto";
import "shop/type/v1/money.proto";
import "udpa/annotations/migrate.proto";
import "udpa/annotations/status.proto";
import "validate/validate.proto";

option go_package = "example.com/shop";
option (oxds.annotations.version) = "1.0.0";
option (udpa.annotations.file_status).package_version_status = ACTIVE;

message Order {
  reserved 10 to 12, 20;
  reserved "old";

  oneof way {
    option (validate.required) = true;
    string post = 1;
    string wire = 2;
  }

  type.v1.Money price = 3;
  repeated int32 sizes = 4;
  map<string, Order> parts = 5;
  string name = 6 [(validate.rules).string = {min_len: 1, max_len: 8}];
  bool gift = 7 [deprecated = true];
  State state = 8 [(buf.validate.field).enum.defined_only = true];
  optional uint32 count = 9;

  enum State {
    NEW = 0;
    SENT = 1;
  }
}

service Orders {
  rpc Get(Order) returns (stream Order) {
    option (google.api.http).get = "/v1/orders";
  }
}
"#;

fn parsed(text: &str) -> Tree {
    tree(&[(PATH, text), IMPORTED])
}

fn hash(text: &str) -> FileHash {
    let tree = parsed(text);
    Hashes::of(&tree, VERSION_OPTION)
        .file(PATH)
        .unwrap()
        .clone()
}

/// Returns `FILE` with one replaced part.
fn with(old: &str, new: &str) -> String {
    assert!(FILE.contains(old), "{old}");
    FILE.replacen(old, new, 1)
}

#[test]
fn v24_irrelevant_edits_keep_the_hash() {
    let base = hash(FILE);
    let same = [
        ("comment", with("message Order {", "// An order.\nmessage Order { /* … */")),
        ("format", FILE.replace("\n  ", " ")),
        ("language option", with("example.com/shop", "example.com/other")),
        ("another language", with("option go_package", "option java_package = \"x\";\noption go_package")),
        ("the version", with("\"1.0.0\"", "\"1.1.0\"")),
        ("an import", with("import \"buf", "import \"google/protobuf/any.proto\";\nimport \"buf")),
        ("qualified names", with("type.v1.Money price", ".shop.type.v1.Money price")),
        ("the given json_name", with("int32 sizes = 4", "int32 sizes = 4 [json_name = \"sizes\"]")),
        ("reserved split", with("10 to 12, 20", "20, 10, 11 to 12")),
        ("options taken apart", with("{min_len: 1, max_len: 8}", "{max_len: 8 min_len: 1}")),
        ("a false option", with("uint32 count = 9", "uint32 count = 9 [deprecated = false]")),
        (
            "order",
            with("  string name = 6 [(validate.rules).string = {min_len: 1, max_len: 8}];\n", "")
                .replacen("message Order {", "message Order {\n  string name = 6 [(validate.rules).string.max_len = 8, (validate.rules).string.min_len = 1];", 1),
        ),
    ];
    for (what, text) in same {
        assert_eq!(hash(&text).local, base.local, "{what}");
        assert_eq!(hash(&text).closure, base.closure, "{what}");
    }
}

/// Edits of the file, messages and fields that change the hash.
fn message_edits() -> Vec<(&'static str, String)> {
    vec![
        (
            "package",
            FILE.replacen("package shop.v1;", "package shop.v2;", 1)
                .replace("type.v1.Money", ".shop.type.v1.Money"),
        ),
        (
            "syntax: packed, presence, open enums",
            with("syntax = \"proto3\"", "syntax = \"proto2\"")
                .replace("  bool gift", "  optional bool gift")
                .replace("  string name", "  optional string name")
                .replace("  State state", "  optional State state")
                .replace("  type.v1", "  optional type.v1"),
        ),
        (
            "message name",
            FILE.replace("Order ", "Purchase ")
                .replace("Order>", "Purchase>")
                .replace("(Order)", "(Purchase)")
                .replace("stream Order", "stream Purchase"),
        ),
        ("field number", with("= 7 [dep", "= 17 [dep")),
        ("field name", with("bool gift", "bool present")),
        (
            "json_name",
            with("count = 9", "count = 9 [json_name = \"n\"]"),
        ),
        ("field type", with("int32 sizes", "sint32 sizes")),
        ("message type", with("type.v1.Money price", "Order price")),
        ("label", with("repeated int32", "int32")),
        ("presence", with("optional uint32", "uint32")),
        ("packed", with("sizes = 4", "sizes = 4 [packed = false]")),
        (
            "oneof membership",
            FILE.replacen("    string wire = 2;\n  }", "  }\n  string wire = 2;", 1),
        ),
        ("oneof name", with("oneof way", "oneof route")),
        (
            "oneof required",
            with("    option (validate.required) = true;\n", ""),
        ),
        (
            "map value",
            with("map<string, Order>", "map<string, string>"),
        ),
        ("map key", with("map<string, Order>", "map<int32, Order>")),
    ]
}

/// Edits of enums, reservations, options and services that change the hash.
fn other_edits() -> Vec<(&'static str, String)> {
    vec![
        ("enum value name", with("SENT = 1", "GONE = 1")),
        ("enum value number", with("SENT = 1", "SENT = 2")),
        ("enum value added", with("SENT = 1;", "SENT = 1; LOST = 2;")),
        (
            "enum alias",
            with(
                "SENT = 1;",
                "option allow_alias = true; SENT = 1; GONE = 1;",
            ),
        ),
        ("reserved number", with("10 to 12, 20", "10 to 12, 21")),
        ("reserved name", with("\"old\"", "\"older\"")),
        ("deprecated", with(" [deprecated = true]", "")),
        ("PGV", with("min_len: 1", "min_len: 2")),
        (
            "protovalidate",
            with("defined_only = true", "defined_only = false"),
        ),
        ("status", with("= ACTIVE", "= FROZEN")),
        (
            "migrate annotation",
            with(
                "count = 9",
                "count = 9 [(udpa.annotations.field_migrate).rename = \"n\"]",
            ),
        ),
        ("method input", with("Get(Order)", "Get(type.v1.Money)")),
        (
            "method output",
            with("(stream Order)", "(stream type.v1.Money)"),
        ),
        ("streaming", with("(stream Order)", "(Order)")),
        ("http rule", with("/v1/orders", "/v1/purchases")),
        (
            "idempotency",
            with(
                "option (google",
                "option idempotency_level = IDEMPOTENT; option (google",
            ),
        ),
        ("method name", with("rpc Get", "rpc Fetch")),
        ("service name", with("service Orders", "service Shop")),
        (
            "field added",
            with(
                "optional uint32 count = 9;",
                "optional uint32 count = 9; string note = 30;",
            ),
        ),
    ]
}

#[test]
fn v23_every_relevant_edit_changes_the_hash() {
    let edits = message_edits().into_iter().chain(other_edits());
    let base = hash(FILE);
    let mut seen = vec![base.local];
    for (what, text) in edits {
        let now = hash(&text);
        assert!(!seen.contains(&now.local), "{what}");
        assert_ne!(now.closure, base.closure, "{what}");
        seen.push(now.local);
    }
}

#[test]
fn v23_proto2_defaults_and_extension_ranges_are_hashed() {
    let hash = |body: &str| {
        let text = format!("syntax = \"proto2\"; package shop.v1; message Order {{ {body} }}");
        hash(&text).local
    };
    let base = hash("optional int32 a = 1 [default = 1];");
    assert_ne!(base, hash("optional int32 a = 1 [default = 2];"));
    assert_ne!(base, hash("optional int32 a = 1;"));
    assert_ne!(base, hash("required int32 a = 1 [default = 1];"));
    assert_ne!(
        base,
        hash("optional int32 a = 1 [default = 1]; extensions 100 to 199;")
    );
}

#[test]
fn v25_closure_follows_used_types() {
    let hashes = |money: &str| {
        let imported = (IMPORTED.0, money);
        let tree = tree(&[(PATH, FILE), imported]);
        Hashes::of(&tree, VERSION_OPTION)
            .file(PATH)
            .unwrap()
            .clone()
    };
    let base = hashes(IMPORTED.1);
    let changed = hashes(&IMPORTED.1.replace("cents = 1", "cents = 2"));
    assert_eq!(base.local, changed.local);
    assert_ne!(base.closure, changed.closure);
}

#[test]
fn v25_package_hash_is_independent_of_the_file_split() {
    let whole = "syntax = \"proto3\"; package a.v1; message A { B b = 1; } message B {}";
    let parts = [
        (
            "a/v1/a.proto",
            "syntax = \"proto3\"; package a.v1; import \"a/v1/b.proto\"; message A { B b = 1; }",
        ),
        (
            "a/v1/b.proto",
            "syntax = \"proto3\"; package a.v1; message B {}",
        ),
    ];
    let package = |tree: &Tree| Hashes::of(tree, VERSION_OPTION).packages()["a.v1"];
    assert_eq!(
        package(&tree(&[("a/v1/all.proto", whole)])),
        package(&tree(&parts))
    );
}

#[test]
fn v25_root_hash_covers_reachable_types() {
    let text = |note: &str| {
        format!(
            "syntax = \"proto3\"; package shop.v1; import \"shop/type/v1/money.proto\";
             message Order {{ map<string, type.v1.Money> prices = 1; Order next = 2; }}
             message Other {{ {note} }}"
        )
    };
    let hash = |text: &str, money: &str| {
        let tree = tree(&[(PATH, text), (IMPORTED.0, money)]);
        root(&tree, tree.message("shop.v1.Order").unwrap())
    };
    let base = hash(&text(""), IMPORTED.1);
    assert_eq!(base, hash(&text("int32 a = 1;"), IMPORTED.1));
    assert_ne!(base, hash(&text(""), &IMPORTED.1.replace("int64", "int32")));
    assert!(roots(&parsed(FILE)).is_empty());
}

/// Vectors of `docs/api-hash.md`: the local and closure hash of each file.
#[test]
fn v25_published_vectors_hold() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/api-hash.md");
    let page = fs::read_to_string(page).unwrap();
    let (mut files, mut published) = (Vec::new(), Vec::new());
    for block in page.split("```").skip(1).step_by(2) {
        let (kind, body) = block.split_once('\n').unwrap();
        if let Some(path) = kind.strip_prefix("proto ") {
            files.push((path.to_owned(), body.to_owned()));
        } else if kind == "hashes" {
            published.extend(body.lines().map(str::to_owned));
        }
    }
    let tree = tree(&files);
    let hashes = Hashes::of(&tree, VERSION_OPTION);
    let mut computed = Vec::new();
    for (path, _) in &files {
        let file = hashes.file(path).unwrap();
        computed.push(format!("local   {} {path}", file.local));
        computed.push(format!("closure {} {path}", file.closure));
    }
    for (package, hash) in hashes
        .packages()
        .iter()
        .filter(|(name, _)| name.starts_with("vector"))
    {
        computed.push(format!("package {hash} {package}"));
    }
    let name = "vector.v1.Order";
    computed.push(format!(
        "root    {} {name}",
        root(&tree, tree.message(name).unwrap())
    ));
    assert!(files.len() >= 2);
    assert_eq!(published, computed, "\n{}", computed.join("\n"));
}

/// Strategy for the fields of a random message: name and type.
fn fields() -> impl Strategy<Value = Vec<(String, &'static str)>> {
    let kinds = prop::sample::select(vec![
        "int32",
        "string",
        "repeated bool",
        "Thing",
        "map<string, Thing>",
    ]);
    prop::collection::vec(kinds, 1..8).prop_map(|kinds| {
        let named = |(index, kind)| (format!("field_{index}"), kind);
        kinds.into_iter().enumerate().map(named).collect()
    })
}

fn message(fields: &[(usize, &(String, &str))], comments: bool) -> String {
    let mut text = "syntax = \"proto3\"; package shop.v1; message Thing {".to_owned();
    for (number, (name, kind)) in fields {
        if comments {
            text.push_str("\n// Comment.\n");
        }
        text.push_str(&format!("  {kind} {name} = {};", number + 1));
    }
    text + "}"
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn v25_order_and_comments_never_change_the_hash(fields in fields(), turn in 0usize..8) {
        let numbered: Vec<_> = fields.iter().enumerate().collect();
        let mut turned = numbered.clone();
        turned.rotate_left(turn % fields.len());
        prop_assert_eq!(hash(&message(&numbered, false)), hash(&message(&turned, true)));
    }

    #[test]
    fn v25_one_edit_always_changes_the_hash(fields in fields(), at in 0usize..8, edit in 0..4) {
        let numbered: Vec<_> = fields.iter().enumerate().collect();
        let at = at % fields.len();
        let mut changed = fields.clone();
        match edit {
            0 => changed[at].0.push('x'),
            1 => changed[at].1 = "double",
            2 => { changed.remove(at); }
            _ => changed.push(("more".to_owned(), "bytes")),
        }
        let edited: Vec<_> = changed.iter().enumerate().collect();
        let (before, after) = (message(&numbered, false), message(&edited, false));
        prop_assert_ne!(hash(&before).local, hash(&after).local);
    }
}
