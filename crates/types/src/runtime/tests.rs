//! V-47: values, layers and their merge.

use std::collections::HashMap;
use std::sync::Arc;

use envoy_types::pb::google::protobuf::{ListValue, Struct, Value as ProtoValue, value::Kind};

use super::*;

fn layer(name: &str, values: &[(&str, &str)]) -> Layer {
    let mut layer = Layer::new(name, Source::Static);
    for (key, value) in values {
        layer
            .set((*key).to_owned(), Value::from_text(value))
            .unwrap();
    }
    layer
}

fn proto(kind: Kind) -> ProtoValue {
    ProtoValue { kind: Some(kind) }
}

fn structure(fields: Vec<(&str, ProtoValue)>) -> Struct {
    let fields = fields.into_iter();
    Struct {
        fields: fields
            .map(|(name, value)| (name.to_owned(), value))
            .collect::<HashMap<_, _>>(),
    }
}

/// Given three layers with one key, when they are merged, then the last value wins, and the other keys stay.
#[test]
fn v47_later_layer_wins() {
    let runtime = Snapshot::from_layers(vec![
        layer("static", &[("a", "1"), ("b", "true")]),
        layer("disk", &[("a", "2")]),
        layer("admin", &[("a", "3"), ("c", "x")]),
    ]);
    let shown: Vec<String> = runtime
        .entries()
        .map(|entry| format!("{}={} of {}", entry.key, entry.value, entry.layer.name()))
        .collect();
    assert_eq!(shown, ["a=3 of admin", "b=true of static", "c=x of admin"]);
    assert_eq!(runtime.get("a"), Some(&Value::Number(3.0)));
    let [first, ..] = runtime.layers() else {
        panic!("no layers")
    };
    assert_eq!((first.name(), runtime.len()), ("static", 3));
}

#[test]
fn v47_values_are_read_as_envoy_reads_them() {
    for (text, flag) in [
        ("true", Some(true)),
        ("FALSE", Some(false)),
        (" true\n", Some(true)),
        ("1", Some(true)),
        ("0", Some(false)),
        ("1.5", None),
        ("yes", None),
        ("", None),
        ("inf", None),
        ("{numerator: 100}", None),
    ] {
        assert_eq!(Value::from_text(text).as_flag(), flag, "{text:?}");
    }
    let fraction = Value::Fraction {
        numerator: 7,
        denominator: Denominator::Million,
    };
    for text in [
        "numerator: 7\ndenominator: MILLION\n",
        r#"{"numerator": 7, "denominator": "MILLION"}"#,
        "{denominator: 2, numerator: 7}",
    ] {
        assert_eq!(Value::from_text(text), fraction, "{text}");
    }
    for text in ["numerator: x", "{numerator: 1, numerator: 2}", "{}", "a: b"] {
        assert_eq!(Value::from_text(text), Value::Text(text.to_owned()));
    }
    assert_eq!(Value::from_text(&fraction.to_string()), fraction);
}

#[test]
fn v47_struct_becomes_dotted_keys() {
    let fraction = structure(vec![
        ("numerator", proto(Kind::NumberValue(7.0))),
        (
            "denominator",
            proto(Kind::StringValue("MILLION".to_owned())),
        ),
    ]);
    let inner = structure(vec![
        ("on", proto(Kind::BoolValue(true))),
        ("text", proto(Kind::StringValue("12".to_owned()))),
        ("part", proto(Kind::StructValue(fraction))),
    ]);
    let outer = structure(vec![("health", proto(Kind::StructValue(inner)))]);
    let layer = Layer::new("rtds", Source::Rtds("x".to_owned()))
        .with_struct(&outer)
        .unwrap();
    let shown: Vec<String> = layer
        .values()
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    assert_eq!(
        shown,
        [
            "health.on=true",
            "health.part={numerator: 7, denominator: MILLION}",
            "health.text=12"
        ]
    );
}

#[test]
fn v47_struct_with_wrong_types_is_an_error_with_key() {
    let list = || proto(Kind::ListValue(ListValue::default()));
    let fraction = structure(vec![("numerator", proto(Kind::NumberValue(1.5)))]);
    let mut deep = structure(vec![]);
    for _ in 0..20 {
        deep = structure(vec![("a", proto(Kind::StructValue(deep)))]);
    }
    let one = structure(vec![("b", proto(Kind::BoolValue(true)))]);
    let twice = structure(vec![
        ("a", proto(Kind::StructValue(one))),
        ("a.b", proto(Kind::BoolValue(false))),
    ]);
    for (values, error) in [
        (
            structure(vec![("a", list())]),
            "a: a list: expected a boolean, a number, a string or a fraction",
        ),
        (
            structure(vec![("a", proto(Kind::NullValue(0)))]),
            "a: null: expected a boolean, a number, a string or a fraction",
        ),
        (
            structure(vec![("a", proto(Kind::StructValue(fraction)))]),
            "a: not a fraction: expected numerator (an integer) and denominator (HUNDRED, TEN_THOUSAND or MILLION)",
        ),
        (twice, "a.b: second value: expected one value per key"),
        (
            structure(vec![("", proto(Kind::BoolValue(true)))]),
            "empty key: expected a name such as envoy.reloadable_features.x",
        ),
        (
            deep,
            "a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a: more than 16 levels: expected fewer",
        ),
    ] {
        let layer = Layer::new("l", Source::Static).with_struct(&values);
        assert_eq!(layer.unwrap_err().to_string(), error);
    }
}

/// Given a layer at a limit, when one more key or byte is added, then it is an error, and the layer stays as it was.
#[test]
fn v47_limits_of_layers_are_errors() {
    let mut layer = Layer::new("l", Source::Static);
    for number in 0..MAX_KEYS {
        layer.set(format!("k{number}"), Value::Bool(true)).unwrap();
    }
    let before = layer.clone();
    let too_many = layer.set("one.more".to_owned(), Value::Bool(true));
    assert_eq!(too_many, Err(LayerError::ManyKeys));
    assert_eq!(layer, before);
    layer.set("k1".to_owned(), Value::Bool(false)).unwrap();

    let mut layer = Layer::new("l", Source::Static);
    let huge = Value::Text("x".repeat(MAX_VALUE + 1));
    assert_eq!(
        layer.set("a".to_owned(), huge).unwrap_err().to_string(),
        "a: value of 65537 bytes: expected at most 65536 bytes"
    );
    let long = layer.set("k".repeat(MAX_KEY + 1), Value::Bool(true));
    let long = long.unwrap_err().to_string();
    assert!(long.starts_with("key of 1025 bytes, kkk"), "{long}");
    let big = || Value::Text("x".repeat(MAX_VALUE));
    let full = (0..2 * MAX_BYTES / MAX_VALUE)
        .map(|number| layer.set(number.to_string(), big()))
        .find_map(Result::err);
    assert_eq!(full, Some(LayerError::ManyBytes));
    layer.remove("0");
    layer
        .set("again".to_owned(), Value::Text("y".to_owned()))
        .unwrap();
}

#[test]
fn v47_readers_of_a_key_are_recorded() {
    let readers = Arc::new(Readers::default());
    let runtime = Snapshot::from_layers(vec![layer("static", &[("a", "true")])]);
    let checks = runtime.read_by("deprecation", Arc::clone(&readers));
    assert_eq!(
        runtime.read_by("other", Arc::clone(&readers)).flag("a"),
        Some(true)
    );
    assert_eq!((checks.flag("a"), checks.flag("unset")), (Some(true), None));
    assert_eq!(readers.of("a"), ["deprecation", "other"]);
    assert_eq!(readers.keys(), ["a", "unset"]);
    for number in 0..20_000 {
        readers.record(&number.to_string(), "flood");
    }
    assert_eq!(readers.keys().len(), 10_000);
}

#[test]
fn v47_environment_becomes_a_layer() {
    let variables = [
        ("GRPC_EXPERIMENTAL_XDS_FALLBACK", "FALSE"),
        ("GRPC_EXPERIMENTAL_LIMIT", "3"),
        ("HOME", "/root"),
    ];
    let variables = variables.map(|(name, value)| (name.into(), value.into()));
    let layer = Layer::environment(variables.into_iter());
    let runtime = Snapshot::from_layers(vec![layer]);
    assert_eq!(runtime.flag("GRPC_EXPERIMENTAL_XDS_FALLBACK"), Some(false));
    assert_eq!(runtime.len(), 2);
}

mod handle {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use super::layer;
    use crate::runtime::{Layer, LayerError, ModifyError, Runtime, Source, Value};

    fn runtime() -> Runtime {
        let admin = Layer::new("admin", Source::Admin);
        Runtime::new(vec![layer("disk", &[("a", "1")]), admin]).unwrap()
    }

    /// Given a subscription, when a value changes, then it is notified; when nothing changes, or it is dropped, then
    /// not.
    #[test]
    fn v47_subscription_is_notified_of_changes_only() {
        let runtime = runtime();
        let count = Arc::new(AtomicUsize::new(0));
        let (counted, read) = (Arc::clone(&count), runtime.clone());
        let subscription = runtime.on_change(move || {
            assert_eq!(read.snapshot().flag("a"), Some(false));
            counted.fetch_add(1, Relaxed);
        });
        assert_eq!(runtime.replace(layer("disk", &[("a", "1")])), Ok(false));
        assert_eq!(count.load(Relaxed), 0);
        assert_eq!(runtime.replace(layer("disk", &[("a", "0")])), Ok(true));
        assert_eq!(count.load(Relaxed), 1);
        drop(subscription);
        runtime.replace(layer("disk", &[])).unwrap();
        assert_eq!(count.load(Relaxed), 1);
    }

    #[test]
    fn v47_unknown_layer_is_an_error_with_the_known_ones() {
        let error = runtime().replace(layer("dsik", &[])).unwrap_err();
        assert_eq!(
            error.to_string(),
            "unknown layer \"dsik\": expected one of disk, admin"
        );
        let twice = Runtime::new(vec![layer("a", &[]), layer("a", &[])]);
        assert_eq!(twice.unwrap_err(), "a");
    }

    /// Given a failed load, then the last values stay and the error is shown, until a load succeeds.
    #[test]
    fn v47_failed_load_keeps_the_last_values() {
        let runtime = runtime();
        assert!(runtime.failed("disk", "a: not UTF-8"));
        assert!(!runtime.failed("disk", "a: not UTF-8"), "reported already");
        assert_eq!(runtime.snapshot().flag("a"), Some(true));
        let [disk, _] = &runtime.layers()[..] else {
            panic!("two layers")
        };
        assert_eq!(disk.error.as_deref(), Some("a: not UTF-8"));
        runtime.replace(layer("disk", &[("a", "0")])).unwrap();
        assert_eq!(runtime.layers()[0].error, None);
        let counts = runtime.counts();
        assert_eq!((counts.load_success, counts.load_error), (1, 2));
        assert_eq!((counts.num_keys, counts.num_layers), (1, 2));
    }

    #[test]
    fn v47_admin_changes_are_all_or_nothing() {
        let runtime = runtime();
        let set = |key: &str, value: Option<&str>| (key.to_owned(), value.map(Value::from_text));
        let modified = runtime.modify([set("a", Some("0")), set("", Some("1"))]);
        assert_eq!(modified, Err(ModifyError::Layer(LayerError::EmptyKey)));
        assert_eq!(runtime.snapshot().flag("a"), Some(true));
        runtime
            .modify([set("a", Some("0")), set("b", Some("x"))])
            .unwrap();
        assert_eq!(runtime.snapshot().flag("a"), Some(false));
        assert_eq!(runtime.counts().admin_overrides, 2);
        runtime.modify([set("a", None)]).unwrap();
        assert_eq!(runtime.snapshot().flag("a"), Some(true));
        let without = Runtime::default().modify([set("a", None)]);
        assert_eq!(without, Err(ModifyError::NoAdminLayer));
    }
}

#[cfg(feature = "server")]
mod disk {
    use std::path::Path;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    use crate::runtime::{Disk, LayerConfig, Layered, MAX_KEYS, MAX_VALUE};

    fn write(path: &Path, text: impl AsRef<[u8]>) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn shown(disk: &Disk) -> Vec<String> {
        let (layer, _) = disk.read("disk").unwrap();
        let values = layer.values().iter();
        values
            .map(|(key, value)| format!("{key}={value}"))
            .collect()
    }

    /// The example of Envoy's documentation: nested folders, comments, placeholders, hidden files of mounted volumes.
    #[test]
    fn v47_folder_has_the_layout_of_envoy() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        write(&root.join("health_check/min_interval"), "5\n");
        write(&root.join("upstream/a/b"), "# why\ngold \n\n");
        write(&root.join("placeholder"), "# later\n");
        write(
            &root.join("fraction"),
            "numerator: 1\ndenominator: MILLION\n",
        );
        write(&root.join("..data/x"), "1");
        write(&root.join(".swp"), "1");
        assert_eq!(
            shown(&Disk::new(root)),
            [
                "fraction={numerator: 1, denominator: MILLION}",
                "health_check.min_interval=5",
                "placeholder=",
                "upstream.a.b=gold",
            ]
        );
        assert_eq!(shown(&Disk::new(root.join("none")).optional()), [""; 0]);
    }

    #[test]
    fn v47_file_is_a_mapping_with_positions_in_errors() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("runtime.yaml");
        write(&file, "a.b: true\nc: {d: 3, e: x}\nf: {numerator: 2}\n");
        assert_eq!(
            shown(&Disk::new(&file)),
            [
                "a.b=true",
                "c.d=3",
                "c.e=x",
                "f={numerator: 2, denominator: HUNDRED}"
            ]
        );
        let huge = format!("a: 1\nb: {}\n", "x".repeat(MAX_VALUE + 1));
        for (text, error) in [
            (
                "a: 1\nb: [1]\n",
                ":2:4: a list: expected a boolean, a number, a string or a fraction",
            ),
            (
                "a: ~\n",
                ":1:4: null: expected a boolean, a number, a string or a fraction",
            ),
            ("a: 1\na: 2\n", ":2:1: duplicate key `a`"),
            (
                "a.b: 1\na: {b: 2}\n",
                ": a.b: second value: expected one value per key",
            ),
            ("- a\n", ":1:1: expected a mapping (`key: value`)"),
            (
                &*huge,
                ":2:4: value of 65537 bytes: expected at most 65536 bytes",
            ),
        ] {
            write(&file, text);
            let found = Disk::new(&file).read("disk").unwrap_err().to_string();
            let found = found.strip_prefix(&*file.to_string_lossy()).unwrap();
            assert_eq!(found, error, "{}", &text[..text.len().min(40)]);
        }
    }

    #[test]
    fn v47_folder_errors_name_the_file() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let error = || {
            let error = Disk::new(root).read("disk").unwrap_err().to_string();
            error.replace(&*root.to_string_lossy(), "ROOT")
        };
        write(&root.join("a/b"), b"\xff");
        assert_eq!(error(), "ROOT/a/b: not UTF-8");
        write(&root.join("a/b"), "x".repeat(MAX_VALUE + 1));
        assert_eq!(
            error(),
            "ROOT/a/b: a.b: value of 65537 bytes: expected at most 65536 bytes"
        );
        write(&root.join("a/b"), "x".repeat(2 << 20));
        assert_eq!(error(), "ROOT/a/b: larger than the limit of 1048576 bytes");
        write(&root.join("a/b"), "1");
        write(&root.join("a.b"), "2");
        assert!(
            error().ends_with(": a.b: second value: expected one value per key"),
            "{}",
            error()
        );
        std::fs::remove_file(root.join("a.b")).unwrap();
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(root, root.join("a/loop")).unwrap();
            assert!(
                error().ends_with(": more than 16 levels of folders: expected fewer"),
                "{}",
                error()
            );
        }
        let missing = Disk::new(root.join("none")).read("disk");
        let missing = missing.unwrap_err().to_string();
        assert!(missing.contains("none: No such file"), "{missing}");
    }

    /// Given a file with too many keys, or a million, then it is an error with the limit of a layer, or of a file.
    #[test]
    fn v47_million_keys_are_an_error() {
        use std::fmt::Write as _;
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("runtime.yaml");
        for (keys, limit) in [
            (
                MAX_KEYS + 1,
                format!("more than {MAX_KEYS} keys: expected fewer"),
            ),
            (
                1_000_000,
                "more than 250000 values: expected fewer".to_owned(),
            ),
        ] {
            let mut text = String::new();
            for number in 0..keys {
                let _ = writeln!(text, "k{number}: 1");
            }
            write(&file, text);
            let error = Disk::new(&file).read("disk").unwrap_err().to_string();
            assert!(error.starts_with(&*file.to_string_lossy()), "{error}");
            assert!(error.ends_with(&limit), "{error}");
        }
    }

    /// Given two folders behind a link that is turned over without end, when the layer is read, then its values are all
    /// old or all new.
    #[cfg(unix)]
    #[test]
    fn v47_turned_link_never_mixes_values() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().to_owned();
        for version in ["1", "2"] {
            for key in 0..50 {
                write(&root.join(version).join(key.to_string()), version);
            }
        }
        std::os::unix::fs::symlink("1", root.join("current")).unwrap();
        let done = Arc::new(AtomicBool::new(false));
        let turning = {
            let (root, done) = (root.clone(), Arc::clone(&done));
            std::thread::spawn(move || {
                for turn in 0_usize.. {
                    if done.load(Relaxed) {
                        return;
                    }
                    std::os::unix::fs::symlink(["2", "1"][turn % 2], root.join("next")).unwrap();
                    std::fs::rename(root.join("next"), root.join("current")).unwrap();
                }
            })
        };
        let (mut read, mut seen) = (0, [false; 2]);
        while read < 200 || seen != [true; 2] {
            // A folder that changes during every read is an error, and never a mixture.
            let Ok((layer, _)) = Disk::new(root.join("current")).read("disk") else {
                continue;
            };
            read += 1;
            let mut values = layer.values().values();
            let first = values.next().unwrap();
            assert_eq!(layer.values().len(), 50);
            assert!(values.all(|value| value == first), "a mixture");
            seen[usize::from(first.as_number() == Some(2.0))] = true;
        }
        done.store(true, Relaxed);
        turning.join().unwrap();
    }

    #[test]
    fn v47_layered_runtime_of_envoy_is_read() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("envoy.yaml");
        write(
            &file,
            "
node: {id: a, cluster: shop}
admin: {access_log_path: /dev/null}
layered_runtime:
  layers:
  - name: base
    static_layer: {envoy: {features: {x: true}}}
  - name: disk
    disk_layer: {symlink_root: /srv/runtime, subdirectory: envoy}
  - name: override
    disk_layer: {symlink_root: /srv/runtime, subdirectory: override, append_service_cluster: true}
  - name: rtds
    rtds_layer: {name: layer0, rtds_config: {ads: {}, resource_api_version: V3}}
  - name: admin
    admin_layer: {}
",
        );
        let layers = Layered::read(&file).unwrap().layers;
        let [
            LayerConfig::Static(base),
            LayerConfig::Disk { disk, .. },
            LayerConfig::Disk { disk: over, .. },
            LayerConfig::Rtds { resource, .. },
            LayerConfig::Admin { .. },
        ] = &layers[..]
        else {
            panic!("{layers:?}")
        };
        assert!(base.values().contains_key("envoy.features.x"));
        assert_eq!(disk.path(), Path::new("/srv/runtime/envoy"));
        assert_eq!(over.path(), Path::new("/srv/runtime/override/shop"));
        assert_eq!(resource, "layer0");
    }

    #[test]
    fn v47_invalid_layered_runtime_is_an_error() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("r.yaml");
        for (text, error) in [
            (
                "layers: [{name: a, magic_layer: {}}]",
                ":1:20: unknown field `magic_layer`, expected one of",
            ),
            (
                "layers: [{name: a}]",
                ": layer \"a\": expected exactly one of static_layer, disk_layer",
            ),
            (
                "layers: [{name: a, admin_layer: {}}, {name: a, admin_layer: {}}]",
                ": layer \"a\": second layer of this name",
            ),
            (
                "layers: [{name: a, admin_layer: {}}, {name: b, admin_layer: {}}]",
                ": more than one admin_layer",
            ),
            (
                "layers: [{name: a, disk_layer: {}}]",
                ": layer \"a\": disk_layer.symlink_root: not set",
            ),
            (
                "layers: [{name: a, rtds_layer: {rtds_config: {adz: {}}}}]",
                ": layer \"a\": rtds_layer.rtds_config: ",
            ),
            (
                "node: {}",
                ": no layers: expected layered_runtime or layers",
            ),
        ] {
            write(&file, text);
            let found = Layered::read(&file).unwrap_err().to_string();
            let found = found.strip_prefix(&*file.to_string_lossy()).unwrap();
            assert!(found.starts_with(error), "{found}");
        }
    }
}
