//! Trees: annotations that contradict each other, and trees without annotations.

use super::*;

#[test]
fn v40_errors_of_the_tree_name_file_and_element() {
    let previous =
        |of: &str| format!("option (udpa.annotations.versioning).previous_message_type = '{of}';");
    let v1 = ("shop.v1", "message A {}");
    let both = format!(
        "message B {{ {0} }} message C {{ {0} }}",
        previous("shop.v1.A")
    );
    assert_eq!(
        tree_errors(&[v1, ("shop.v2", &both)], "v2"),
        "shop/v2/shop.proto: shop.v2.C: replaces shop.v1.A, as shop.v2.B does: expected one successor in v2"
    );
    let cyclic = format!("message A {{ {} }}", previous("shop.v2.A"));
    let back = format!("message A {{ {} }}", previous("shop.v1.A"));
    assert_eq!(
        tree_errors(&[("shop.v1", &cyclic), ("shop.v2", &back)], "v2"),
        "shop/v1/shop.proto: shop.v1.A: replaces shop.v2.A, which is not older: expected a message of an earlier major"
    );
    let twice =
        "message A { string a = 1 [(udpa.annotations.field_migrate).rename = 'b']; string b = 2; }";
    assert_eq!(
        tree_errors(
            &[
                ("shop.v1", twice),
                ("shop.v2", "message A { string b = 1; }")
            ],
            "v2"
        ),
        "shop/v1/shop.proto: shop.v1.A.b: becomes b of shop.v2.A, as a does: expected one field"
    );
    let lost = "message A { string a = 1 [(udpa.annotations.field_migrate).rename = 'b']; }";
    assert_eq!(
        tree_errors(
            &[
                ("shop.v1", lost),
                ("shop.v2", "message A { string c = 1; }")
            ],
            "v2"
        ),
        "shop/v1/shop.proto: shop.v1.A.a: is renamed to b: shop.v2.A has neither that name nor the old one"
    );
    let e1 = "message A { E e = 1; } enum E { NONE = 0; ON = 1; }";
    let e2 = "message A { E e = 1; } enum E { FIRST = 0; ON = 1; }";
    assert_eq!(
        tree_errors(&[("shop.v1", e1), ("shop.v2", e2)], "v2"),
        "shop/v1/shop.proto: shop.v1.E.NONE: is the default value 0 and is gone: shop.v2.E has FIRST there, expected an \
         annotation that renames it, or a value DEPRECATED_AND_UNAVAILABLE_DO_NOT_USE"
    );
}

#[test]
fn v40_tree_without_annotations_is_matched_by_package() {
    let v1 = (
        "shop.v1.core",
        "message A { string a = 1; message B { string b = 1; } }",
    );
    let v2 = (
        "shop.v2.core",
        "message A { string a = 1; message B { string b = 4; } }",
    );
    let (message, text, _) = translated(&[v1, v2], "v2", "shop.v1.core.A.B", "b: 'x'").unwrap();
    assert_eq!((&*message, &*text), ("shop.v2.core.A.B", "b:\"x\""));
}
