//! Translation of generated messages between v3 and the v4alpha that Envoy's own tool made: nothing is lost.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::collections::BTreeSet;
use std::fs::File;
use std::hash::{BuildHasher as _, RandomState};
use std::path::Path;

use flate2::read::GzDecoder;
use oxds_apicheck::descriptors::descriptor_set;
use oxds_apicheck::input::{self, Input, LoadOptions};
use oxds_apicheck::model::Tree;
use oxds_types::codec::descriptor_pool;
use oxds_types::translate::{Incompatibility, Major, Options, Translator};
use prost::Message as _;
use prost_reflect::{
    DescriptorPool, DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, Value,
};

/// Returns the golden tree of `oxds-apicheck`: v2, v3 and v4alpha of 2021-08-18.
fn golden() -> Tree {
    let archive = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../apicheck/testdata/golden/envoy-api-2021-08-18.tar.gz");
    let folder = tempfile::tempdir().expect("a folder");
    let mut archive = tar::Archive::new(GzDecoder::new(File::open(archive).expect("the archive")));
    archive.unpack(folder.path()).expect("an unpacked tree");
    let top = folder.path().join("envoy-api-2021-08-18");
    let mut options = LoadOptions::default();
    options.includes = vec![top.join("deps")];
    options.excludes = vec!["deps".to_owned()];
    input::load(&Input::Folder(top), &options).unwrap_or_else(|error| panic!("{error:?}"))
}

/// A generator of messages that set no field which the other major removed (SplitMix64).
struct Generator<'a> {
    state: u64,
    up: &'a Translator,
    /// Types for the content of `Any` messages.
    types: &'a [MessageDescriptor],
}

impl Generator<'_> {
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    fn message(&mut self, descriptor: &MessageDescriptor, depth: usize) -> DynamicMessage {
        let mut message = DynamicMessage::new(descriptor.clone());
        if descriptor.full_name() == "google.protobuf.Any" {
            self.any(&mut message, depth);
            return message;
        }
        if descriptor.full_name().ends_with(".TypedStruct")
            || descriptor.full_name() == "google.protobuf.Struct"
        {
            return message;
        }
        for field in descriptor.fields() {
            // Half of the fields near the top, few further below, so that messages stay small.
            let wanted = self.below(if depth > 2 { 2 } else { 4 }) == 0;
            let kept = self
                .up
                .field(descriptor.full_name(), field.number())
                .is_some();
            let oneof = field.containing_oneof();
            let free =
                oneof.is_none_or(|oneof| !oneof.fields().any(|other| message.has_field(&other)));
            let kind = field.kind();
            if wanted && kept && free && (depth > 0 || kind.as_message().is_none()) {
                let value = self.field(&field, depth);
                message.set_field(&field, value);
            }
        }
        message
    }

    fn any(&mut self, any: &mut DynamicMessage, depth: usize) {
        let (name, value) = if depth == 0 || self.below(4) == 0 {
            ("own.v3.Extension".to_owned(), b"\x0a\x01x".to_vec())
        } else {
            let index = self.below(self.types.len());
            let inner = self.types[index].clone();
            (
                inner.full_name().to_owned(),
                self.message(&inner, depth - 1).encode_to_vec(),
            )
        };
        any.set_field_by_number(1, Value::String(format!("type.googleapis.com/{name}")));
        any.set_field_by_number(2, Value::Bytes(value.into()));
    }

    fn field(&mut self, field: &FieldDescriptor, depth: usize) -> Value {
        match field.kind() {
            Kind::Message(entry) if field.is_map() => {
                let (key, value) = (entry.map_entry_key_field(), entry.map_entry_value_field());
                let count = 1 + self.below(2);
                Value::Map(
                    (0..count)
                        .map(|_| (self.key(&key.kind()), self.value(&value.kind(), depth)))
                        .collect(),
                )
            }
            kind if field.is_list() => {
                let count = 1 + self.below(2);
                Value::List((0..count).map(|_| self.value(&kind, depth)).collect())
            }
            kind => self.value(&kind, depth),
        }
    }

    fn key(&mut self, kind: &Kind) -> MapKey {
        let bits = self.next();
        match kind {
            Kind::String => MapKey::String(format!("k{}", bits % 10)),
            Kind::Bool => MapKey::Bool(bits & 1 == 1),
            Kind::Uint32 | Kind::Fixed32 => MapKey::U32(bits as u32),
            Kind::Uint64 | Kind::Fixed64 => MapKey::U64(bits),
            Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => MapKey::I32(bits as i32),
            _ => MapKey::I64(bits as i64),
        }
    }

    fn value(&mut self, kind: &Kind, depth: usize) -> Value {
        let bits = self.next();
        match kind {
            Kind::Double => Value::F64(bits as f64 / 7.0),
            Kind::Float => Value::F32(bits as f32 / 7.0),
            Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => Value::I32(bits as i32),
            Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => Value::I64(bits as i64),
            Kind::Uint32 | Kind::Fixed32 => Value::U32(bits as u32),
            Kind::Uint64 | Kind::Fixed64 => Value::U64(bits),
            Kind::Bool => Value::Bool(bits & 1 == 1),
            Kind::String => Value::String(format!("text {}", bits % 1000)),
            Kind::Bytes => Value::Bytes(bits.to_le_bytes().to_vec().into()),
            Kind::Enum(of) => {
                let values: Vec<i32> = of.values().map(|value| value.number()).collect();
                Value::EnumNumber(values[self.below(values.len())])
            }
            Kind::Message(inner) => Value::Message(self.message(inner, depth.saturating_sub(1))),
        }
    }
}

fn translator(pool: &DescriptorPool, major: &str) -> Translator {
    let major: Major = major.parse().unwrap();
    let translator = Translator::new(pool.clone(), pool.clone(), major, Options::default());
    let translator = translator.unwrap_or_else(|errors| panic!("{errors:#?}"));
    translator
        .check()
        .unwrap_or_else(|errors| panic!("{errors:#?}"));
    translator
}

/// Translates this many messages to v4alpha and back. The returned numbers count packages and files of the messages.
fn round_trips(seed: u64, messages: usize) {
    let tree = golden();
    let pool = descriptor_pool(&descriptor_set(&tree)).unwrap();
    let (up, down) = (translator(&pool, "v4alpha"), translator(&pool, "v3"));
    let types: Vec<MessageDescriptor> = pool
        .all_messages()
        .filter(|message| !message.is_map_entry())
        .filter(|message| {
            let name = message.full_name();
            let new = up.name(name).filter(|new| *new != name);
            // The direct predecessors of v4alpha: v3 and v3alpha.
            new.is_some_and(|new| new.contains(".v4alpha.") && down.name(new) == Some(name))
        })
        .collect();
    let target = |name: &str| pool.get_message_by_name(up.name(name).unwrap()).unwrap();
    let packages: BTreeSet<String> = types
        .iter()
        .map(|one| target(one.full_name()).package_name().to_owned())
        .collect();
    let files: BTreeSet<String> = types
        .iter()
        .map(|one| target(one.full_name()).parent_file().name().to_owned())
        .collect();
    let v4: Vec<&str> = tree
        .files
        .iter()
        .map(|file| &*file.path)
        .filter(|path| path.contains("/v4alpha/"))
        .collect();
    let without_messages = v4.iter().filter(|path| {
        let file = pool.get_file_by_name(path).unwrap();
        file.messages().len() == 0
    });
    assert_eq!(
        (packages.len(), files.len() + without_messages.count()),
        (72, 125)
    );

    let mut generator = Generator {
        state: seed,
        up: &up,
        types: &types,
    };
    let (mut kept, mut reported) = (0, 0);
    for turn in 0.. {
        if kept == messages {
            break;
        }
        let descriptor = &types[turn % types.len()];
        let name = descriptor.full_name();
        let old = generator.message(descriptor, 4);
        let bytes = old.encode_to_vec();
        // The encoding omits what has its default value.
        let old = DynamicMessage::decode(descriptor.clone(), &*bytes).unwrap();
        let new = up
            .translate(name, &bytes)
            .unwrap_or_else(|error| panic!("{name}: {error}\n{old}"));
        if !new.dropped.is_empty() {
            // No field was removed; a value was, or fields meet in a oneof.
            let known = new.dropped.iter().all(|one| {
                matches!(
                    one.cause,
                    Incompatibility::NoEnumValue { .. } | Incompatibility::OneOf { .. }
                )
            });
            assert!(known, "{name}: {:#?}\n{old}", new.dropped);
            reported += 1;
            continue;
        }
        let decoded = DynamicMessage::decode(target(name), &*new.value).unwrap();
        assert_eq!(decoded.unknown_fields().count(), 0, "{name}: {old}");
        let again = down.translate(&new.message, &new.value);
        let again = again.unwrap_or_else(|error| panic!("{name}: {error}\n{old}"));
        assert_eq!(again.message, name);
        let restored = DynamicMessage::decode(descriptor.clone(), &*again.value).unwrap();
        assert_eq!(restored, old, "{name}");
        kept += 1;
    }
    assert!(
        reported < messages / 2,
        "{reported} of {messages} messages lost a value"
    );
}

#[test]
fn v40_v41_v3_survives_v4alpha_without_loss() {
    round_trips(40, 10_000);
}

#[test]
fn v40_v41_v3_survives_v4alpha_for_a_random_seed() {
    let given = std::env::var("OXDS_SEED")
        .ok()
        .map(|seed| seed.parse().expect("OXDS_SEED is a number"));
    let seed = given.unwrap_or_else(|| RandomState::new().hash_one("seed"));
    println!("to repeat: OXDS_SEED={seed} cargo test -p oxds --test it v40_v41");
    round_trips(seed, 10_000);
}

/// Given Envoy's changes from v3 to v4alpha, when stubs are written, then they are valid Rust with a decision per
/// removed field.
#[test]
fn v42_stubs_of_v4alpha_are_valid_rust() {
    let pool = descriptor_pool(&descriptor_set(&golden())).unwrap();
    let text = translator(&pool, "v4alpha").skeleton().unwrap();
    let file = syn::parse_file(&text).unwrap_or_else(|error| panic!("{error}"));
    assert!(file.items.len() > 100, "{} functions", file.items.len());
    let removed =
        "todo!(\"track_timeout_budgets: envoy.config.cluster.v4alpha.Cluster has no such field\")";
    assert!(text.contains(removed), "{text}");
    assert!(
        text.contains("observability_name: old.alt_stat_name,"),
        "{text}"
    );
}

/// Given messages of v2 in the same tree, when they are translated to v4alpha, then v3 in between is followed.
#[test]
fn v40_v2_reaches_v4alpha_over_v3() {
    let tree = golden();
    let pool = descriptor_pool(&descriptor_set(&tree)).unwrap();
    let up = translator(&pool, "v4alpha");
    assert_eq!(
        up.name("envoy.api.v2.Cluster"),
        Some("envoy.config.cluster.v4alpha.Cluster")
    );
    assert_eq!(
        up.name("envoy.api.v2.core.Locality"),
        Some("envoy.config.core.v4alpha.Locality")
    );
    let cluster = pool.get_message_by_name("envoy.api.v2.Cluster").unwrap();
    let cluster =
        DynamicMessage::parse_text_format(cluster, "name: 'a' alt_stat_name: 'b' hosts {}")
            .unwrap();
    let done = up
        .translate("envoy.api.v2.Cluster", &cluster.encode_to_vec())
        .unwrap();
    let new = DynamicMessage::decode(
        pool.get_message_by_name(&done.message).unwrap(),
        &*done.value,
    )
    .unwrap();
    assert_eq!(
        new.get_field_by_name("observability_name")
            .unwrap()
            .as_str(),
        Some("b")
    );
    assert_eq!(done.dropped.len(), 1);
    assert_eq!(
        done.dropped[0].to_string(),
        "hosts: envoy.config.cluster.v3.Cluster has no such field"
    );
}
