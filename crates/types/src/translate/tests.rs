//! Translation between majors of small trees: a shop in v1, v2 and v3alpha.

use prost::Message as _;
use prost_reflect::text_format::FormatOptions;
use prost_reflect::{DescriptorPool, DynamicMessage};

use super::*;
use crate::descriptor;

mod tree;

const ANNOTATIONS: &str = "import 'udpa/annotations/versioning.proto';
import 'udpa/annotations/migrate.proto';
import 'google/protobuf/any.proto';
import 'google/protobuf/struct.proto';
import 'google/protobuf/wrappers.proto';
import 'xds/type/v3/typed_struct.proto';
import 'udpa/type/v1/typed_struct.proto';
";

/// Returns the descriptors of these packages, each with its declarations, beside those of the API.
fn pool(packages: &[(&str, &str)]) -> DescriptorPool {
    let mut pool = descriptor::pool().clone();
    let mut imports = ANNOTATIONS.to_owned();
    for (package, text) in packages {
        let path = format!("{}/shop.proto", package.replace('.', "/"));
        let text = format!("syntax = 'proto3'; package {package};\n{imports}\n{text}");
        let file =
            protox_parse::parse(&path, &text).unwrap_or_else(|error| panic!("{error:?}\n{text}"));
        pool.add_file_descriptor_proto(file)
            .unwrap_or_else(|error| panic!("{error:?}"));
        imports.push_str(&format!("import '{path}';\n"));
    }
    pool
}

fn translator(packages: &[(&str, &str)], major: &str) -> Translator {
    let pool = pool(packages);
    let translator = Translator::new(
        pool.clone(),
        pool,
        major.parse().unwrap(),
        Options::default(),
    )
    .unwrap();
    translator.check().unwrap();
    translator
}

/// Returns the errors of a tree, one per line.
fn tree_errors(packages: &[(&str, &str)], major: &str) -> String {
    let pool = pool(packages);
    let new = Translator::new(
        pool.clone(),
        pool,
        major.parse().unwrap(),
        Options::default(),
    );
    let errors = match new {
        Ok(translator) => translator.check().unwrap_err(),
        Err(errors) => errors,
    };
    let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
    lines.join("\n")
}

/// A message in text format, with its descriptors, as bytes.
fn encoded(pool: &DescriptorPool, message: &str, text: &str) -> Vec<u8> {
    let descriptor = pool.get_message_by_name(message).unwrap();
    let message = DynamicMessage::parse_text_format(descriptor, text);
    message
        .unwrap_or_else(|error| panic!("{error:?}"))
        .encode_to_vec()
}

fn printed(pool: &DescriptorPool, message: &str, bytes: &[u8]) -> String {
    let descriptor = pool.get_message_by_name(message).unwrap();
    let message = DynamicMessage::decode(descriptor, bytes).unwrap();
    message.to_text_format_with_options(&FormatOptions::new().skip_unknown_fields(false))
}

/// Translates a message in text format; the result is in text format, too.
fn translated(
    packages: &[(&str, &str)],
    major: &str,
    message: &str,
    text: &str,
) -> Result<(String, String, Vec<String>), Vec<String>> {
    let translator = translator(packages, major);
    let pool = pool(packages);
    let value = encoded(&pool, message, text);
    let lines = |dropped: &[Dropped]| dropped.iter().map(ToString::to_string).collect();
    match translator.translate(message, &value) {
        Ok(done) => {
            let strict = translator.translate_strict(message, &value);
            assert_eq!(strict.is_ok(), done.dropped.is_empty());
            let text = printed(&pool, &done.message, &done.value);
            Ok((done.message, text, lines(&done.dropped)))
        }
        Err(error) => Err(lines(&error.0)),
    }
}

const V1: (&str, &str) = (
    "shop.v1",
    "message Order {
       string id = 1;
       string note = 2 [(udpa.annotations.field_migrate).rename = 'comment'];
       int32 count = 3;
       string code = 4;
       Color color = 5;
       repeated Item items = 6;
       map<string, Item> by_name = 7;
       google.protobuf.Any extension = 8;
       Item main = 9;
     }
     message Item { string name = 1; uint32 price = 2; }
     enum Color { NONE = 0; RED = 1 [(udpa.annotations.enum_value_migrate).rename = 'CRIMSON']; BLUE = 2; OLD = 3; }",
);
const V2: (&str, &str) = (
    "shop.v2",
    "message Order {
       option (udpa.annotations.versioning).previous_message_type = 'shop.v1.Order';
       reserved 4;
       string id = 1;
       string comment = 2;
       int32 count = 13;
       Color color = 5;
       repeated Item items = 6;
       map<string, Item> by_name = 7;
       google.protobuf.Any extension = 8;
       Item main = 9;
       string added = 10;
     }
     message Item { string name = 1; uint32 price = 3; }
     enum Color { NONE = 0; CRIMSON = 1; BLUE = 7; GREEN = 3; }",
);

#[test]
fn v40_fields_are_matched_by_name_and_annotation() {
    let text = "id: 'a' note: 'b' count: 3 main { name: 'x' price: 4 }";
    let (message, text, dropped) = translated(&[V1, V2], "v2", "shop.v1.Order", text).unwrap();
    assert_eq!(message, "shop.v2.Order");
    assert_eq!(
        text,
        "id:\"a\",comment:\"b\",main{name:\"x\",price:4},count:3"
    );
    assert_eq!(dropped, Vec::<String>::new());
}

#[test]
fn v40_dropped_fields_are_reported_with_their_paths() {
    let text = "id: 'a' code: 'x' items { name: 'i' } items { name: 'j' } color: OLD
        extension { [type.googleapis.com/shop.v1.Order] { code: 'y' } }";
    let (_, text, dropped) = translated(&[V1, V2], "v2", "shop.v1.Order", text).unwrap();
    assert_eq!(
        dropped,
        [
            "code: shop.v2.Order has no such field",
            "color: shop.v2.Color has no value 3",
            "extension.code: shop.v2.Order has no such field",
        ]
    );
    assert_eq!(
        text,
        "id:\"a\",items:[{name:\"i\"},{name:\"j\"}],extension{[type.googleapis.com/shop.v2.Order]{}}"
    );
}

#[test]
fn v40_enum_values_follow_their_names() {
    for (old, new) in [("RED", "CRIMSON"), ("BLUE", "BLUE"), ("9", "9")] {
        let text = format!("color: {old}");
        let (_, text, dropped) = translated(&[V1, V2], "v2", "shop.v1.Order", &text).unwrap();
        assert_eq!((text, dropped.len()), (format!("color:{new}"), 0));
    }
}

/// Given messages in lists, maps and `Any` messages inside `Any` messages, when they are translated, then all are.
#[test]
fn v40_nested_messages_are_translated_at_every_depth() {
    let item = "name: 'i' price: 7";
    let inner = format!("note: 'deep' by_name {{ key: 'k' value {{ {item} }} }}");
    let text = format!(
        "items {{ {item} }} by_name {{ key: 'k' value {{ {item} }} }}
         extension {{ [type.googleapis.com/google.protobuf.Any] {{ [type.googleapis.com/shop.v1.Order] {{ {inner} }} }} }}"
    );
    let (_, text, _) = translated(&[V1, V2], "v2", "shop.v1.Order", &text).unwrap();
    let item = "name:\"i\",price:7";
    let by_name = format!("by_name:[{{key:\"k\",value{{{item}}}}}]");
    let inner = format!("[type.googleapis.com/shop.v2.Order]{{comment:\"deep\",{by_name}}}");
    assert_eq!(
        text,
        format!(
            "items:[{{{item}}}],{by_name},extension{{[type.googleapis.com/google.protobuf.Any]{{{inner}}}}}"
        )
    );
}

#[test]
fn v40_unknown_fields_and_types_are_kept() {
    let packages = &[V1, V2];
    let translator = translator(packages, "v2");
    let any = crate::discovery::Any {
        type_url: "type.googleapis.com/other.v1.Thing".to_owned(),
        value: b"\xff\xff"[..].into(),
    };
    let mut order = encoded(&pool(packages), "shop.v1.Order", "id: 'a'");
    crate::wire::put(8, &any.encode_to_vec(), &mut order);
    // 100 is unknown to both; 10 is unknown to v1, and has a meaning in v2.
    crate::wire::put(100, b"kept", &mut order);
    let done = translator
        .translate_strict("shop.v1.Order", &order)
        .unwrap();
    assert_eq!(done.value, order);
    crate::wire::put(10, b"not kept", &mut order);
    let done = translator.translate("shop.v1.Order", &order).unwrap();
    assert_eq!(
        done.dropped[0].to_string(),
        "10: shop.v2.Order has no such field"
    );
    assert!(!done.value.ends_with(b"not kept"));

    let (passed, _) = translator.translate_any(&any).unwrap();
    assert_eq!(passed, any);
}

/// Given a `TypedStruct` in an `Any`, when it is translated, then its type URL and the JSON names in its `Struct`
/// change.
#[test]
fn v40_typed_struct_is_translated_by_json_names() {
    for holder in ["xds.type.v3.TypedStruct", "udpa.type.v1.TypedStruct"] {
        let text = |order: &str, note: &str, red: &str, by: &str| {
            let entry =
                |key: &str, value: &str| format!("fields {{ key: '{key}' value {{ {value} }} }}");
            let string = |text: &str| format!("string_value: '{text}'");
            let inner = [
                entry(
                    "@type",
                    &string(&format!("type.googleapis.com/shop.{order}")),
                ),
                entry(note, &string("in")),
            ];
            let items = format!(
                "list_value {{ values {{ struct_value {{ {} }} }} }}",
                entry("name", &string("n"))
            );
            let fields = [
                entry(note, &string("out")),
                entry("color", &string(red)),
                entry(
                    by,
                    &format!(
                        "struct_value {{ {} }}",
                        entry(
                            "k",
                            &format!("struct_value {{ {} }}", entry("price", "number_value: 3"))
                        )
                    ),
                ),
                entry("items", &items),
                entry(
                    "extension",
                    &format!("struct_value {{ {} }}", inner.join(" ")),
                ),
            ];
            format!(
                "extension {{ [type.googleapis.com/{holder}] {{ type_url: 'type.googleapis.com/shop.{order}' value {{ {} }} }} }}",
                fields.join(" ")
            )
        };
        let (_, new, dropped) = translated(
            &[V1, V2],
            "v2",
            "shop.v1.Order",
            &text("v1.Order", "note", "RED", "byName"),
        )
        .unwrap();
        assert_eq!(dropped, Vec::<String>::new());
        let pool = pool(&[V1, V2]);
        let decoded = |text: &str| {
            let order = pool.get_message_by_name("shop.v2.Order").unwrap();
            let order = DynamicMessage::parse_text_format(order, text).unwrap();
            let any = order.get_field_by_name("extension").unwrap();
            let any: crate::discovery::Any = any.as_message().unwrap().transcode_to().unwrap();
            DynamicMessage::decode(pool.get_message_by_name(holder).unwrap(), any.value).unwrap()
        };
        let expected = text("v2.Order", "comment", "CRIMSON", "byName");
        assert_eq!(decoded(&new), decoded(&expected), "{holder}");
    }
}

#[test]
fn v40_typed_struct_reports_dropped_keys() {
    let text = "extension { [type.googleapis.com/xds.type.v3.TypedStruct] {
        type_url: 'type.googleapis.com/shop.v1.Order'
        value { fields { key: 'code' value { string_value: 'x' } } fields { key: 'own' value { bool_value: true } } } } }";
    let (_, text, dropped) = translated(&[V1, V2], "v2", "shop.v1.Order", text).unwrap();
    assert_eq!(
        dropped,
        ["extension.value.code: shop.v2.Order has no such field"]
    );
    assert!(text.contains("own"), "{text}");
}

const V3: (&str, &str) = (
    "shop.v3alpha",
    "message Order {
       option (udpa.annotations.versioning).previous_message_type = 'shop.v2.Order';
       string id = 1;
       string comment = 2;
       int64 count = 13;
       string added = 10;
       Color color = 5;
       google.protobuf.Any extension = 8;
     }
     enum Color { NONE = 0; CRIMSON = 1; BLUE = 2; GREEN = 3; }",
);

/// Given a v1 message with v1 and v2 content, when it is translated to v3alpha, then the majors in between are
/// followed.
#[test]
fn v40_majors_in_between_are_followed() {
    let text = "note: 'a' count: -5 color: BLUE main { name: 'x' }
        extension { [type.googleapis.com/shop.v2.Order] { added: 'b' main { name: 'y' } } }";
    let (message, text, dropped) =
        translated(&[V1, V2, V3], "v3alpha", "shop.v1.Order", text).unwrap();
    assert_eq!(message, "shop.v3alpha.Order");
    assert_eq!(
        text,
        "comment:\"a\",color:BLUE,extension{[type.googleapis.com/shop.v3alpha.Order]{added:\"b\"}},count:-5"
    );
    assert_eq!(
        dropped,
        [
            "extension.main: shop.v3alpha.Order has no such field",
            "main: shop.v3alpha.Order has no such field",
        ]
    );
    let translator = translator(&[V1, V2, V3], "v3alpha");
    let item = translator.translate("shop.v2.Item", b"").unwrap_err();
    assert_eq!(item.to_string(), "shop.v2.Item does not exist in v3alpha");
}

/// Given `Any` messages and a `TypedStruct` of a removed type, when they are translated, then their fields, items and
/// entries are dropped whole.
#[test]
fn v40_any_of_a_removed_type_is_dropped_whole() {
    let old = (
        "shop.v1",
        "message A { google.protobuf.Any one = 1; repeated google.protobuf.Any all = 2; map<string, google.protobuf.Any> map = 3; }
         message Gone { string a = 1; }",
    );
    let new = (
        "shop.v2",
        "message A { google.protobuf.Any one = 1; repeated google.protobuf.Any all = 2; map<string, google.protobuf.Any> map = 3; }",
    );
    let gone = "[type.googleapis.com/shop.v1.Gone] { a: 'a' }";
    let kept = "[type.googleapis.com/shop.v1.A] {}";
    let text = format!(
        "one {{ {gone} }} all {{ {gone} }} all {{ {kept} }} map {{ key: 'k' value {{ {gone} }} }}
         map {{ key: 'l' value {{ [type.googleapis.com/udpa.type.v1.TypedStruct] {{ type_url: 'type.googleapis.com/shop.v1.Gone' }} }} }}"
    );
    let (_, text, mut dropped) = translated(&[old, new], "v2", "shop.v1.A", &text).unwrap();
    assert_eq!(text, "all:[{[type.googleapis.com/shop.v2.A]{}}]");
    dropped.sort_unstable();
    let line = |path: &str| format!("{path}: shop.v1.Gone does not exist in v2");
    assert_eq!(
        dropped,
        ["all[0]", "map[\"k\"]", "map[\"l\"]", "one"].map(line)
    );
}

/// Given a message of a newer major, when it is translated to an older one, then all its fields fit, or it fails.
#[test]
fn v41_downgrade_needs_every_field() {
    let down = |text: &str| translated(&[V1, V2, V3], "v1", "shop.v3alpha.Order", text);
    let (message, text, _) = down("comment: 'a' count: -5 color: CRIMSON").unwrap();
    assert_eq!(
        (&*message, &*text),
        ("shop.v1.Order", "note:\"a\",count:-5,color:RED")
    );
    let errors = down(
        "added: 'x' count: 5000000000 color: GREEN
         extension { [type.googleapis.com/shop.v2.Order] { added: 'y' } }",
    );
    assert_eq!(
        errors.unwrap_err(),
        [
            "color: shop.v1.Color has no value 3",
            "extension.added: shop.v1.Order has no such field",
            "added: shop.v1.Order has no such field",
            "count: value 5000000000 is out of range for int32 in shop.v1.Order",
        ]
    );
    let up = translated(
        &[V1, V2],
        "v1",
        "shop.v1.Order",
        "extension { [type.googleapis.com/shop.v2.Order] { added: 'y' } }",
    );
    assert_eq!(
        up.unwrap_err(),
        ["extension.added: shop.v1.Order has no such field"]
    );
    let alien = "extension { [type.googleapis.com/shop.v2.New] { } }";
    let with_new = &[V1, (V2.0, &*format!("{} message New {{}}", V2.1))];
    let errors = translated(with_new, "v1", "shop.v2.Order", alien).unwrap_err();
    assert_eq!(errors, ["extension: shop.v2.New does not exist in v1"]);
}

#[test]
fn v40_fields_that_meet_in_a_oneof_are_reported() {
    let v1 = (
        "shop.v1",
        "message Pay { string card = 1; string cash = 2; }",
    );
    let v2 = (
        "shop.v2",
        "message Pay { oneof method { string card = 1; string cash = 2; } }",
    );
    let (_, text, dropped) =
        translated(&[v1, v2], "v2", "shop.v1.Pay", "card: 'a' cash: 'b'").unwrap();
    assert_eq!(text, "card:\"a\"");
    assert_eq!(
        dropped,
        ["cash: card is set too: shop.v2.Pay has both fields in oneof method"]
    );
    let (_, text, dropped) = translated(&[v1, v2], "v2", "shop.v1.Pay", "cash: 'b'").unwrap();
    assert_eq!((&*text, dropped.len()), ("cash:\"b\"", 0));
}

#[test]
fn v40_lists_and_single_fields_are_translated() {
    let one = (
        "shop.v1",
        "message A { string s = 1; int32 n = 2; E e = 3; } enum E { Z = 0; O = 1; }",
    );
    let many = (
        "shop.v2",
        "message A { repeated string s = 1; repeated int32 n = 2; repeated E e = 3; } enum E { Z = 0; O = 1; }",
    );
    let (_, text, _) = translated(&[one, many], "v2", "shop.v1.A", "s: 'a' n: 3 e: O").unwrap();
    assert_eq!(text, "s:[\"a\"],n:[3],e:[O]");
    let (_, text, _) = translated(&[one, many], "v1", "shop.v2.A", "s: 'a' n: 3 e: O").unwrap();
    assert_eq!(text, "s:\"a\",n:3,e:O");
    let errors = translated(
        &[one, many],
        "v1",
        "shop.v2.A",
        "s: 'a' s: 'b' n: 3 n: 4 e: O e: O",
    );
    let not =
        |path: &str| format!("{path}: more than one value: the field is not a list in shop.v1.A");
    let paths = errors.unwrap_err();
    assert_eq!(paths, [not("s[1]"), not("n[1]"), not("e[1]")]);
}

#[test]
fn v40_changed_types_are_reported() {
    let v1 = (
        "shop.v1",
        "message A { string s = 1; B b = 2; map<string, string> m = 3; } message B {}",
    );
    let v2 = (
        "shop.v2",
        "message A { bytes s = 1; C b = 2; map<int32, string> m = 3; } message C {}",
    );
    let text = "s: 'a' b {} m { key: 'k' value: 'v' }";
    let (_, _, dropped) = translated(&[v1, v2], "v2", "shop.v1.A", text).unwrap();
    assert_eq!(
        dropped,
        [
            "s: shop.v2.A has another type for s: bytes, expected string",
            "b: shop.v2.A has another type for b: shop.v2.C, expected shop.v1.B",
            "m: shop.v2.A has another type for m: map<int32, string>, expected map<string, string>",
        ]
    );
}

/// Given a message of a package without other versions, when it is translated, then it keeps its type, and the content
/// of its `Any` messages is translated.
#[test]
fn v40_message_without_versions_keeps_its_type() {
    let other = (
        "own",
        "message Box { google.protobuf.Any any = 1; shop.v1.Order order = 2; }",
    );
    let text = "any { [type.googleapis.com/shop.v1.Order] { note: 'a' } } order { note: 'b' }";
    let (message, text, _) = translated(&[V1, V2, other], "v2", "own.Box", text).unwrap();
    assert_eq!(message, "own.Box");
    assert_eq!(
        text,
        "any{[type.googleapis.com/shop.v2.Order]{comment:\"a\"}},order{note:\"b\"}"
    );
}

/// Given a deprecated field that the next major removed, when its replacement is known, then it gets the value, unless
/// it is set itself.
#[test]
fn v46_replacement_gets_the_value_of_a_removed_field() {
    let v1 = (
        "shop.v1",
        "message A { string new = 1; string old = 2 [deprecated = true]; int32 n = 3; }",
    );
    let v2 = ("shop.v2", "message A { string new = 1; int32 n = 3; }");
    let pool = pool(&[v1, v2]);
    let replaced = Correction::Replaced {
        parent: "shop.v1.A".to_owned(),
        old: "old".to_owned(),
        new: "new".to_owned(),
    };
    let options = Options {
        corrections: vec![replaced].into(),
        ..Options::default()
    };
    let translator = |major: &str| {
        let options = options.clone();
        Translator::new(pool.clone(), pool.clone(), major.parse().unwrap(), options).unwrap()
    };
    translator("v2").check().unwrap();
    let up = |text: &str| {
        let done = translator("v2")
            .translate("shop.v1.A", &encoded(&pool, "shop.v1.A", text))
            .unwrap();
        let dropped: Vec<String> = done.dropped.iter().map(ToString::to_string).collect();
        (printed(&pool, "shop.v2.A", &done.value), dropped)
    };
    assert_eq!(up("old: 'a' n: 1"), ("new:\"a\",n:1".to_owned(), vec![]));
    let both = "old: new is set too, which replaces it in shop.v2.A".to_owned();
    assert_eq!(
        up("old: 'a' new: 'b'"),
        ("new:\"b\"".to_owned(), vec![both])
    );
    let value = encoded(&pool, "shop.v2.A", "new: 'c'");
    let down = translator("v1").translate("shop.v2.A", &value).unwrap();
    assert_eq!(printed(&pool, "shop.v1.A", &down.value), "new:\"c\"");
}

/// Readers take an entry of a map as length-delimited, whatever its wire type.
#[test]
fn v40_map_entry_of_odd_wire_type_is_translated() {
    let packages = &[V1, V2];
    let translator = translator(packages, "v2");
    let mut order = encoded(
        &pool(packages),
        "shop.v1.Order",
        "by_name { key: 'k' value { price: 7 } }",
    );
    // The key of field 7: as a varint.
    assert_eq!(order[0], 7 << 3 | 2);
    order[0] = 7 << 3;
    let done = translator
        .translate_strict("shop.v1.Order", &order)
        .unwrap();
    let text = printed(&pool(packages), "shop.v2.Order", &done.value);
    assert_eq!(text, "by_name:[{key:\"k\",value{price:7}}]");
}

#[test]
fn v40_malformed_bytes_are_errors() {
    let translator = translator(&[V1, V2], "v2");
    for bytes in [&b"\x0a"[..], b"\x0a\x05a", b"\x32\x02\x0a\x05", b"\x48\x01"] {
        let error = translator.translate("shop.v1.Order", bytes).unwrap_err();
        assert!(error.to_string().contains("malformed"), "{error}");
    }
    let mut deep = Vec::new();
    for _ in 0..150 {
        let any = crate::discovery::Any {
            type_url: "type.googleapis.com/shop.v1.Order".to_owned(),
            value: deep.into(),
        };
        deep = Vec::new();
        crate::wire::put(8, &any.encode_to_vec(), &mut deep);
    }
    let error = translator.translate("shop.v1.Order", &deep).unwrap_err();
    assert!(error.to_string().ends_with("levels deep"), "{error}");
}

#[test]
fn v40_default_value_that_became_unavailable_stays_unset() {
    let v1 = (
        "shop.v1",
        "message A { E e = 1; repeated E all = 2; } enum E { AUTO = 0; ON = 1; }",
    );
    let v2 = (
        "shop.v2",
        "message A { E e = 1; repeated E all = 2; } enum E { DEPRECATED_AND_UNAVAILABLE_DO_NOT_USE = 0; ON = 1; }",
    );
    let (_, text, dropped) = translated(&[v1, v2], "v2", "shop.v1.A", "all: AUTO all: ON").unwrap();
    assert_eq!(
        (&*text, &*dropped),
        (
            "all:[ON]",
            &["all[0]: shop.v2.E has no value 0".to_owned()][..]
        )
    );
}
