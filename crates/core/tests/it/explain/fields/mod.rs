//! Every field of Envoy's messages of routes and clusters is examined, reported as not examined, or of no effect on the
//! choice.
//!
//! ```text
//!  descriptors ─► fields ─► sorted? ─┬─ examined:  set it ─► the decision changes
//!                                    ├─ reported:  set it ─► the decision has a note with its name
//!                                    └─ no effect: set it ─► the same destinations, and no new note
//! ```
//! "Set it" fills a field of any type by reflection.

mod clusters;
mod sorted;

use std::collections::BTreeSet;

use bytes::Bytes;
use envoy_types::pb::envoy::config::listener::v3::{ApiListener, Listener};
use envoy_types::pb::google::protobuf::Any;
use oxds_core::explain::{Decision, Request, RuleSet};
use oxds_types::ResourceType;
use oxds_types::descriptor::message;
use prost::Message as _;
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, Value};

use self::sorted::{MANAGER, MESSAGES, OF_CLUSTERS, Sorted};
use super::{Made, ROUTER, leads};

const ROUTES: &str = "
  name: 'r'
  virtual_hosts { name: 'shop' domains: 'shop.example' domains: 'shop.example:80'
    routes {
      match { prefix: '/S' runtime_fraction { default_value { numerator: 100 } } }
      route { weighted_clusters { clusters { name: 'a' weight { value: 3 } } clusters { name: 'b' weight { value: 1 } } } } }
    routes { match { prefix: '' } route { cluster: 'c' } } }
  virtual_hosts { name: 'paths' domains: 'paths.example' routes { match { path: '/a/b' } route { cluster: 'a' } } }
  virtual_hosts { name: 'headers' domains: 'headers.example'
    routes { match { prefix: '' headers { name: ':scheme' present_match: true invert_match: true } } route { cluster: 'a' } }
    routes { match { prefix: '' headers { name: 'User-Agent' present_match: true } } route { cluster: 'a' } }
    routes { match { prefix: '' headers { name: 'via' present_match: true } } route { cluster: 'a' } }
    routes { match { prefix: '' headers { name: 'x-envoy-internal' present_match: true } } route { cluster: 'a' } }
    routes { match { prefix: '' headers { name: 'x-forwarded-client-cert' present_match: true } } route { cluster: 'a' } }
    routes { match { prefix: '' headers { name: 'x-forwarded-for' present_match: true } } route { cluster: 'a' } }
    routes { match { prefix: '' headers { name: 'x-forwarded-port' present_match: true } } route { cluster: 'a' } }
    routes { match { prefix: '' headers { name: 'x-forwarded-proto' present_match: true } } route { cluster: 'a' } }
    routes { match { prefix: '' headers { name: 'x-request-id' present_match: true } } route { cluster: 'a' } } }
  virtual_hosts { name: 'conditions' domains: 'conditions.example'
    routes { match { path: '/headers' headers { name: 'y' string_match { safe_regex { regex: '1?' } } } } route { cluster: 'a' } }
    routes { match { path: '/query' query_parameters { name: 'y' string_match { exact: '1' } } } route { cluster: 'a' } }
    routes { match { path: '/cookies' cookies { name: 'y' string_match { exact: '1' } } } route { cluster: 'a' } }
    routes { match { path: '/redirect' } redirect {} }
    routes { match { path: '/direct' } direct_response { status: 200 } } }";

/// Requests that together make each field count.
fn requests() -> Vec<Request> {
    let get = |authority: &str, path: &str| Request::http("GET", path, authority).header("x", "1");
    vec![
        get("shop.example", "/S/x"),
        get("shop.example", "/s/x"),
        get("shop.example:80", "/S/.%2F").header("x_y", "1"),
        get("shop.example.", "/S/x"),
        get("shop.example", "/S/x").header("upgrade", "websocket"),
        get("paths.example", "/a//b"),
        get("paths.example", "/a/b;p"),
        get("headers.example", "/"),
        get("none.example", "/"),
        get("x", "/"),
        get("conditions.example", "/headers"),
        get("conditions.example", "/headers").header("y", "1"),
        get("conditions.example", "/headers").header("y", "2"),
        get("conditions.example", "/query?y=1"),
        get("conditions.example", "/query?y=2"),
        get("conditions.example", "/cookies").header("cookie", "y=1"),
        get("conditions.example", "/cookies").header("cookie", "y=2"),
        get("conditions.example", "/redirect?x"),
        get("conditions.example", "/direct"),
    ]
}

/// The connection manager and the route configuration of a test.
struct World {
    manager: DynamicMessage,
    routes: DynamicMessage,
}

impl World {
    fn new() -> Self {
        let manager = format!(
            "rds {{ route_config_name: 'r' config_source {{ ads {{}} }} }}
             http_filters {{ name: 'x' typed_config {{ [type.googleapis.com/envoy.extensions.filters.http.cors.v3.Cors] {{}} }} }}
             {ROUTER}"
        );
        let parse = |name: &str, text: &str| {
            DynamicMessage::parse_text_format(message(name).unwrap(), text).unwrap()
        };
        Self {
            manager: parse(MANAGER, &manager),
            routes: parse("envoy.config.route.v3.RouteConfiguration", ROUTES),
        }
    }

    /// The world with one field set.
    fn with(sorted: &Sorted, field: &FieldDescriptor) -> Self {
        let mut world = Self::new();
        let root = match sorted.message {
            MANAGER => &mut world.manager,
            _ => &mut world.routes,
        };
        change(root, sorted.path, &mut |message| {
            // Only one of the two names the cluster, although they do not form a oneof.
            if field.name() == "cluster_header" {
                message.clear_field_by_name("name");
            }
            set(message, field, 3);
        });
        world
    }

    fn decisions(&self) -> Vec<Decision> {
        let listener = Listener {
            name: "l".to_owned(),
            api_listener: Some(ApiListener {
                api_listener: Some(Any {
                    type_url: format!("type.googleapis.com/{MANAGER}"),
                    value: self.manager.encode_to_vec(),
                }),
            }),
            ..Listener::default()
        };
        let mut made = Made::default();
        let mut add = |resource_type, name: &str, value: Vec<u8>| {
            made.0
                .insert((resource_type, name.to_owned()), Bytes::from(value))
        };
        add(ResourceType::LISTENER, "l", listener.encode_to_vec());
        add(ResourceType::ROUTE, "r", self.routes.encode_to_vec());
        let mut explainer = made.explainer();
        let requests = requests().into_iter();
        let decisions = requests.map(|request| {
            let mut explanation = explainer.explain(&request, &[RuleSet::Envoy]);
            explanation.answers.remove(0).decision
        });
        decisions.collect()
    }
}

/// Changes the message to which these fields lead.
fn change(root: &mut DynamicMessage, path: &[&str], edit: &mut dyn FnMut(&mut DynamicMessage)) {
    let Some((step, rest)) = path.split_first() else {
        return edit(root);
    };
    let (name, index) = step.split_once(':').unwrap_or((step, "0"));
    let value = root.get_field_by_name_mut(name).unwrap();
    let inner = match value {
        Value::List(values) => values[index.parse::<usize>().unwrap()].as_message_mut(),
        value => value.as_message_mut(),
    };
    change(inner.unwrap(), rest, edit);
}

/// Sets a field, or adds to it. Messages are filled up to a depth.
fn set(message: &mut DynamicMessage, field: &FieldDescriptor, depth: usize) {
    if field.is_map() {
        let Kind::Message(entry) = field.kind() else {
            unreachable!("a map has entries");
        };
        let value = value(&entry.map_entry_value_field(), depth);
        let map = message.get_field_mut(field).as_map_mut().unwrap();
        map.insert(MapKey::String("x".to_owned()), value);
    } else if field.is_list() {
        let value = value(field, depth);
        let list = message.get_field_mut(field).as_list_mut().unwrap();
        list.push(value);
    } else {
        message.set_field(field, value(field, depth));
    }
}

fn value(field: &FieldDescriptor, depth: usize) -> Value {
    match field.kind() {
        // True is the default of this one.
        Kind::Message(descriptor) if field.name() == "case_sensitive" => {
            Value::Message(DynamicMessage::new(descriptor))
        }
        Kind::Message(descriptor) => Value::Message(filled(&descriptor, depth)),
        Kind::Enum(descriptor) => Value::EnumNumber(descriptor.values().last().unwrap().number()),
        // A disabled filter has no effect.
        Kind::Bool => Value::Bool(field.name() != "disabled"),
        Kind::String => Value::String("x".to_owned()),
        Kind::Bytes => Value::Bytes(Bytes::from_static(b"x")),
        Kind::Uint32 | Kind::Fixed32 => Value::U32(1),
        Kind::Uint64 | Kind::Fixed64 => Value::U64(1),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => Value::I32(1),
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => Value::I64(1),
        Kind::Float => Value::F32(1.0),
        Kind::Double => Value::F64(1.0),
    }
}

fn filled(descriptor: &MessageDescriptor, depth: usize) -> DynamicMessage {
    let mut message = DynamicMessage::new(descriptor.clone());
    for field in descriptor.fields().filter(|_| depth > 0) {
        set(&mut message, &field, depth - 1);
    }
    message
}

/// Whether a note names a field.
fn names(decision: &Decision, field: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut notes = decision.not_examined.iter();
    notes.any(|note| note.split(|c| !is_part(c)).any(|word| word == field))
}

#[test]
fn each_field_is_sorted_once() {
    for sorted in MESSAGES.iter().chain(&OF_CLUSTERS) {
        let descriptor = message(sorted.message).unwrap();
        let fields = descriptor.fields();
        let fields: BTreeSet<_> = fields.map(|field| field.name().to_owned()).collect();
        let lists = [sorted.examined, sorted.reported, sorted.no_effect].concat();
        let table: BTreeSet<_> = lists.iter().map(|field| (*field).to_owned()).collect();
        assert_eq!(fields, table, "{}", sorted.message);
        assert_eq!(lists.len(), table.len(), "twice in {}", sorted.message);
    }
}

/// All fields of a list, with what the decisions are without and with the field.
fn compare(
    list: impl Fn(&Sorted) -> &'static [&'static str],
    is_right: impl Fn(&str, &[Decision], &[Decision]) -> bool,
) {
    let base = World::new().decisions();
    let mut wrong = Vec::new();
    for sorted in &MESSAGES {
        let descriptor = message(sorted.message).unwrap();
        for name in list(sorted) {
            let field = descriptor.get_field_by_name(name).unwrap();
            let decisions = World::with(sorted, &field).decisions();
            if !is_right(name, &base, &decisions) {
                wrong.push(format!("{}.{name}", sorted.message));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn plain_routes_have_no_notes() {
    let decisions = World::new().decisions();
    assert_eq!(leads(&decisions[0]), "a 75.0000%, b 25.0000%");
    assert_eq!(leads(&decisions[11]), "a", "a header");
    assert_eq!(leads(&decisions[13]), "a", "a query parameter");
    assert_eq!(leads(&decisions[15]), "a", "a cookie");
    for (index, plain) in [(0, true), (1, true), (4, false), (7, false), (9, true)] {
        let notes = &decisions[index].not_examined;
        assert_eq!(notes.is_empty(), plain, "{index}: {notes:?}");
    }
}

#[test]
fn examined_fields_change_the_decision() {
    compare(|sorted| sorted.examined, |_, base, found| base != found);
}

#[test]
fn reported_fields_are_noted() {
    let noted = |name: &str, _: &[Decision], found: &[Decision]| {
        found.iter().any(|decision| names(decision, name))
    };
    compare(|sorted| sorted.reported, noted);
}

#[test]
fn fields_without_effect_change_no_destination() {
    let same = |_: &str, base: &[Decision], found: &[Decision]| {
        let mut pairs = base.iter().zip(found);
        pairs.all(|(a, b)| leads(a) == leads(b) && a.not_examined == b.not_examined)
    };
    compare(|sorted| sorted.no_effect, same);
}
