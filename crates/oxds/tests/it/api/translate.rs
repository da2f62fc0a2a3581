//! `oxds api translate` and `oxds api stubs`: files of a shop in v1 and v2.

use std::path::Path;

use crate::support::{Ran, folder, oxds};

const V1: &str = "syntax = \"proto3\";
package shop.v1;
import \"google/protobuf/any.proto\";
message Order {
  string id = 1;
  int32 count = 2;
  string code = 3;
  repeated Item items = 4;
  google.protobuf.Any extension = 5;
  Color color = 6;
  oneof pay { string card = 7; string cash = 8; }
  map<string, Item> by_name = 9;
}
message Item { string name = 1; Item inner = 2; }
enum Color { NONE = 0; RED = 1; BLUE = 2; }
";
const V2: &str = "syntax = \"proto3\";
package shop.v2;
import \"google/protobuf/any.proto\";
message Order {
  reserved 3;
  string id = 1;
  int64 count = 12;
  repeated Item items = 4;
  google.protobuf.Any extension = 5;
  Color color = 6;
  oneof pay { string card = 7; }
  map<string, Item> by_name = 9;
  string type = 10;
}
message Item { string name = 1; Item inner = 3; }
enum Color { NONE = 0; RED = 4; }
";

fn shop(files: &[(&str, &str)]) -> tempfile::TempDir {
    let protos = [("shop/v1/order.proto", V1), ("shop/v2/order.proto", V2)];
    folder(&[&protos, files].concat())
}

fn translate(dir: &Path, file: &str, more: &[&str]) -> Ran {
    let (tree, file) = (dir.to_str().expect("UTF-8").to_owned(), dir.join(file));
    let file = file.to_str().expect("UTF-8");
    oxds([&["api", "translate", file, "--tree", &tree], more].concat())
}

const ORDER: &str = "'@type': type.googleapis.com/shop.v1.Order
id: a
count: 3
items: [{name: x, inner: {name: y}}]
color: RED
extension: {'@type': type.googleapis.com/shop.v1.Item, name: z}
";

#[test]
fn v40_file_is_translated_to_the_next_major() {
    let dir = shop(&[("order.yaml", ORDER)]);
    let ran = translate(dir.path(), "order.yaml", &["--to", "v2"]);
    ran.expect(0, &[]);
    assert_eq!(
        ran.stdout,
        "\"@type\": type.googleapis.com/shop.v2.Order
id: a
items:
- name: x
  inner:
    name: \"y\"
extension:
  \"@type\": type.googleapis.com/shop.v2.Item
  name: z
color: RED
count: \"3\"
"
    );
    assert_eq!(ran.stderr, "");
}

#[test]
fn v40_dropped_fields_are_reported_and_strict_refuses() {
    let text = ORDER
        .replace("id: a", "id: a\ncode: c")
        .replace("color: RED", "color: BLUE");
    let dir = shop(&[("order.yaml", &text)]);
    let dropped = [
        "order.yaml:3:1: dropped: code: shop.v2.Order has no such field\n",
        "order.yaml:6:1: dropped: color: shop.v2.Color has no value 2\n",
    ];
    let ran = translate(dir.path(), "order.yaml", &["--to", "v2"]);
    ran.expect(0, &dropped);
    assert!(ran.stdout.contains("shop.v2.Order"), "{ran:#?}");
    let ran = translate(dir.path(), "order.yaml", &["--to", "v2", "--strict"]);
    ran.expect(
        1,
        &["order.yaml:3:1: error: code: shop.v2.Order has no such field\n"],
    );
    assert_eq!(ran.stdout, "");
}

#[test]
fn v41_file_is_translated_down_only_if_nothing_is_lost() {
    let dir = shop(&[
        ("fits.json", "{\"id\": \"a\", \"count\": \"3\"}"),
        ("new.json", "{\"id\": \"a\", \"type\": \"t\"}"),
    ]);
    let more = ["--to", "v1", "--type", "shop.v2.Order"];
    let ran = translate(dir.path(), "fits.json", &more);
    ran.expect(0, &[]);
    assert_eq!(ran.stdout, "{\n  \"id\": \"a\",\n  \"count\": 3\n}\n");
    translate(dir.path(), "new.json", &more).expect(
        1,
        &["new.json:1:13: error: type: shop.v1.Order has no such field"],
    );
}

/// Given the same message in all formats, bare and with its type, when each is translated, then the results are equal.
#[test]
fn v55_files_may_state_the_type_or_be_bare() {
    let dir = shop(&[("order.yaml", ORDER)]);
    let yaml = translate(dir.path(), "order.yaml", &["--to", "v2"]).stdout;
    for (format, name) in [
        ("json", "o.json"),
        ("text", "o.textproto"),
        ("binary", "o.pb"),
    ] {
        // `--to v1` keeps the message, and writes it in the other format.
        let out = dir.path().join(name);
        let out = out.to_str().expect("UTF-8");
        translate(
            dir.path(),
            "order.yaml",
            &["--to", "v1", "--format", format, "-o", out],
        )
        .expect(0, &[]);
        let ran = translate(dir.path(), name, &["--to", "v2", "--format", "yaml"]);
        ran.expect(0, &[]);
        assert_eq!(ran.stdout, yaml, "{format}");
    }
    let bare = ORDER.split_once('\n').expect("a first line").1;
    let dir = shop(&[("bare.yaml", bare)]);
    let ran = translate(
        dir.path(),
        "bare.yaml",
        &["--to", "v2", "--type", "shop.v1.Order"],
    );
    assert_eq!(ran.stdout, yaml.split_once('\n').expect("a first line").1);
}

/// Given fields in later documents, lists and maps, when they are dropped, then the report has their lines.
#[test]
fn v40_dropped_fields_have_their_lines() {
    let second = "---\n- '@type': type.googleapis.com/shop.v1.Item\n- '@type': type.googleapis.com/shop.v1.Order\n  \
                  extension:\n    '@type': type.googleapis.com/shop.v1.Order\n    code: x\n";
    let dir = shop(&[("two.yaml", &format!("{ORDER}{second}"))]);
    let lines = ORDER.lines().count() + 6;
    let text =
        format!("two.yaml:{lines}:5: dropped: extension.code: shop.v2.Order has no such field");
    translate(dir.path(), "two.yaml", &["--to", "v2"]).expect(0, &[&text]);
}

#[test]
fn v40_several_documents_are_translated() {
    let dir = shop(&[
        ("two.yaml", &format!("{ORDER}---\n{ORDER}")),
        (
            "list.json",
            "[{\"@type\": \"type.googleapis.com/shop.v1.Item\", \"name\": \"a\"}, {\"@type\": \"type.googleapis.com/shop.v2.Item\"}]",
        ),
    ]);
    let ran = translate(dir.path(), "two.yaml", &["--to", "v2"]);
    assert_eq!(ran.stdout.matches("shop.v2.Order").count(), 2, "{ran:#?}");
    let ran = translate(dir.path(), "list.json", &["--to", "v2"]);
    assert_eq!(ran.stdout.matches("shop.v2.Item").count(), 2, "{ran:#?}");
}

#[test]
fn v40_bad_files_and_trees_are_errors_with_place() {
    let dir = shop(&[
        (
            "unknown.yaml",
            "'@type': type.googleapis.com/shop.v1.Gone\n",
        ),
        (
            "field.yaml",
            "'@type': type.googleapis.com/shop.v1.Order\nid: a\nspeed: 3\n",
        ),
        ("syntax.yaml", "a: [\n"),
        ("bare.yaml", "id: a\n"),
        ("order.yaml", ORDER),
        ("order.txt", ORDER),
    ]);
    let to_v2 = &["--to", "v2"][..];
    for (file, more, texts) in [
        ("unknown.yaml", to_v2, &["unknown.yaml", "shop.v1.Gone"][..]),
        ("field.yaml", to_v2, &["field.yaml:", "speed"]),
        ("syntax.yaml", to_v2, &["syntax.yaml:"]),
        ("bare.yaml", to_v2, &["bare.yaml: missing `@type`"]),
        (
            "bare.yaml",
            &["--to", "v2", "--type", "shop.v1.Gone"],
            &["unknown message type `shop.v1.Gone`"],
        ),
        (
            "order.yaml",
            &["--to", "v9"],
            &["unknown major v9: expected one of the tree: v1, v2"],
        ),
        (
            "order.yaml",
            &["--to", "latest"],
            &["malformed major version \"latest\""],
        ),
        ("order.txt", to_v2, &["unknown format of"]),
        ("none.yaml", to_v2, &["none.yaml"]),
    ] {
        translate(dir.path(), file, more).expect(2, texts);
    }
    std::fs::write(
        dir.path().join("shop/v2/order.proto"),
        V2.replace("RED = 4", "RED = 0").replace("NONE = 0; ", ""),
    )
    .expect("a file");
    translate(dir.path(), "order.yaml", to_v2).expect(
        3,
        &["shop/v1/order.proto: shop.v1.Color.NONE: is the default value 0 and is gone: shop.v2.Color has RED there"],
    );
}

/// Given a tree with changed fields, when stubs are written, then they are valid Rust: unchanged fields are done, each
/// changed one is a `todo!`.
#[test]
fn v42_stubs_are_rust_with_a_todo_per_changed_field() {
    let dir = shop(&[]);
    let tree = dir.path().to_str().expect("UTF-8");
    let ran = oxds(["api", "stubs", "--to", "v2", "--tree", tree]);
    ran.expect(0, &[]);
    let file =
        syn::parse_file(&ran.stdout).unwrap_or_else(|error| panic!("{error}\n{}", ran.stdout));
    let functions: Vec<String> = file
        .items
        .iter()
        .filter_map(|item| match item {
            syn::Item::Fn(function) => Some(function.sig.ident.to_string()),
            _ => None,
        })
        .collect();
    assert_eq!(
        functions,
        ["shop_v1_color", "shop_v1_item", "shop_v1_order"]
    );
    for text in [
        "pub fn shop_v1_order(old: crate::shop::v1::Order) -> crate::shop::v2::Order {",
        "    if !old.code.is_empty() {\n        todo!(\"code: shop.v2.Order has no such field\");\n    }",
        "        id: old.id,\n",
        "        count: old.count.into(),\n",
        "        items: old.items.into_iter().map(|one| shop_v1_item(one)).collect(),\n",
        "        by_name: old.by_name.into_iter().map(|(key, one)| (key, shop_v1_item(one))).collect(),\n",
        "        color: shop_v1_color(old.color),\n",
        "            crate::shop::v1::order::Pay::Card(one) => crate::shop::v2::order::Pay::Card(one),\n",
        "            crate::shop::v1::order::Pay::Cash(_) => todo!(\"cash: shop.v2.Order has no such field\"),\n",
        "        inner: old.inner.map(|one| Box::new(shop_v1_item(*one))),\n",
        "        1 => 4, // RED becomes RED\n        2 => todo!(\"BLUE: shop.v2.Color has no such value\"),\n",
        "        ..Default::default()\n",
    ] {
        assert!(ran.stdout.contains(text), "no {text:?} in\n{}", ran.stdout);
    }
    assert_eq!(ran.stdout.matches("todo!(").count(), 3, "{}", ran.stdout);
}

#[test]
fn v42_tree_without_decisions_has_no_stubs() {
    let dir = folder(&[
        (
            "shop/v1/a.proto",
            "syntax = \"proto3\"; package shop.v1; message A { string a = 1; }",
        ),
        (
            "shop/v2/a.proto",
            "syntax = \"proto3\"; package shop.v2; message A { string a = 1; }",
        ),
    ]);
    let tree = dir.path().to_str().expect("UTF-8");
    let ran = oxds(["api", "stubs", "--to", "v2", "--tree", tree]);
    ran.expect(0, &["no message needs a decision"]);
    assert_eq!(ran.stdout, "");
}

/// Given a ledger with the replacement of a field that v2 removed, when a message is translated, then the replacement
/// gets the value.
#[test]
fn v46_translator_fills_the_replacement_in_the_ledger() {
    let v1 = "syntax = \"proto3\"; package shop.v1; message A { string old = 1 [deprecated = true]; string new = 2; }";
    let v2 = "syntax = \"proto3\"; package shop.v2; message A { string new = 2; }";
    let ledger = "releases:\n- {version: 1.0.0, date: 2021-01-10}\ndeprecated:\n\
                  - {element: shop.v1.A.old, since: 1.0.0, replacement: shop.v1.A.new}\n";
    let dir = folder(&[
        ("shop/v1/a.proto", v1),
        ("shop/v2/a.proto", v2),
        ("oxds-ledger.yaml", ledger),
        ("a.yaml", "old: value\n"),
        ("both.yaml", "old: value\nnew: other\n"),
    ]);
    let more = ["--to", "v2", "--type", "shop.v1.A"];
    let ran = translate(dir.path(), "a.yaml", &more);
    ran.expect(0, &[]);
    assert_eq!((&*ran.stdout, &*ran.stderr), ("new: value\n", ""));
    let ran = translate(dir.path(), "both.yaml", &more);
    ran.expect(
        0,
        &["both.yaml:1:1: dropped: old: new is set too, which replaces it in shop.v2.A"],
    );
    assert_eq!(ran.stdout, "new: other\n");
    std::fs::remove_file(dir.path().join("oxds-ledger.yaml")).expect("the ledger");
    translate(dir.path(), "a.yaml", &more).expect(
        0,
        &["a.yaml:1:1: dropped: old: shop.v2.A has no such field"],
    );
}
