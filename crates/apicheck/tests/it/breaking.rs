//! Compatibility inside a stable major: scenarios that the file cases in `testdata/` do not cover.

use std::collections::BTreeSet;

use oxds_apicheck::finding::{Language, Severity};
use oxds_apicheck::model::Tree;

use crate::support::{findings, line, reported, shop, tree};

#[test]
fn v27_renumbered_field_is_one_finding_with_both_locations() {
    let old = shop("message Order {\n  string id = 1;\n  string note = 2;\n}");
    let new = shop("message Order {\n  string id = 1;\n\n  string note = 7;\n}");
    let [finding] = &findings(&old, &new)[..] else {
        panic!("{:?}", findings(&old, &new));
    };
    assert_eq!(finding.element, "shop.v1.Order.note");
    assert_eq!((&*finding.old_value, &*finding.new_value), ("2", "7"));
    let line = |location: &Option<oxds_apicheck::finding::Location>| {
        location.as_ref().unwrap().span.unwrap().line
    };
    assert_eq!((line(&finding.old), line(&finding.new)), (5, 6));
}

#[test]
fn v27_one_finding_contains_all_changes_of_a_field() {
    assert_eq!(
        reported(
            "message Order { int32 count = 1; }",
            "message Order { string count = 2; }"
        ),
        [
            "FIELD_RENUMBERED shop.v1.Order.count: renumbered from 1 to 2; type changed from int32 to string"
        ]
    );
}

#[test]
fn v27_type_change_selects_the_rule_by_what_breaks() {
    let reported = |old: &str, new: &str| {
        let message =
            |kind: &str| format!("message Order {{ {kind} x = 1; }} enum State {{ A = 0; }}");
        let reported = reported(&message(old), &message(new));
        reported[0].split(' ').next().unwrap().to_owned()
    };
    let cases = [
        ("int32", "sint32", "FIELD_TYPE_CHANGED"),
        ("int32", "fixed32", "FIELD_TYPE_CHANGED"),
        ("fixed32", "float", "FIELD_TYPE_CHANGED"),
        ("string", "Order", "FIELD_TYPE_CHANGED"),
        ("float", "double", "FIELD_TYPE_CHANGED"),
        ("int32", "int64", "FIELD_JSON_TYPE_CHANGED"),
        ("bool", "uint32", "FIELD_JSON_TYPE_CHANGED"),
        ("State", "int32", "FIELD_JSON_TYPE_CHANGED"),
        ("bytes", "string", "FIELD_JSON_TYPE_CHANGED"),
        ("int32", "uint32", "FIELD_STUB_TYPE_CHANGED"),
        ("fixed64", "sfixed64", "FIELD_STUB_TYPE_CHANGED"),
        (
            "map<string, int32>",
            "map<string, uint32>",
            "FIELD_STUB_TYPE_CHANGED",
        ),
        (
            "map<int32, string>",
            "map<int64, string>",
            "FIELD_JSON_TYPE_CHANGED",
        ),
    ];
    for (old, new, rule) in cases {
        assert_eq!(reported(old, new), rule, "{old} -> {new}");
    }
}

#[test]
fn v27_renamed_message_does_not_change_fields_of_its_type() {
    let old = "message Item { string id = 1; string sku = 2; uint32 n = 3; }
        message Order { Item item = 1; map<string, Item> items = 2; repeated Item more = 3; }
        service Shop { rpc Get(Order) returns (Item); }";
    assert_eq!(
        reported(
            old,
            &old.replace("Item ", "Thing ")
                .replace("Item>", "Thing>")
                .replace("(Item)", "(Thing)")
        ),
        ["MESSAGE_RENAMED shop.v1.Thing: renamed from shop.v1.Item to shop.v1.Thing"]
    );
}

#[test]
fn v27_number_of_a_renumbered_field_reused_is_two_findings() {
    assert_eq!(
        reported(
            "message Order { string id = 1; }",
            "message Order { string id = 2; string note = 1; }"
        ),
        [
            "FIELD_RENUMBERED shop.v1.Order.id: renumbered from 1 to 2",
            "FIELD_NUMBER_REUSED shop.v1.Order.note: uses number 1, which belonged to id"
        ]
    );
}

#[test]
fn v28_renamed_field_is_one_finding_despite_new_json_name() {
    assert_eq!(
        reported(
            "message Order { string item_note = 1; }",
            "message Order { string item_comment = 1; }"
        ),
        ["FIELD_RENAMED shop.v1.Order.item_comment: renamed from item_note to item_comment"]
    );
}

#[test]
fn v29_direct_rename_suggests_the_annotation() {
    let (old, new) = (
        shop("message Order { string a = 1; }"),
        shop("message Order { string b = 1; }"),
    );
    let fix = findings(&old, &new)[0].fix.clone().unwrap();
    assert!(
        fix.contains("(udpa.annotations.field_migrate).rename = \"b\""),
        "{fix}"
    );
}

#[test]
fn v29_migration_annotations_are_not_findings() {
    let head =
        "syntax = \"proto3\";\npackage shop.v1;\nimport \"udpa/annotations/migrate.proto\";\n";
    let old = format!(
        "{head}message Order {{ string a = 1; string b = 2; }} enum State {{ A = 0; B = 1; }}"
    );
    let new = format!(
        "{head}option (udpa.annotations.file_migrate).move_to_package = \"store.v1\";
        message Order {{
          option (udpa.annotations.message_migrate).rename = \"Purchase\";
          string a = 1 [deprecated = true];
          string b = 2 [(udpa.annotations.field_migrate) = {{rename: \"c\" oneof_promotion: \"d\"}}];
        }}
        enum State {{
          option (udpa.annotations.enum_migrate).rename = \"Status\";
          A = 0;
          B = 1 [deprecated = true, (udpa.annotations.enum_value_migrate).rename = \"C\"];
        }}"
    );
    let path = "shop/v1/order.proto";
    let found = findings(&tree(&[(path, old)]), &tree(&[(path, new)]));
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn v30_moved_message_with_public_import_keeps_cpp() {
    let head = "syntax = \"proto3\";\npackage shop.v1;\n";
    let (order, item) = (
        "message Order { string id = 1; }",
        "message Item { string sku = 1; }",
    );
    let old = tree(&[("shop/v1/order.proto", format!("{head}{order}{item}"))]);
    let moved = |import: &str| {
        let old_file = format!("{head}{import}{order}");
        tree(&[
            ("shop/v1/order.proto", old_file),
            ("shop/v1/item.proto", format!("{head}{item}")),
        ])
    };
    let languages = |new| findings(&old, &new)[0].languages.clone();
    let both = BTreeSet::from([Language::Cpp, Language::Python]);
    assert_eq!(languages(moved("")), both);
    let python = BTreeSet::from([Language::Python]);
    assert_eq!(
        languages(moved("import public \"shop/v1/item.proto\";\n")),
        python
    );
}

#[test]
fn v30_collision_names_the_affected_languages() {
    let old = shop("message Order { repeated string item = 1; }");
    let new = shop("message Order { repeated string item = 1; int32 item_count = 2; }");
    let found = findings(&old, &new);
    assert_eq!(found[0].languages, BTreeSet::from([Language::Java]));
}

#[test]
fn v31_additions_are_allowed() {
    let old = "message Order { string id = 1; oneof to { string host = 2; } } enum State { A = 0; }
        service Shop { rpc Buy(Order) returns (Order); }";
    let new = "message Order { string id = 1; oneof to { string host = 2; string path = 3; } repeated Item items = 4; }
        message Item { string sku = 1; }
        enum State { A = 0; B = 1; }
        enum Kind { K = 0; }
        service Shop { rpc Buy(Order) returns (Order); rpc List(Item) returns (stream Item); }
        service Stock { rpc Get(Item) returns (Item); }";
    assert!(reported(old, new).is_empty(), "{:?}", reported(old, new));
}

#[test]
fn v31_value_added_to_a_defined_only_enum_warns() {
    let text = |more: &str| {
        format!(
            "syntax = \"proto3\";\npackage shop.v1;\nimport \"validate/validate.proto\";
            message Order {{ State state = 1 [(validate.rules).enum.defined_only = true]; }}
            enum State {{ A = 0; {more} }}"
        )
    };
    let side = |more| tree(&[("shop/v1/order.proto", text(more))]);
    let found = findings(&side(""), &side("B = 1;"));
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].severity, Severity::Warning);
    assert!(
        found[0].message.contains("shop.v1.Order.state"),
        "{}",
        found[0].message
    );
}

#[test]
fn v34_new_meaning_of_an_unset_wrapper_is_not_checked() {
    let text = |comment: &str| {
        format!(
            "syntax = \"proto3\";\npackage shop.v1;\nimport \"google/protobuf/wrappers.proto\";
            message Order {{\n  // {comment}\n  google.protobuf.UInt32Value limit = 1;\n}}"
        )
    };
    let side = |comment| tree(&[("shop/v1/order.proto", text(comment))]);
    assert!(findings(&side("Defaults to 10."), &side("Defaults to 20.")).is_empty());
}

#[test]
fn v36_removal_requires_deprecation_and_reservation() {
    let reported = |old: &str, new: &str| {
        let message = |inside: &str| format!("message Order {{ string id = 1; {inside} }}");
        let reported = reported(&message(old), &message(new));
        reported
            .iter()
            .map(|line| line.split(' ').next().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let deprecated = "string note = 2 [deprecated = true];";
    assert_eq!(
        reported("string note = 2;", "reserved 2; reserved \"note\";"),
        ["FIELD_REMOVED"]
    );
    assert_eq!(reported(deprecated, ""), ["REMOVED_UNRESERVED"]);
    assert_eq!(reported(deprecated, "reserved 2;"), ["REMOVED_UNRESERVED"]);
    assert_eq!(
        reported(deprecated, "reserved 2; reserved \"note\";"),
        ["DEPRECATED_REMOVED"]
    );
}

#[test]
fn v37_renamed_zero_value_is_an_error() {
    let state = |values: &str| format!("enum State {{ {values} B = 1; }}");
    assert_eq!(
        reported(&state("A = 0;"), &state("NONE = 0;")),
        ["ENUM_ZERO_CHANGED shop.v1.State.NONE: renamed from A to NONE"]
    );
}

const STORE: &str = "service Store {
  rpc Buy(Ask) returns (Answer);
  rpc Sell(Ask) returns (Answer);
  rpc List(Ask) returns (Answer);
}
";

/// Creates one file per package with the messages of the store, and the service in some of them.
fn stores(packages: &[(&str, bool)]) -> Tree {
    let files: Vec<(String, String)> = packages
        .iter()
        .map(|(package, serves)| {
            let service = if *serves { STORE } else { "" };
            let text = format!(
                "syntax = \"proto3\";\npackage {package};\nmessage Ask {{}}\nmessage Answer {{}}\n{service}"
            );
            (format!("{}/store.proto", package.replace('.', "/")), text)
        })
        .collect();
    tree(&files)
}

#[test]
fn v5_service_in_another_package_is_renamed() {
    let before = stores(&[("shop.v1", true), ("box.v1", false)]);
    for (package, other) in [("box.v1", "shop.v1"), ("shop.v2", "shop.v1")] {
        let after = stores(&[(package, true), (other, false)]);
        let found: Vec<String> = findings(&before, &after)
            .iter()
            .filter(|one| one.element.ends_with("Store"))
            .map(line)
            .collect();
        assert_eq!(
            found,
            [format!(
                "SERVICE_RENAMED {package}.Store: renamed from shop.v1.Store to {package}.Store: \
                 calls go to /{package}.Store/… instead of /shop.v1.Store/…"
            )]
        );
    }
    // The service in an additional package is an addition.
    let both = stores(&[("shop.v1", true), ("box.v1", true)]);
    let found = findings(&before, &both);
    assert!(found.iter().all(|one| !one.rule.id.starts_with("SERVICE")));
}

#[test]
fn v15_removed_package_is_an_error_despite_a_later_major() {
    let old = stores(&[("shop.v1", true), ("shop.v2", true), ("shop.v3alpha", true)]);
    let ids = |new: &Tree| -> Vec<String> {
        let found = findings(&old, new);
        let of = found.iter().filter(|one| one.exempt.is_none());
        of.map(|one| format!("{} {}", one.rule.id, one.element))
            .collect()
    };
    assert_eq!(
        ids(&stores(&[("shop.v2", true), ("shop.v3alpha", true)])),
        ["PACKAGE_REMOVED shop.v1"]
    );
    assert!(ids(&old).is_empty());
}

#[test]
fn changed_binding_names_the_old_and_the_new_one() {
    let side = |binding: &str| {
        let text = format!(
            "syntax = \"proto3\";\npackage shop.v1;\nimport \"google/api/annotations.proto\";\n\
             service Shop {{ rpc Buy(Ask) returns (Ask) {{ option (google.api.http) = {{ {binding} }}; }} }}\n\
             message Ask {{}}\n"
        );
        tree(&[("shop/v1/shop.proto", text)])
    };
    let found = |old: &str, new: &str| -> Vec<String> {
        let found = findings(&side(old), &side(new));
        found.iter().map(|one| one.message.clone()).collect()
    };
    assert_eq!(
        found(
            "post: \"/v1/buy\" body: \"*\"",
            "put: \"/v1/orders\" body: \"ask\" response_body: \"id\""
        ),
        [
            "REST binding changed from POST /v1/buy (body: *) to PUT /v1/orders (body: ask, response_body: id)"
        ]
    );
    let two = "get: \"/v1/a\" additional_bindings { get: \"/v1/b\" }";
    assert_eq!(
        found(two, "get: \"/v1/b\""),
        ["REST binding GET /v1/a removed"]
    );
    // The order of bindings means nothing, and an additional one takes nothing away.
    let swapped = "get: \"/v1/b\" additional_bindings { get: \"/v1/a\" } additional_bindings { get: \"/v1/c\" }";
    assert!(found(two, swapped).is_empty());
}
