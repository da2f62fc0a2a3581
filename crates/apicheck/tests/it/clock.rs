//! The ledger, and its effect on deprecations, experiments and reviews.

use std::path::Path;

use jiff::civil::{Date, date};
use oxds_apicheck::audit;
use oxds_apicheck::clock::{Deprecation, Phase, Schedule, clock};
use oxds_apicheck::compare::Comparison;
use oxds_apicheck::finding::Severity;
use oxds_apicheck::ledger::Ledger;
use oxds_apicheck::model::Tree;
use oxds_apicheck::review::review;
use oxds_apicheck::rule::Profile;
use oxds_apicheck::rules;

use crate::support::{one, shop, tree};

/// Ledger with quarterly releases and a major each June.
const LEDGER: &str = "
releases:
- {version: 1.1.0, date: 2021-01-10}
- {version: 1.2.0, date: 2021-04-10}
- {version: 1.3.0, date: 2021-07-10}
- {version: 1.4.0, date: 2021-10-10}
- {version: 1.5.0, date: 2022-01-10}
events:
- {name: '2020', date: 2020-06-30, majors: [shop.v1]}
- {name: '2021', date: 2021-06-30, majors: [shop.v2]}
- {name: '2022', date: 2022-06-30, majors: [shop.v3, box.v2]}
- {name: '2023', date: 2023-06-30, majors: [box.v3]}
- {name: '2024', date: 2024-06-30, majors: [shop.v4]}
deprecated:
- {element: shop.v1.Order.id, since: 1.1.0, replacement: shop.v1.Order.order_id}
- {element: shop.v1.Order.code, since: 1.1.0, no_replacement: never used}
- {element: shop.v1.Color.RED, since: 1.1.0, replacement: shop.v1.Color.ROSE}
";

const ORDER: &str = "message Order {\n  string id = 1 [deprecated = true];\n  string code = 2 [deprecated = true];\n}\n";

fn ledger(text: &str) -> Ledger {
    Ledger::parse(Path::new("oxds-ledger.yaml"), text).unwrap()
}

fn parse_error(text: &str) -> String {
    let error = Ledger::parse(Path::new("oxds-ledger.yaml"), text).unwrap_err();
    error.to_string()
}

fn deprecation(element: &str, schedule: Schedule, today: Date) -> Deprecation {
    let tree = shop(ORDER);
    let all = clock(&tree, &ledger(LEDGER), schedule, today);
    all.into_iter().find(|one| one.element == element).unwrap()
}

fn phases(element: &str, schedule: Schedule, days: &[(Date, Phase)]) {
    for (today, phase) in days {
        let one = deprecation(element, schedule, *today);
        assert_eq!(one.phase, *phase, "{element} on {today}: {one:?}");
    }
}

#[test]
fn v43_policy_schedule_goes_through_all_phases() {
    let days = [
        (date(2021, 1, 9), Phase::Announced),
        (date(2021, 1, 10), Phase::Warned),
        (date(2021, 4, 9), Phase::Warned),
        (date(2021, 4, 10), Phase::Disallowed),
        (date(2022, 6, 29), Phase::Disallowed),
        (date(2022, 6, 30), Phase::Removable),
    ];
    phases("shop.v1.Order.id", Schedule::Policy, &days);
    let one = deprecation("shop.v1.Order.id", Schedule::Policy, date(2021, 5, 1));
    assert_eq!(one.until, Some(date(2022, 6, 30)));
    assert_eq!(
        one.replacement,
        Some(Ok("shop.v1.Order.order_id".to_owned()))
    );
}

#[test]
fn v43_release_schedule_allows_removal_in_the_third_release() {
    let days = [
        (date(2021, 4, 10), Phase::Disallowed),
        (date(2021, 7, 9), Phase::Disallowed),
        (date(2021, 7, 10), Phase::Removable),
    ];
    phases("shop.v1.Order.id", Schedule::Releases, &days);
}

#[test]
fn v43_envoy_today_only_follows_annotations() {
    let annotations = "syntax = \"proto2\";\npackage envoy.annotations;\nimport \"google/protobuf/descriptor.proto\";\n\
        extend google.protobuf.FieldOptions {\n  optional bool disallowed_by_default = 189503207;\n  optional string deprecated_at_minor_version = 157299826;\n}\n";
    let order = "syntax = \"proto3\";\npackage shop.v1;\nimport \"envoy/annotations/deprecation.proto\";\n\
        message Order {\n  string id = 1 [deprecated = true, (envoy.annotations.disallowed_by_default) = true, (envoy.annotations.deprecated_at_minor_version) = \"3.0\"];\n  string code = 2 [deprecated = true];\n}\n";
    let tree = tree(&[
        ("envoy/annotations/deprecation.proto", annotations),
        ("shop/v1/order.proto", order),
    ]);
    let all = clock(
        &tree,
        &ledger(LEDGER),
        Schedule::EnvoyToday,
        date(2030, 1, 1),
    );
    let phases: Vec<_> = all.iter().map(|one| one.phase).collect();
    assert_eq!(phases, [Phase::Disallowed, Phase::Warned]);
    assert_eq!(all[0].annotated.as_deref(), Some("3.0"));
}

#[test]
fn v46_missing_replacement_extends_the_window() {
    let releases = deprecation("shop.v1.Order.code", Schedule::Releases, date(2021, 5, 1));
    assert_eq!(releases.dates.removable, Some(date(2022, 1, 10)));
    let majors = deprecation("shop.v1.Order.code", Schedule::Policy, date(2021, 5, 1));
    assert_eq!(majors.dates.removable, Some(date(2024, 6, 30)));
}

#[test]
fn v43_element_missing_in_the_ledger_is_unrecorded() {
    let tree = shop("message Order {\n  string other = 1 [deprecated = true];\n}\n");
    let all = clock(&tree, &ledger(LEDGER), Schedule::Policy, date(2022, 1, 1));
    assert_eq!(all[0].phase, Phase::Unrecorded);
    assert_eq!((all[0].until, &all[0].replacement), (None, &None));
}

#[test]
fn v43_runtime_key_and_layer_are_printed() {
    let one = deprecation("shop.v1.Order.id", Schedule::Policy, date(2021, 5, 1));
    assert_eq!(
        one.layer().unwrap(),
        "layered_runtime:\n  layers:\n  - name: deprecated\n    static_layer:\n      \"envoy.deprecated_features:shop.v1.Order.id\": true\n"
    );
    // An enum value has the scope of its enum, as in C++.
    let tree = shop("enum Color {\n  UNKNOWN = 0;\n  RED = 1 [deprecated = true];\n}\n");
    let all = clock(&tree, &ledger(LEDGER), Schedule::Policy, date(2021, 5, 1));
    assert_eq!(all[0].element, "shop.v1.Color.RED");
    assert_eq!(
        all[0].key.as_deref(),
        Some("envoy.deprecated_features:shop.v1.RED")
    );
    assert_eq!(all[0].phase, Phase::Disallowed);
}

#[test]
fn v36_removal_inside_the_window_is_an_error() {
    let old = shop(ORDER);
    let new = shop(
        "message Order {\n  reserved 1;\n  reserved \"id\";\n  string code = 2 [deprecated = true];\n}\n",
    );
    let comparison = Comparison::of(&old, &new);
    let reported = |today| {
        let mut found = rules::breaking(&comparison, Profile::Policy);
        let ledger = ledger(LEDGER);
        rules::check_removal_windows(&comparison, &mut found, &ledger, Schedule::Policy, today);
        let [one] = &found[..] else {
            panic!("{found:?}")
        };
        (one.severity, one.message.clone())
    };
    assert_eq!(
        reported(date(2021, 5, 1)),
        (
            Severity::Error,
            "removed too early (phase: disallowed by default); removal is allowed from 2022-06-30"
                .to_owned()
        )
    );
    assert_eq!(reported(date(2022, 7, 1)).0, Severity::Note);
}

#[test]
fn v7_experiment_over_the_release_limit_is_an_error() {
    let releases = LEDGER.split("events:").next().unwrap();
    let text = |since: &str| {
        format!(
            "{releases}experimental_releases: 2\nexperimental:\n- {{element: shop.v1.Order.id, since: {since}}}\n"
        )
    };
    let tree = |mark: &str| shop(&format!("message Order {{\n  {mark}\n  string id = 1;\n}}"));
    let reported = |tree: &Tree, ledger: &Ledger, today: Date| -> Vec<(String, Severity)> {
        let found = rules::lifecycle(tree, Profile::Policy, ledger, today);
        let reported = found
            .iter()
            .map(|one| (one.rule.id.to_owned(), one.severity));
        reported.collect()
    };
    let hidden = tree("// [#not-implemented-hide:]");
    let ledger_1 = ledger(&text("1.1.0"));
    let expiring = [("EXPERIMENTAL_EXPIRING".to_owned(), Severity::Warning)];
    let expired = [("EXPERIMENTAL_EXPIRED".to_owned(), Severity::Error)];
    // no finding at first, a warning in the last release, an error after it
    assert!(reported(&hidden, &ledger_1, date(2021, 4, 1)).is_empty());
    assert_eq!(reported(&hidden, &ledger_1, date(2021, 8, 1)), expiring);
    assert_eq!(reported(&hidden, &ledger_1, date(2021, 11, 1)), expired);
    // a promoted element has no finding; an element missing in the ledger is reported
    assert!(reported(&tree(""), &ledger_1, date(2021, 11, 1)).is_empty());
    let unknown = reported(&hidden, &ledger(releases), date(2021, 11, 1));
    assert_eq!(
        unknown,
        [("LEDGER_INCOMPLETE".to_owned(), Severity::Warning)]
    );
}

#[test]
fn v60_audit_lists_experiments_deprecations_and_pending_types() {
    let tree = one(
        "syntax = \"proto3\";\npackage shop.v1;\nmessage Order {\n  // [#not-implemented-hide:]\n  string color = 1;\n  string id = 2 [deprecated = true];\n}\nmessage Cart {\n  Order order = 1;\n}\n",
    );
    let text = format!("{LEDGER}experimental:\n- {{element: shop.v1.Order.color, since: 1.2.0}}\n");
    let audit = audit::audit(&tree, &ledger(&text), Schedule::Policy, date(2021, 12, 1));
    let experiments: Vec<_> = audit
        .experimental
        .iter()
        .map(|one| {
            (
                one.element.as_str(),
                one.maturity.to_string(),
                one.age.clone(),
            )
        })
        .collect();
    assert_eq!(
        experiments,
        [(
            "shop.v1.Order.color",
            "not implemented".to_owned(),
            Some(("1.2.0".to_owned(), 2))
        )]
    );
    let deprecated = audit
        .deprecated
        .iter()
        .map(|one| (&*one.element, one.phase));
    assert_eq!(
        deprecated.collect::<Vec<_>>(),
        [("shop.v1.Order.id", Phase::Disallowed)]
    );
    let pending: Vec<_> = audit.pending.keys().map(|name| &**name).collect();
    assert_eq!(pending, ["shop.v1.Cart", "shop.v1.Order"]);
    assert!(audit.two_versions.is_empty());
}

#[test]
fn v20_last_matching_owner_reviews_a_path() {
    let file = |package: &str, note: &str| {
        format!("syntax = \"proto3\";\npackage {package};\n// {note}\nmessage M {{}}\n")
    };
    let files = |note: &str| {
        tree(&[
            ("shop/v1/m.proto", file("shop.v1", note)),
            ("shop/cart/v1/m.proto", file("shop.cart.v1", note)),
            ("box/v1/m.proto", file("box.v1", note)),
            ("same/v1/m.proto", file("same.v1", "")),
        ])
    };
    let owners =
        ledger("owners:\n- {path: shop/, team: api}\n- {path: shop/cart/, team: cart}\n").owners;
    let asked = review(&files("old"), &files("new"), &owners);
    assert_eq!(asked.verdict(), "needs-api-review");
    assert_eq!(asked.teams["api"], ["shop/v1/m.proto"]);
    assert_eq!(asked.teams["cart"], ["shop/cart/v1/m.proto"]);
    assert_eq!(asked.unowned, ["box/v1/m.proto"]);
    let none = review(&files("old"), &files("old"), &owners);
    assert_eq!(none.verdict(), "no-api-review");
}

#[test]
fn ledger_errors_have_line_and_column() {
    let releases = "releases:\n- {version: 1.1.0, date: 2021-01-10}\n";
    let wrong = [
        (
            "releases:\n- {version: 1.1.0, date: 2021-13-10}\n".to_owned(),
            "oxds-ledger.yaml:2:3: date: malformed date \"2021-13-10\": expected a date such as 2027-03-31",
        ),
        (
            format!("{releases}- {{version: 1.1.0, date: 2021-04-10}}\n"),
            "oxds-ledger.yaml:3:3: duplicate entry 1.1.0",
        ),
        (
            format!("{releases}experimental:\n- {{element: a.v1.M, since: 1.2.0}}\n"),
            "oxds-ledger.yaml:4:3: since: unknown release \"1.2.0\": expected a version from `releases`",
        ),
        (
            format!("{releases}deprecated:\n- {{element: a.v1.M, since: 1.1.0}}\n"),
            "oxds-ledger.yaml:4:3: missing replacement: expected `replacement`, or `no_replacement` with a reason",
        ),
    ];
    for (text, why) in wrong {
        assert_eq!(parse_error(&text), why);
    }
    assert!(parse_error("release: []\n").starts_with("oxds-ledger.yaml:1:1: "));
}

#[test]
fn a_ledger_without_entries_is_valid() {
    let text = "# releases:\n# - {version: 1.1.0, date: 2021-01-10}\n";
    let empty = Ledger::parse(Path::new("oxds-ledger.yaml"), text).unwrap();
    assert_eq!((empty.releases.len(), empty.experimental_releases), (0, 4));
}

#[test]
fn v18_new_stable_major_requires_an_event() {
    let text = |package: &str| {
        format!("syntax = \"proto3\";\npackage {package};\nmessage Order {{ string id = 1; }}")
    };
    let v1 = ("shop/v1/order.proto", text("shop.v1"));
    let old = tree(std::slice::from_ref(&v1));
    let reported = |package: &str, today: Date| -> Vec<String> {
        let path = format!("{}/order.proto", package.replace('.', "/"));
        let new = tree(&[(v1.0, v1.1.clone()), (&*path, text(package))]);
        let comparison = Comparison::of(&old, &new);
        let ledger = ledger(LEDGER);
        let findings = rules::majors_without_event(&comparison, Profile::Policy, &ledger, today);
        findings
            .into_iter()
            .map(|finding| format!("{} {}", finding.rule.id, finding.message))
            .collect()
    };
    // The ledger has an event for shop.v2 in June 2021, and none for shop.v9.
    assert_eq!(reported("shop.v2", date(2021, 6, 30)), [""; 0]);
    let early = "MAJOR_WITHOUT_EVENT is stable before its event 2021 on 2021-06-30";
    assert_eq!(reported("shop.v2", date(2021, 6, 29)), [early]);
    let none = "MAJOR_WITHOUT_EVENT is new, but no event of the ledger lists it";
    assert_eq!(reported("shop.v9", date(2021, 6, 30)), [none]);
    assert_eq!(
        reported("shop.v9alpha", date(2021, 6, 30)),
        [""; 0],
        "an alpha may come at any time"
    );
    assert_eq!(
        reported("box.v1", date(2021, 6, 30)),
        [""; 0],
        "a first major needs no event"
    );
}
