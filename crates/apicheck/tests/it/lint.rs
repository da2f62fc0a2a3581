//! Rules about one tree: scenarios that the file cases in `testdata/` do not cover.

use oxds_apicheck::bump::{Lock, freeze, frozen_by_status};
use oxds_apicheck::check::{self, Settings};
use oxds_apicheck::graph::Graph;
use oxds_apicheck::hash::{Hashes, VERSION_OPTION};
use oxds_apicheck::model::Tree;
use oxds_apicheck::rule::Profile;
use oxds_apicheck::rules::{self, Policy};

use crate::generate::{golden, read};
use crate::support::{line, one, tree};

fn reported(tree: &Tree, policy: &Policy) -> Vec<String> {
    let found = rules::lint(tree, Profile::Policy, policy, None);
    found.iter().map(line).collect()
}

/// Creates files `FOLDER/x.proto`, each with one message that uses the messages of others.
fn chain(links: &[(&str, &[&str])]) -> Tree {
    let path = |package: &str| format!("{}/x.proto", package.replace('.', "/"));
    let files: Vec<_> = links
        .iter()
        .map(|(package, uses)| {
            let imports: String = uses
                .iter()
                .map(|used| format!("import \"{}\";\n", path(used)))
                .collect();
            let fields: String = (1..)
                .zip(*uses)
                .map(|(number, used)| format!("{used}.M f{number} = {number};\n"))
                .collect();
            let text = format!(
                "syntax = \"proto3\";\npackage {package};\n{imports}message M {{\n{fields}}}\n"
            );
            (path(package), text)
        })
        .collect();
    tree(&files)
}

#[test]
fn v1_package_roots_are_configurable() {
    let tree = one("syntax = \"proto3\";\npackage shop.v1;\nmessage M {}");
    assert!(reported(&tree, &Policy::default()).is_empty());
    let mut policy = Policy::default();
    policy.roots = vec!["envoy".to_owned(), "udpa".to_owned()];
    assert_eq!(
        reported(&tree, &policy),
        [
            "PACKAGE_NAME shop/v1/case.proto: root of package shop.v1 is not allowed: expected one of envoy, udpa"
        ]
    );
}

#[test]
fn v3_package_paths_may_start_below_a_configured_folder() {
    let text = "syntax = \"proto3\";\npackage shop.v1;\nmessage M {}";
    let tree = tree(&[("contrib/shop/v1/m.proto", text)]);
    assert_eq!(reported(&tree, &Policy::default()).len(), 1);
    let mut policy = Policy::default();
    policy.folders = vec!["contrib".to_owned()];
    assert!(reported(&tree, &policy).is_empty());
}

#[test]
fn v9_message_contains_the_dependency_path() {
    let tree = chain(&[
        ("d.v1alpha", &[]),
        ("c", &["d.v1alpha"]),
        ("b.v1", &["c"]),
        ("a.v1", &["b.v1"]),
    ]);
    let reported = reported(&tree, &Policy::default());
    let reaches = reported
        .iter()
        .filter(|line| line.starts_with("STABLE_REACHES"));
    assert_eq!(
        reaches.collect::<Vec<_>>(),
        [
            "STABLE_REACHES_UNSTABLE a.v1: indirect dependency: a.v1 -> b.v1 -> c -> d.v1alpha",
            "STABLE_REACHES_UNSTABLE b.v1: indirect dependency: b.v1 -> c -> d.v1alpha"
        ]
    );
}

#[test]
fn v10_next_major_using_the_previous_one_is_an_error() {
    let tree = chain(&[
        ("shop.v1", &[]),
        ("box.v1", &[]),
        ("shop.v2alpha", &["shop.v1", "box.v1"]),
    ]);
    let found = reported(&tree, &Policy::default());
    let own: Vec<_> = found
        .iter()
        .filter(|line| line.starts_with("MAJOR_USES_PREVIOUS"))
        .collect();
    assert_eq!(own.len(), 1, "{found:?}");
    assert!(
        own[0].contains("shop.v2alpha") && own[0].contains("shop.v1"),
        "{own:?}"
    );
}

#[test]
fn v11_latest_major_using_an_old_one_is_an_error() {
    let links = |used: &'static [&'static str]| {
        chain(&[
            ("box.v1", &[]),
            ("box.v2", &[]),
            ("box.v3alpha", &[]),
            ("shop.v1", &["box.v1"]),
            ("shop.v2", used),
        ])
    };
    let late = |tree: &Tree| -> Vec<String> {
        let found = reported(tree, &Policy::default());
        let of = |line: &String| line.starts_with("LATEST_USES_OLD");
        found.into_iter().filter(of).collect()
    };
    // The rule applies to the latest major of a package only, and alpha versions do not count as
    // latest.
    let found = late(&links(&["box.v1"]));
    let expected =
        "LATEST_USES_OLD shop.v2.M.f1: uses box.v1.M of box.v1; the latest version is v2";
    assert_eq!(found, [expected]);
    assert_eq!(late(&links(&["box.v2"])), Vec::<String>::new());
}

#[test]
fn v12_message_contains_both_dependency_paths() {
    let tree = chain(&[
        ("base.v1", &[]),
        ("base.v2", &[]),
        ("left.v1", &["base.v1"]),
        ("right.v1", &["base.v2"]),
        ("top.v1", &["left.v1", "right.v1"]),
    ]);
    let found = rules::odr(&tree, Profile::Policy);
    assert_eq!(
        found.iter().map(line).collect::<Vec<_>>(),
        [
            "TWO_VERSIONS_OF_ONE top.v1: depends on two versions of base: top.v1 -> left.v1 -> base.v1 and top.v1 -> right.v1 -> base.v2"
        ]
    );
}

#[test]
fn v12_unversioned_package_is_no_second_version() {
    let tree = chain(&[
        ("base", &[]),
        ("base.v1", &["base"]),
        ("top.v1", &["base", "base.v1"]),
    ]);
    assert!(rules::odr(&tree, Profile::Policy).is_empty());
}

#[test]
fn v13_depth_is_the_longest_dependency_chain() {
    let tree = chain(&[
        ("c.v1", &[]),
        ("b.v1", &["c.v1"]),
        ("a.v1", &["b.v1", "c.v1"]),
    ]);
    let graph = Graph::of(&tree);
    assert_eq!(graph.depth(), 2);
    assert!(graph.cycles().is_empty());
}

#[test]
fn clean_tree_has_no_findings() {
    let tree = chain(&[
        ("base.v2", &[]),
        ("mid.v1", &["base.v2"]),
        ("top.v3", &["mid.v1"]),
    ]);
    assert_eq!(reported(&tree, &Policy::default()), Vec::<String>::new());
}

/// Known results: 28 files of v2 below a version, two REST paths that protoxform left at v3, and
/// next majors exactly where they are needed.
#[test]
fn v2_v4_v16_v17_golden_tree_has_its_known_findings() {
    let golden = golden();
    let found = rules::lint(&read(&golden), Profile::Policy, &Policy::default(), None);
    let count = |id: &str| found.iter().filter(|one| one.rule.id == id).count();
    assert_eq!(count("PACKAGE_VERSION_NOT_LAST"), 28);
    assert_eq!(count("REST_PATH_MAJOR"), 2);
    assert_eq!(count("TOO_MANY_MAJORS"), 0);
    assert_eq!(count("ALPHA_UNNEEDED") + count("ALPHA_MISSING"), 0);
}

#[test]
fn other_version_of_the_own_major_is_found_by_both_commands() {
    let of = |tree: &Tree| -> Vec<String> {
        let found = reported(tree, &Policy::default());
        let two = |line: &String| line.starts_with("TWO_VERSIONS");
        found.into_iter().filter(two).collect()
    };
    let odr = |tree: &Tree| -> Vec<String> {
        let found = rules::odr(tree, Profile::Policy);
        found.iter().map(line).collect()
    };
    for (user, used) in [("shop.v1beta1", "shop.v1"), ("shop.v1", "shop.v1beta1")] {
        let tree = chain(&[(used, &[]), (user, &[used])]);
        let expected = format!(
            "TWO_VERSIONS_OF_ONE {user}: depends on another version of itself: {user} -> {used}"
        );
        assert_eq!(of(&tree), [expected.as_str()]);
        assert_eq!(odr(&tree), [expected.as_str()]);
    }
    // The use of an earlier major has its own rule in `lint` (V-10).
    let tree = chain(&[("shop.v1", &[]), ("shop.v2", &["shop.v1"])]);
    assert_eq!(of(&tree), Vec::<String>::new());
    assert_eq!(odr(&tree).len(), 1);
}

#[test]
fn packages_frozen_in_the_lock_are_no_active_majors() {
    let tree = chain(&[("shop.v1", &[]), ("shop.v2", &[]), ("shop.v3", &[])]);
    let found = |lock: Option<&Lock>| -> Vec<&str> {
        let found = rules::lint(&tree, Profile::Policy, &Policy::default(), lock);
        found.iter().map(|one| one.rule.id).collect()
    };
    assert_eq!(found(None), ["TOO_MANY_MAJORS"]);
    let mut lock = Lock::default();
    assert_eq!(found(Some(&lock)), ["TOO_MANY_MAJORS"]);
    let hashes = Hashes::of(&tree, VERSION_OPTION);
    freeze(&hashes, &["shop.v1"], &mut lock).unwrap();
    assert_eq!(found(Some(&lock)), Vec::<&str>::new());
    // `check` compares with the violations of the old tree: a freeze that ends is a new one.
    let settings = Settings::default();
    let check = |locks| check::check(&tree, &tree, locks, &settings);
    assert!(check((None, Some(&lock))).is_empty());
    assert_eq!(check((Some(&lock), None)).len(), 1);
}

#[test]
fn status_of_either_annotation_freezes() {
    let annotation = |package: &str| {
        let text = format!(
            "syntax = \"proto3\"; package {package};
            import \"google/protobuf/descriptor.proto\";
            extend google.protobuf.FileOptions {{ StatusAnnotation file_status = 226829418; }}
            enum PackageVersionStatus {{ UNKNOWN = 0; FROZEN = 1; }}
            message StatusAnnotation {{ PackageVersionStatus package_version_status = 2; }}"
        );
        (format!("{}/own.proto", package.replace('.', "/")), text)
    };
    for package in ["udpa.annotations", "xds.annotations.v3"] {
        let (path, text) = annotation(package);
        let shop = format!(
            "syntax = \"proto3\"; package shop.v1; import \"{path}\";
            option ({package}.file_status).package_version_status = FROZEN;"
        );
        let files = [
            (path, text, false),
            ("shop/v1/a.proto".to_owned(), shop, true),
        ];
        let tree = read(&files);
        let frozen: Vec<&str> = frozen_by_status(&tree).into_iter().collect();
        assert_eq!(frozen, ["shop.v1"], "{package}");
    }
}
