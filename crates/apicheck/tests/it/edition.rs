//! Files of edition 2023: parsing, checks and printing follow their features.

use oxds_apicheck::hash::{Hashes, VERSION_OPTION};
use oxds_apicheck::input::tree_of_set;
use oxds_apicheck::model::{Cardinality, Kind, Syntax, Tree};
use oxds_apicheck::plan::Plan;
use oxds_apicheck::print::Printer;

use crate::support::findings;

fn tree(text: &str) -> Tree {
    Tree::parse([("a/v1/a.proto", text)]).unwrap()
}

fn errors(text: &str) -> Vec<String> {
    let errors = Tree::parse([("a.proto", text)]).unwrap_err();
    errors.iter().map(ToString::to_string).collect()
}

fn hash(tree: &Tree) -> String {
    let hashes = Hashes::of(tree, VERSION_OPTION);
    hashes.file("a/v1/a.proto").unwrap().local.to_string()
}

const ALL: &str = r#"// Licence.
edition = "2023";

package a.v1;

message M {
  reserved old, older;
  reserved 8 to 10, 20 to max;

  int32 explicit = 1 [default = 7];
  int32 implicit = 2 [features.field_presence = IMPLICIT];
  string required = 3 [features.field_presence = LEGACY_REQUIRED];
  repeated int32 packed = 4;
  repeated int32 expanded = 5 [features.repeated_field_encoding = EXPANDED];
  .a.v1.M plain = 6;
  M delimited = 7 [features.message_encoding = DELIMITED];
  map<string, M> map = 11;
  oneof choice {
    int32 one = 12;
    string two = 13;
  }
  E e = 14;
}

enum E {
  option features.enum_type = CLOSED;
  reserved GONE;
  ONE = 1;
}
"#;

#[test]
fn features_set_presence_packing_groups_and_closed_enums() {
    let tree = tree(ALL);
    assert_eq!(tree.files[0].syntax, Syntax::Edition(2023));
    let message = tree.message("a.v1.M").unwrap();
    let of = |name: &str| message.field_by_name(name).unwrap();
    assert_eq!(of("explicit").cardinality, Cardinality::Explicit);
    assert_eq!(of("explicit").default.as_deref(), Some("7"));
    assert_eq!(of("implicit").cardinality, Cardinality::Implicit);
    assert_eq!(of("required").cardinality, Cardinality::Required);
    assert!(of("packed").packed && !of("expanded").packed);
    assert!(matches!(of("plain").kind, Kind::Message(_)));
    assert!(matches!(of("delimited").kind, Kind::Group(_)));
    assert_eq!(of("map").cardinality, Cardinality::Map);
    assert_eq!(of("two").oneof, Some(0));
    assert_eq!(message.reserved.names.len(), 2);
    assert!(message.reserves(9) && message.reserves(536_870_911));
    let of = tree.enumeration("a.v1.E").unwrap();
    assert!(of.closed);
    assert_eq!(&*of.reserved.names[0], "GONE");
}

#[test]
fn map_entries_are_never_delimited() {
    let tree = tree(
        "edition = \"2023\";\npackage a.v1;\noption features.message_encoding = DELIMITED;\n\
         message M { M plain = 1; map<string, M> map = 2; }",
    );
    let message = tree.message("a.v1.M").unwrap();
    assert!(matches!(message.fields[0].kind, Kind::Group(_)));
    assert!(matches!(message.fields[1].kind, Kind::Message(_)));
    let (_, value) = tree.map_entry(&message.fields[1]).unwrap();
    assert!(matches!(value.kind, Kind::Message(_)));
}

#[test]
fn source_positions_refer_to_the_original_file() {
    let tree = tree(ALL);
    let message = tree.message("a.v1.M").unwrap();
    let lines: Vec<&str> = ALL.lines().collect();
    for field in &message.fields {
        let span = field.source.name.unwrap();
        let line = lines[span.line as usize - 1];
        let (from, to) = (span.column as usize - 1, span.end_column as usize - 1);
        assert_eq!(&line[from..to], &*field.name);
        let whole = field.source.span.unwrap();
        let start = &line[whole.column as usize - 1..];
        assert_eq!(start, line.trim_start(), "{}", field.name);
    }
    // The same holds for two fields on one line, and after the first statement.
    let found = errors("edition='2023';message A{int32 a=1;int32 b=1;\n}");
    assert_eq!(found, ["a.proto:1:42: error: A: number 1 of b is taken"]);
    let found = errors("edition = \"2023\";\nmessage A { int32 a = 1; int32 b == 2; }");
    assert_eq!(found.len(), 1);
    assert!(
        found[0].starts_with("a.proto:2:35: error: expected"),
        "{found:?}"
    );
}

#[test]
fn edition_2024_is_refused_with_one_line() {
    let next = "edition = \"2024\";\nexport message A {}\nlocal enum E { Z = 0; }";
    let user = "syntax = \"proto3\"; import \"next.proto\"; message M { A a = 1; }";
    let found = Tree::parse([("next.proto", next), ("user.proto", user)]).unwrap_err();
    let found: Vec<_> = found.iter().map(ToString::to_string).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("next.proto:1:1: error: edition 2024 is not supported"));
    assert_eq!(
        errors("edition = \"1999\";"),
        ["a.proto:1:1: error: unknown edition \"1999\": expected 2023, proto2 or proto3"]
    );
}

#[test]
fn constructs_outside_the_edition_are_errors() {
    let labels =
        "edition = \"2023\";\nmessage A {\n  optional int32 a = 1;\n  required int32 b = 2;\n}";
    assert_eq!(
        errors(labels),
        [
            "a.proto:3:3: error: edition 2023 has no optional: use features.field_presence = EXPLICIT, the default",
            "a.proto:4:3: error: edition 2023 has no required: use features.field_presence = LEGACY_REQUIRED",
        ]
    );
    assert_eq!(
        errors("// new\nedition = \"2024\";\nmessage A {}"),
        [
            "a.proto:2:1: error: edition 2024 is not supported: expected edition 2023, proto2 or proto3, \
             or a descriptor set of the compiled files"
        ]
    );
    assert_eq!(
        errors("edition = \"2023\"; enum E { A = 1; }"),
        ["a.proto:1:28: error: E: the first value of an open enum must be zero"]
    );
}

#[test]
fn equivalent_files_have_equal_hashes() {
    let proto3 = tree(
        r#"syntax = "proto3"; package a.v1;
        message M { int32 a = 1; optional int32 b = 2; repeated int32 c = 3; oneof o { M d = 4; } }
        enum E { ZERO = 0; }"#,
    );
    let edition = tree(
        r#"edition = "2023"; package a.v1; option features.field_presence = IMPLICIT;
        message M { int32 a = 1; int32 b = 2 [features.field_presence = EXPLICIT];
        repeated int32 c = 3; oneof o { M d = 4; } }
        enum E { ZERO = 0; }"#,
    );
    assert_eq!(hash(&proto3), hash(&edition));
    let proto2 = tree(
        r#"syntax = "proto2"; package a.v1;
        message M { optional int32 a = 1; required int32 b = 2; repeated int32 c = 3;
        optional group G = 4 { optional int32 x = 1 [default = 3]; } }
        enum E { ONE = 1; }"#,
    );
    let edition = tree(
        r#"edition = "2023"; package a.v1;
        option features = { enum_type: CLOSED, repeated_field_encoding: EXPANDED,
            utf8_validation: NONE, json_format: LEGACY_BEST_EFFORT };
        message M { int32 a = 1; int32 b = 2 [features.field_presence = LEGACY_REQUIRED];
        repeated int32 c = 3; G g = 4 [features.message_encoding = DELIMITED];
        message G { int32 x = 1 [default = 3]; } }
        enum E { ONE = 1; }"#,
    );
    assert_eq!(hash(&proto2), hash(&edition));
}

#[test]
fn printed_edition_file_reads_back_equal() {
    let tree = tree(ALL);
    let plan = Plan::default();
    let text = Printer::new(&tree, &plan).file(&tree.files[0]);
    assert!(text.contains("edition = \"2023\";"), "{text}");
    assert!(text.contains("reserved old, older;"), "{text}");
    assert_eq!(hash(&tree), hash(&self::tree(&text)), "{text}");
}

#[test]
fn changed_feature_is_reported_by_its_effect() {
    let file = |options: &str| {
        format!(
            "edition = \"2023\"; package a.v1; {options}\n\
            message M {{ int32 a = 1; repeated int32 b = 2; M m = 3; E e = 4; }}\n\
            enum E {{ ZERO = 0; }}"
        )
    };
    let change = |options: &str| findings(&tree(&file("")), &tree(&file(options))).len();
    assert_eq!(change(""), 0);
    for options in [
        "option features.field_presence = IMPLICIT;",
        "option features.message_encoding = DELIMITED;",
        "option features.enum_type = CLOSED;",
    ] {
        assert!(change(options) > 0, "{options}");
    }
}

#[test]
fn descriptor_set_edition_is_read() {
    // given a set as written by a compiler: syntax "editions", edition 1000, features in the
    // options
    let field = [
        10, 1, b'a', 24, 1, 32, 1, 40, 9, 66, 7, 170, 1, 4, 8, 2, 32, 3,
    ];
    let mut message = vec![10, 1, b'M', 18, field.len() as u8];
    message.extend(field);
    let mut file = vec![10, 7];
    file.extend(b"a.proto");
    file.extend([34, message.len() as u8]);
    file.extend(message);
    file.extend([98, 8]);
    file.extend(b"editions");
    file.extend([112, 0xe8, 7]);
    let mut set = vec![10, file.len() as u8];
    set.extend(&file);
    let tree = tree_of_set(&set).unwrap();
    assert_eq!(tree.files[0].syntax, Syntax::Edition(2023));
    let message = tree.message("M").unwrap();
    assert_eq!(message.fields[0].cardinality, Cardinality::Implicit);
    let text = Tree::parse([(
        "a.proto",
        r#"edition = "2023"; message M {
        string a = 1 [features.field_presence = IMPLICIT, features.utf8_validation = NONE]; }"#,
    )]);
    let local = |tree: &Tree| Hashes::of(tree, VERSION_OPTION).files()[0].local;
    assert_eq!(local(&tree), local(&text.unwrap()));
    // when the edition is unknown, then loading fails
    let last = set.len() - 2;
    set[last..].copy_from_slice(&[0x8f, 78]);
    let error = tree_of_set(&set).unwrap_err().to_string();
    assert!(error.contains("a.proto: unknown edition 9999"), "{error}");
}
