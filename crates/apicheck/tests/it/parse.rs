//! Parsing of proto texts, with the results of a compiler.

use oxds_apicheck::model::{Cardinality, Kind, Scalar, Tree};
use oxds_apicheck::parse::Reason;
use prost::Message as _;
use prost_reflect::Value;

fn tree(files: &[(&str, &str)]) -> Tree {
    match Tree::parse(files.iter().copied()) {
        Ok(tree) => tree,
        Err(errors) => panic!("{errors:#?}"),
    }
}

fn errors(files: &[(&str, &str)]) -> Vec<String> {
    let errors = Tree::parse(files.iter().copied()).unwrap_err();
    errors.iter().map(ToString::to_string).collect()
}

fn type_of(tree: &Tree, message: &str, field: &str) -> String {
    let field = tree.message(message).unwrap().field_by_name(field).unwrap();
    match field.kind {
        Kind::Message(id) => tree[id].name.to_string(),
        Kind::Enum(id) => tree[id].name.to_string(),
        other => panic!("{other:?}"),
    }
}

const METADATA: (&str, &str) = (
    "envoy/config/core/v3/base.proto",
    r#"syntax = "proto3"; package envoy.config.core.v3; message Metadata {}"#,
);

#[test]
fn package_without_import_hides_nothing() {
    // given the packages envoy.config (imported) and envoy.extensions.config (not imported)
    let tree = tree(&[
        METADATA,
        (
            "envoy/extensions/config/v3/other.proto",
            r#"syntax = "proto3"; package envoy.extensions.config.v3; message Other {}"#,
        ),
        (
            "envoy/extensions/filters/v3/filter.proto",
            r#"syntax = "proto3"; package envoy.extensions.filters.v3;
               import "envoy/config/core/v3/base.proto";
               message Filter { config.core.v3.Metadata metadata = 1; }"#,
        ),
    ]);
    assert_eq!(
        type_of(&tree, "envoy.extensions.filters.v3.Filter", "metadata"),
        "envoy.config.core.v3.Metadata"
    );
}

#[test]
fn imported_package_hides_outer_names() {
    let found = errors(&[
        METADATA,
        (
            "envoy/extensions/config/v3/other.proto",
            r#"syntax = "proto3"; package envoy.extensions.config.v3; message Other {}"#,
        ),
        (
            "f.proto",
            "syntax = \"proto3\"; package envoy.extensions.filters.v3;\n\
             import \"envoy/config/core/v3/base.proto\";\n\
             import \"envoy/extensions/config/v3/other.proto\";\n\
             message Filter { config.core.v3.Metadata metadata = 1; }",
        ),
    ]);
    assert_eq!(
        found,
        [
            "f.proto:4:18: error: config.core.v3.Metadata is not defined: its first part \
             resolves to envoy.extensions.config.core.v3.Metadata"
        ]
    );
}

#[test]
fn only_public_imports_are_visible_to_importers() {
    let files = [
        ("a.proto", r#"syntax = "proto3"; package a; message A {}"#),
        ("b.proto", r#"syntax = "proto3"; import public "a.proto";"#),
        ("c.proto", r#"syntax = "proto3"; import "a.proto";"#),
        (
            "d.proto",
            r#"syntax = "proto3"; import "b.proto"; message D { a.A a = 1; }"#,
        ),
    ];
    assert_eq!(type_of(&tree(&files), "D", "a"), "a.A");
    let mut files = files;
    files[3].1 = r#"syntax = "proto3"; import "c.proto"; message D { a.A a = 1; }"#;
    assert_eq!(
        errors(&files),
        [r#"d.proto:1:50: error: a.A is not defined; "a.proto" declares it but is not imported"#]
    );
}

#[test]
fn field_does_not_hide_a_type_of_the_same_name() {
    let tree = tree(&[(
        "a.proto",
        r#"syntax = "proto3"; message Inner {}
           message Outer { Inner Inner = 1; Inner second = 2; }"#,
    )]);
    assert_eq!(type_of(&tree, "Outer", "second"), "Inner");
}

#[test]
fn presence_and_packing_follow_the_language_level() {
    let tree = tree(&[
        (
            "three.proto",
            r#"syntax = "proto3"; package three;
               message M {
                 int32 plain = 1; optional int32 present = 2; repeated int32 packed = 3;
                 repeated int32 spread = 4 [packed = false]; map<string, M> by_name = 5;
                 oneof choice { string one = 6; M other_one = 7; }
               }"#,
        ),
        (
            "two.proto",
            r"package two; message M {
                 required int32 must = 1; optional string may = 2 [default = 'x'];
                 repeated int32 spread = 3; optional group Group = 4 { optional int32 in = 1; }
               }",
        ),
    ]);
    let three = tree.message("three.M").unwrap();
    let of = |number| three.field(number).unwrap();
    assert_eq!(of(1).cardinality, Cardinality::Implicit);
    assert_eq!(of(2).cardinality, Cardinality::Explicit);
    assert_eq!(
        (of(3).cardinality, of(3).packed),
        (Cardinality::Repeated, true)
    );
    assert!(!of(4).packed);
    assert_eq!(
        (of(5).cardinality, &*of(5).json_name),
        (Cardinality::Map, "byName")
    );
    assert_eq!(
        (of(6).oneof, of(6).cardinality),
        (Some(0), Cardinality::Explicit)
    );
    assert_eq!(
        three.oneofs.len(),
        1,
        "`optional` creates a synthetic oneof"
    );
    let Kind::Message(entry) = of(5).kind else {
        panic!("{:?}", of(5).kind)
    };
    assert!(tree[entry].map_entry);
    assert_eq!(
        tree[entry].field(1).unwrap().kind,
        Kind::Scalar(Scalar::String)
    );
    let two = tree.message("two.M").unwrap();
    assert_eq!(two.field(1).unwrap().cardinality, Cardinality::Required);
    assert_eq!(two.field(2).unwrap().default.as_deref(), Some("x"));
    assert!(!two.field(3).unwrap().packed);
    assert!(matches!(two.field(4).unwrap().kind, Kind::Group(_)));
}

const RULES: (&str, &str) = (
    "validate/validate.proto",
    r#"package validate;
       import "google/protobuf/descriptor.proto";
       extend google.protobuf.FieldOptions { optional FieldRules rules = 1071; }
       extend google.protobuf.MessageOptions { optional bool disabled = 1071; }
       message FieldRules { optional StringRules string = 14; optional Level level = 2; }
       message StringRules { optional uint64 min_len = 2; repeated string in = 10; optional double ratio = 3; }
       enum Level { LOW = 0; HIGH = 1; }"#,
);

#[test]
fn every_spelling_of_an_option_is_read() {
    let tree = tree(&[
        RULES,
        (
            "a.proto",
            r#"syntax = "proto3"; package a; import "validate/validate.proto";
               message M {
                 option (validate.disabled) = true;
                 string x = 1 [deprecated = true, (validate.rules).string.min_len = 3,
                               (.validate.rules).string.in = "p", (validate.rules).string.in = "q",
                               (validate.rules).level = HIGH];
                 string y = 2 [(validate.rules).string = { min_len: 3, in: ["p", "q"], ratio: 1 }];
               }"#,
        ),
    ]);
    let message = tree.message("a.M").unwrap();
    assert!(message.options.is_true("validate.disabled"));
    let (x, y) = (&message.fields[0], &message.fields[1]);
    assert!(x.options.deprecated() && !y.options.deprecated());
    let string = |field: &oxds_apicheck::model::Field| {
        let rules = field.options.extension("validate.rules").unwrap();
        let rules = rules.as_message().unwrap();
        (
            rules.get_field_by_name("string").unwrap().into_owned(),
            rules.clone(),
        )
    };
    let (of_x, rules) = string(x);
    let level = rules.get_field_by_name("level").unwrap();
    assert_eq!(*level, Value::EnumNumber(1));
    let (of_y, _) = string(y);
    let in_list = |value: &Value| {
        let list = value.as_message().unwrap().get_field_by_name("in").unwrap();
        list.as_list().unwrap().len()
    };
    assert_eq!((in_list(&of_x), in_list(&of_y)), (2, 2));
}

#[test]
fn invalid_options_are_reported_with_locations() {
    let found = errors(&[
        RULES,
        (
            "a.proto",
            "syntax = \"proto3\"; package a; import \"validate/validate.proto\";\n\
             message M {\n\
             string x = 1 [(validate.rules).string.max = 3];\n\
             string y = 2 [(validate.rules).string.min_len = -1];\n\
             string z = 3 [(validate.nothing) = 1];\n\
             string w = 4 [(validate.rules).level = MIDDLE];\n\
             string v = 5 [deprecated = true, deprecated = false];\n\
             }",
        ),
    ]);
    assert_eq!(
        found,
        [
            "a.proto:3:15: error: option (validate.rules).string.max: validate.StringRules has no field max",
            "a.proto:4:15: error: option (validate.rules).string.min_len: invalid value: expected a uint64 in range",
            "a.proto:5:15: error: option (validate.nothing): validate.nothing is not defined",
            "a.proto:6:15: error: option (validate.rules).level: validate.Level has no value MIDDLE",
            "a.proto:7:34: error: option deprecated: set twice",
        ]
    );
}

#[test]
fn every_error_is_reported_with_its_location() {
    let found = errors(&[
        (
            "a.proto",
            "syntax = \"proto3\";\nmessage A { B b = 1; C c = 2; }\n",
        ),
        (
            "b.proto",
            "syntax = \"proto3\";\nmessage M { int32 x = 1; int32 y = 1; }\nmessage M {}\n",
        ),
        (
            "c.proto",
            "syntax = \"proto3\";\nimport \"gone.proto\";\nenum E { ONE = 1; }\n",
        ),
        (
            "d.proto",
            "syntax = \"proto3\";\nmessage D { reserved 2; reserved \"old\"; int32 old = 2; }\n",
        ),
        (
            "e.proto",
            "syntax = \"proto3\";\nmessage E1 {\n  int32 = 1;\n}\n",
        ),
    ]);
    assert_eq!(
        found,
        [
            "a.proto:2:13: error: B is not defined",
            "a.proto:2:22: error: C is not defined",
            "b.proto:2:32: error: M: number 1 of y is taken",
            "b.proto:3:9: error: M is declared twice",
            "c.proto:2:1: error: import \"gone.proto\" not found",
            "c.proto:3:10: error: E: the first value of an open enum must be zero",
            "d.proto:2:47: error: D: number 2 of old is reserved",
            "d.proto:2:47: error: D: the name old is reserved",
            "e.proto:3:9: error: expected an identifier, but found '='",
        ]
    );
}

#[test]
fn range_that_ends_before_it_starts_is_an_error() {
    let text = "syntax = \"proto2\";\nmessage M { extensions 9 to 5; reserved 4 to 3; }\nenum E { A = 0; reserved 2 to 1; }";
    assert_eq!(
        errors(&[("a.proto", text)]),
        [
            "a.proto:2:9: error: M: the range 4 to 3 ends before it begins",
            "a.proto:2:9: error: M: the range 9 to 5 ends before it begins",
            "a.proto:3:6: error: E: the range 2 to 1 ends before it begins",
        ]
    );
}

#[test]
fn duplicate_import_is_an_error() {
    let twice = "syntax = \"proto3\";\nimport \"google/protobuf/any.proto\";\nimport \"google/protobuf/any.proto\";\n";
    assert_eq!(
        errors(&[("a.proto", twice)]),
        [r#"a.proto:3:1: error: duplicate import "google/protobuf/any.proto""#]
    );
}

#[test]
fn import_cycle_is_printed() {
    let errors = Tree::parse([
        ("a.proto", r#"syntax = "proto3"; import "b.proto";"#),
        ("b.proto", r#"syntax = "proto3"; import "c.proto";"#),
        ("c.proto", r#"syntax = "proto3"; import "b.proto";"#),
    ])
    .unwrap_err();
    assert_eq!(
        errors[0].to_string(),
        "c.proto:1:20: error: import cycle: b.proto -> c.proto -> b.proto"
    );
    assert_eq!(errors.len(), 1);
}

#[test]
fn errors_caused_by_a_broken_import_are_not_reported() {
    let found = errors(&[
        ("a.proto", "syntax = \"proto3\"; message A { "),
        (
            "b.proto",
            r#"syntax = "proto3"; import "a.proto"; message B { A a = 1; }"#,
        ),
    ]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].starts_with("a.proto:1:32: error: expected"),
        "{found:?}"
    );
}

#[test]
fn file_that_is_not_utf8_is_an_error() {
    let text =
        oxds_apicheck::parse::Text::new("a.proto", b"syntax = \"proto3\";\n// \xff".to_vec());
    let errors = Tree::read(&[text]).unwrap_err();
    assert_eq!(errors[0].reason, Reason::NotUtf8);
    assert_eq!(errors[0].to_string(), "a.proto:2:4: error: not UTF-8");
}

#[test]
fn comments_and_source_positions_are_kept() {
    let tree = tree(&[(
        "a.proto",
        "// Licence.\n\nsyntax = \"proto3\";\n\n// Of M.\nmessage M {\n  // Of ü.\n  string name = 1; // Behind.\n}\n",
    )]);
    let message = tree.message("M").unwrap();
    let docs = message.source.docs.as_ref().unwrap();
    assert_eq!(docs.leading.as_deref(), Some(" Of M.\n"));
    let field = &message.fields[0];
    let span = field.source.name.unwrap();
    assert_eq!((span.line, span.column, span.end_column), (8, 10, 14));
    assert_eq!(
        field.source.comments().collect::<String>(),
        " Of ü.\n Behind.\n"
    );
}

#[test]
fn extension_range_of_one_number_takes_options() {
    let text = "syntax = \"proto2\";\npackage a;\nmessage M {\n  \
                extensions 100 [verification = UNVERIFIED];\n  \
                extensions 200 to 299, 300 [verification = UNVERIFIED];\n  \
                optional int32 extensions = 1;\n  optional int32 after = 2;\n}\n\
                enum E { extensions = 0; }\n";
    let tree = tree(&[("a.proto", text)]);
    let message = tree.message("a.M").unwrap();
    let numbers: Vec<_> = message
        .extension_ranges
        .iter()
        .map(|r| (r.first, r.last))
        .collect();
    assert_eq!(numbers, [(100, 100), (200, 299), (300, 300)]);
    for options in &message.extension_options {
        assert_eq!(options.get("verification"), Some(&Value::EnumNumber(1)));
    }
    assert_eq!(message.fields[1].source.name.unwrap().column, 18);
}

#[test]
fn reserved_names_may_be_no_identifiers() {
    let text = "syntax = \"proto3\";\npackage a;\nmessage M {\n  \
                reserved \"a-b\", \"c\", '2' \"d\";\n  message In { reserved \"x y\"; }\n  string z = 1;\n}\n\
                enum E { reserved \"e f\"; ZERO = 0; }\n";
    let tree = tree(&[("a.proto", text)]);
    let names = |names: &[oxds_apicheck::model::Name]| -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    };
    let message = tree.message("a.M").unwrap();
    assert_eq!(names(&message.reserved.names), ["a-b", "c", "2d"]);
    assert_eq!(
        names(&tree.message("a.M.In").unwrap().reserved.names),
        ["x y"]
    );
    assert_eq!(
        names(&tree.enumeration("a.E").unwrap().reserved.names),
        ["e f"]
    );
    assert_eq!(message.fields[0].source.name.unwrap().line, 6);
}

#[test]
fn list_of_messages_needs_no_colon() {
    let options = r#"syntax = "proto2"; package o; import "google/protobuf/descriptor.proto";
        message R { repeated R rs = 1; optional int32 i = 2; repeated int32 is = 3; }
        extend google.protobuf.MessageOptions { optional R r = 50000; }"#;
    let value = |value: &str| {
        let text = format!(
            "syntax = \"proto3\"; import \"o.proto\"; message M {{ option (o.r) = {{ {value} }}; }}"
        );
        let tree = Tree::parse([("o.proto", options), ("a.proto", text.as_str())]);
        tree.map(|tree| {
            let value = tree.message("M").unwrap().options.extension("o.r").cloned();
            value.unwrap().as_message().unwrap().encode_to_vec()
        })
    };
    let with_colons = value("i: 1 rs: [ { i: 2 rs: [] }, < is: [1, 2] > ]").unwrap();
    assert!(!with_colons.is_empty());
    assert_eq!(
        value("i: 1 rs [ { i: 2 rs [] }, < is: [1, 2] > ]").unwrap(),
        with_colons
    );
    assert!(
        value("is [1, 2]").is_err(),
        "only a list of messages needs none"
    );
}

#[test]
fn byte_order_mark_is_skipped() {
    let text = "\u{feff}syntax = \"proto3\"; message M { Gone a = 1; }";
    assert_eq!(
        errors(&[("a.proto", text)]),
        ["a.proto:1:32: error: Gone is not defined"]
    );
    let edition = "\u{feff}edition = \"2023\"; message M { int32 a = 1; }";
    let tree = tree(&[("a.proto", edition)]);
    assert!(tree.message("M").is_some());
    assert!(
        tree.files[0]
            .text
            .as_deref()
            .unwrap()
            .starts_with("edition")
    );
}

#[test]
fn own_descriptor_proto_defines_the_options() {
    // A newer descriptor.proto than the built-in one, with an option that the latter lacks.
    let descriptor = r#"syntax = "proto2"; package google.protobuf;
        message FileOptions { extensions 1000 to max; }
        message MessageOptions { extensions 1000 to max; }
        message EnumOptions { extensions 1000 to max; }
        message FieldOptions {
          optional string newest = 90 [newest = "itself"];
          extensions 1000 to max;
        }
        message ExtensionRangeOptions {
          optional bool also_new = 91;
          extensions 1000 to max [also_new = true];
        }"#;
    let user = r#"syntax = "proto3"; import "google/protobuf/descriptor.proto";
        extend google.protobuf.FieldOptions { string mine = 50000; }
        message M { string a = 1 [newest = "x", (mine) = "y"]; }"#;
    let files = [
        ("google/protobuf/descriptor.proto", descriptor),
        ("a.proto", user),
    ];
    let tree = tree(&files);
    let field = &tree.message("M").unwrap().fields[0];
    assert_eq!(
        field.options.get("newest"),
        Some(&Value::String("x".into()))
    );
    assert_eq!(
        field.options.extension("mine"),
        Some(&Value::String("y".into()))
    );
    assert_eq!(
        errors(&[(
            "a.proto",
            "syntax = \"proto3\"; message M { string a = 1 [newest = \"x\"]; }"
        )]),
        ["a.proto:1:46: error: option newest: google.protobuf.FieldOptions has no field newest"]
    );
}

#[test]
fn import_path_errors_name_the_path() {
    let found = |import: &str| {
        let text = format!("syntax = \"proto3\";\nimport \"{import}\";\n");
        errors(&[("a.proto", text.as_str())])
    };
    let expected = "expected the path of a file relative to an import root";
    assert_eq!(
        found(""),
        [format!("a.proto:2:8: error: empty import: {expected}")]
    );
    assert_eq!(
        found("/etc/b.proto"),
        [format!(
            "a.proto:2:8: error: absolute import \"/etc/b.proto\": {expected}"
        )]
    );
    assert!(found("../b.proto")[0].contains("invalid import \"../b.proto\""));
    let group = "syntax = \"proto2\";\nmessage M { optional group g = 1 {} }\n";
    assert_eq!(
        errors(&[("a.proto", group)])[0],
        "a.proto:2:28: error: invalid group name"
    );
}

#[test]
fn file_whose_options_are_rejected_is_an_error() {
    // found by fuzzing: fields of one number in the type of an extension of options
    let found = errors(&[(
        "a.proto",
        r#"syntax = "proto3"; package t;
           import "google/protobuf/descriptor.proto";
           message Any { int32 one = 1 [targets = TARGET_TYPE_ENUM]; int32 two = 1; }
           extend google.protobuf.FieldOptions { int32 number = 50200; Any any = 50201; }"#,
    )]);
    assert!(
        found.iter().any(|error| error.contains("two")),
        "{found:#?}"
    );
}
