//! Pairing of the elements of two trees.

use oxds_apicheck::compare::{Comparison, Fate, Pair};
use oxds_apicheck::model::Tree;

use crate::support::{shop, tree};

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
