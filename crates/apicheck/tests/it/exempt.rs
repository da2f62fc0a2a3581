//! Exemptions (V-35), and the maturity of elements (V-6).

use oxds_apicheck::compare::Comparison;
use oxds_apicheck::maturity::{self, Maturity, Status};
use oxds_apicheck::model::Tree;
use oxds_apicheck::rule::Profile;
use oxds_apicheck::rules;

use crate::support::{one, shop, tree};

/// Returns the exemption reason of each finding.
fn exempted(old: &Tree, new: &Tree) -> Vec<Option<String>> {
    let comparison = Comparison::of(old, new);
    let mut findings = rules::breaking(&comparison, Profile::Policy);
    rules::exempt(&comparison, &mut findings);
    findings.into_iter().map(|finding| finding.exempt).collect()
}

#[test]
fn v35_alpha_and_beta_findings_are_exempt_but_reported() {
    for (package, why) in [("shop.v1alpha", "alpha"), ("shop.v2beta1", "beta")] {
        let text = |field: &str| {
            one(&format!(
                "syntax = \"proto3\";\npackage {package};\nmessage Order {{ {field} }}"
            ))
        };
        let found = exempted(&text("string id = 1;"), &text("string id = 2;"));
        assert_eq!(found, [Some(why.to_owned())]);
    }
}

#[test]
fn v35_old_tree_decides_about_exemption() {
    let hidden = "message Order {\n  // [#not-implemented-hide:]\n  string id = 1;\n}";
    let shown = "message Order {\n  string id = 1;\n}";
    let renumbered = |text: &str| shop(&text.replace("= 1", "= 2"));
    let found = exempted(&shop(hidden), &renumbered(shown));
    assert_eq!(found, [Some("not implemented".to_owned())]);
    assert_eq!(exempted(&shop(shown), &renumbered(hidden)), [None]);
}

#[test]
fn v35_removed_package_without_stable_file_is_exempt() {
    let text = |package: &str, message: &str| {
        format!("syntax = \"proto3\";\npackage {package};\nmessage {message} {{ string id = 1; }}")
    };
    let kept = ("shop/v1/a.proto", text("shop.v1", "A"));
    let old = tree(&[
        kept.clone(),
        ("shop/v2alpha/b.proto", text("shop.v2alpha", "B")),
    ]);
    assert_eq!(exempted(&old, &tree(&[kept])), [Some("alpha".to_owned())]);
}

#[test]
fn v6_nearest_maturity_mark_counts() {
    let text = "syntax = \"proto3\";
package shop.v1;

import \"udpa/annotations/status.proto\";

option (udpa.annotations.file_status).package_version_status = ACTIVE;

// [#protodoc-title: Shop]
// [#proto-status: draft]

// An order.
message Order {
  // The id. [#not-implemented-hide:]
  string id = 1;

  // [#alpha:]
  message Item { string sku = 1; }
}
";
    let tree = tree(&[("shop/v1/shop.proto", text)]);
    let file = tree.file("shop/v1/shop.proto").unwrap();
    let order = tree.message("shop.v1.Order").unwrap();
    let item = tree.message("shop.v1.Order.Item").unwrap();
    assert_eq!(maturity::status(file), Some(Status::Active));
    assert_eq!(maturity::of_file(&tree, file), Maturity::Draft);
    assert_eq!(maturity::of_message(&tree, order), Maturity::Draft);
    let id = order.field(1).unwrap();
    assert_eq!(
        maturity::of_field(&tree, order, id),
        Maturity::NotImplemented
    );
    let sku = item.field(1).unwrap();
    assert_eq!(maturity::of_field(&tree, item, sku), Maturity::Alpha);
}

const ITEM: &str =
    "message Item { string id = 1; string note = 2; uint32 count = 3; bool gift = 4; }";

/// Creates one file per package, with its contents.
fn packages(packages: &[(&str, String)]) -> Tree {
    let files: Vec<(String, String)> = packages
        .iter()
        .map(|(package, body)| {
            let text = format!("syntax = \"proto3\";\npackage {package};\n{body}");
            (format!("{}/x.proto", package.replace('.', "/")), text)
        })
        .collect();
    tree(&files)
}

#[test]
fn element_moved_from_an_unstable_package_is_exempt() {
    let wip = "import \"udpa/annotations/status.proto\";\n\
        option (udpa.annotations.file_status).work_in_progress = true;\n";
    let changed = ITEM.replace("string note = 2", "string note = 5");
    let kept = "message Kept {}".to_owned();
    for (unstable, head, why) in [
        ("shop.v1beta1", "", "beta"),
        ("draft.v1", wip, "work in progress"),
    ] {
        let before = [
            (unstable, format!("{head}{kept}{ITEM}")),
            ("shop.v1", kept.clone()),
        ];
        let after = [
            (unstable, format!("{head}{kept}")),
            ("shop.v1", format!("{kept}{changed}")),
        ];
        let (before, after) = (packages(&before), packages(&after));
        // when a message moves to the stable package and one field changes
        let why = Some(why.to_owned());
        assert_eq!(exempted(&before, &after), [why.clone(), why]);
        // then the old side decides, also in the other direction
        assert_eq!(exempted(&after, &before), [None, None]);
    }
}

#[test]
fn changes_of_unstable_extensions_are_exempt() {
    let text = |number: u32| {
        let body = format!(
            "import \"google/protobuf/descriptor.proto\";\n\
             extend google.protobuf.FieldOptions {{ string label = {number}; }}"
        );
        packages(&[("shop.v1alpha", body)])
    };
    let found = exempted(&text(50000), &text(50001));
    assert_eq!(found, [Some("alpha".to_owned())]);
}

#[test]
fn renamed_element_is_as_old_as_its_old_name() {
    let (old, new) = (
        shop("message Order { string id = 1; }"),
        shop("message Order { string key = 1; }"),
    );
    let comparison = Comparison::of(&old, &new);
    let mut findings = rules::breaking(&comparison, Profile::Policy);
    assert_eq!(findings[0].old_element.as_deref(), Some("shop.v1.Order.id"));
    rules::exempt_young(&old, &mut findings);
    assert_eq!(findings[0].exempt, None);
    rules::exempt_young(&shop(""), &mut findings);
    assert!(findings[0].exempt.is_some());
}
