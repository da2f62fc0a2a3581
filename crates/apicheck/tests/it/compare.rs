//! Pairing of the elements of two trees.

use oxds_apicheck::compare::{Comparison, Fate, Pair};
use oxds_apicheck::model::Tree;

use crate::support::{findings, shop, tree};

const ORDER: &str = "message Order { string id = 1; string note = 2; uint32 count = 3; }";

fn fates(old: &Tree, new: &Tree) -> Vec<String> {
    let comparison = Comparison::of(old, new);
    let messages = comparison.messages.iter().map(|pair| match pair {
        Pair::Removed(old) => format!("-{}", old.name),
        Pair::Added(new) => format!("+{}", new.name),
        Pair::Both { old, new, fate } => format!("{} {fate:?} {}", old.name, new.name),
    });
    messages.collect()
}

#[test]
fn renamed_message_is_paired_by_its_fields() {
    let new = ORDER.replace("Order", "Purchase");
    assert_eq!(
        fates(&shop(ORDER), &shop(&new)),
        ["shop.v1.Order Renamed shop.v1.Purchase"]
    );
}

#[test]
fn elements_inside_a_removed_message_are_not_listed() {
    let old = "message Order { message Item { message Part {} } enum Kind { A = 0; } }";
    assert_eq!(fates(&shop(old), &shop("")), ["-shop.v1.Order"]);
    let (old, new) = (shop(old), shop(""));
    assert!(Comparison::of(&old, &new).enums.is_empty());
}

#[test]
fn nested_messages_follow_a_renamed_parent() {
    let old = "message Order { string id = 1; string note = 2; Item item = 3; message Item { string sku = 1; } }";
    let new = old.replace("Order", "Purchase");
    assert_eq!(
        fates(&shop(old), &shop(&new)),
        [
            "shop.v1.Order Renamed shop.v1.Purchase",
            "shop.v1.Order.Item Kept shop.v1.Purchase.Item"
        ]
    );
}

#[test]
fn renamed_package_with_renamed_files_is_one_rename() {
    let text = |package: &str| {
        format!(
            "syntax = \"proto3\";\npackage {package};\n{ORDER}\nmessage Item {{ Order order = 1; }}"
        )
    };
    let old = tree(&[("shop/v1/order.proto", text("shop.v1"))]);
    let new = tree(&[("store/v1/purchase.proto", text("store.v1"))]);
    let comparison = Comparison::of(&old, &new);
    let [Pair::Both { old, new, fate }] = comparison.packages[..] else {
        panic!("{:?}", comparison.packages);
    };
    assert_eq!(
        (&**old.name, &**new.name, fate),
        ("shop.v1", "store.v1", Fate::Renamed)
    );
    let fates: Vec<_> = comparison
        .messages
        .iter()
        .map(|pair| {
            matches!(
                pair,
                Pair::Both {
                    fate: Fate::Kept,
                    ..
                }
            )
        })
        .collect();
    assert_eq!(fates, [true, true]);
    assert!(matches!(
        comparison.files[..],
        [Pair::Both {
            fate: Fate::Renamed,
            ..
        }]
    ));
}

#[test]
fn fields_that_swap_numbers_are_renumbered_not_renamed() {
    let old = shop("message Order { string id = 1; string note = 2; }");
    let new = shop("message Order { string note = 1; string id = 2; }");
    let comparison = Comparison::of(&old, &new);
    let fates = comparison.fields.iter().map(|member| match member.pair {
        Pair::Both { fate, .. } => fate,
        _ => panic!("{member:?}"),
    });
    assert_eq!(
        fates.collect::<Vec<_>>(),
        [Fate::Renumbered, Fate::Renumbered]
    );
}

#[test]
fn imported_files_are_not_listed() {
    let file = |import: &str| {
        format!("syntax = \"proto3\";\npackage shop.v1;\n{import}\nmessage Order {{}}")
    };
    let old = tree(&[(
        "shop/v1/order.proto",
        file("import \"validate/validate.proto\";"),
    )]);
    let new = tree(&[("shop/v1/order.proto", file(""))]);
    let comparison = Comparison::of(&old, &new);
    assert_eq!(comparison.messages.len(), 1);
    assert_eq!((comparison.packages.len(), comparison.files.len()), (1, 1));
}

/// Creates one file per package, with its contents.
fn trees(packages: &[(&str, &str)]) -> Tree {
    let files: Vec<(String, String)> = packages
        .iter()
        .map(|(package, body)| {
            let text = format!("syntax = \"proto3\";\npackage {package};\n{body}");
            (format!("{}/x.proto", package.replace('.', "/")), text)
        })
        .collect();
    tree(&files)
}

/// Returns the findings as `RULE element`.
fn found(old: &Tree, new: &Tree) -> Vec<String> {
    let findings = findings(old, new);
    let found = findings
        .iter()
        .map(|one| format!("{} {}", one.rule.id, one.element));
    found.collect()
}

/// A common part of many packages.
const METADATA: &str = "message Metadata { string target = 1; string verb = 2; string detail = 3; \
    bool cancelled = 4; string api_version = 5; }";

#[test]
fn dropped_major_beside_a_new_one_is_a_removal() {
    // given an API whose packages have their version in the middle, as google.ads has
    let parts = ["common", "enums", "errors", "resources", "services"];
    let major = |version: &str, more: &str| -> Vec<(String, String)> {
        let package = |part: &&str| {
            let body =
                format!("{ORDER}\nmessage {part}Item {{ string id = 1; {more} }}\n{METADATA}");
            (format!("shop.ads.{version}.{part}"), body)
        };
        parts.iter().map(package).collect()
    };
    let side = |majors: &[Vec<(String, String)>]| {
        let all: Vec<(&str, &str)> = majors.iter().flatten().map(|(a, b)| (&**a, &**b)).collect();
        trees(&all)
    };
    let second = major("v2", "string b = 2;");
    let old = side(&[major("v1", "string a = 2;"), second.clone()]);
    let new = side(&[second, major("v3", "string c = 2;")]);
    // when v1 is dropped in the change that adds v3, then each package of v1 is one removal
    let expected = parts.map(|part| format!("PACKAGE_REMOVED shop.ads.v1.{part}"));
    assert_eq!(found(&old, &new), expected);
}

#[test]
fn unrelated_packages_with_similar_messages_are_removed() {
    let old = trees(&[(
        "shop.speech.v1",
        &format!("{ORDER}\n{METADATA}\nmessage Speech {{ string a = 1; }}"),
    )]);
    let other = format!("{METADATA}\n{ORDER}\nmessage Vision {{ string b = 1; bool c = 2; }}");
    assert_eq!(
        found(&old, &trees(&[("shop.vision.v1", &other)])),
        ["PACKAGE_REMOVED shop.speech.v1"]
    );
    // Small packages are equal by chance.
    let small = "message Config { string name = 1; bool on = 2; }";
    assert_eq!(
        found(&trees(&[("box.v1", small)]), &trees(&[("cart.v1", small)])),
        ["PACKAGE_REMOVED box.v1"]
    );
}

#[test]
fn package_that_keeps_its_last_part_is_renamed_despite_edits() {
    let body =
        |more: &str| format!("{ORDER}\n{METADATA}\nmessage Item {{ string id = 1; {more} }}");
    let old = trees(&[("shop.cart.v1", &body(""))]);
    let new = trees(&[("retail.cart.v1", &body("string a = 2; string b = 3;"))]);
    assert_eq!(found(&old, &new), ["PACKAGE_RENAMED retail.cart.v1"]);
}

#[test]
fn message_of_another_major_is_no_successor() {
    let both = format!("{ORDER}\n{METADATA}");
    let old = trees(&[("shop.v1", &both)]);
    let new = trees(&[("shop.v1", ORDER), ("shop.v2", &both)]);
    assert_eq!(found(&old, &new), ["MESSAGE_REMOVED shop.v1.Metadata"]);
}
