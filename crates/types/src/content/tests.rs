//! Tests of contents: secrets are hidden, and comparisons are complete.

use std::path::Path;

use serde_json::{Value, json};

use super::key::keys;
use super::node::{Content, Entry};
use super::read::from_json;
use super::secret::hide_secrets;
use super::{FieldChange, ValueChange, compare, read};
use crate::codec::{self, Format, Options, canonical};
use crate::discovery::Any;
use crate::generator::Generator;
use crate::path::Step;
use crate::schema;

const HIDDEN: &str = "(not shown)";

fn resource(message: &str, yaml: &str) -> Content {
    let text = format!("'@type': type.googleapis.com/{message}\n{yaml}\n");
    let loaded = codec::decode(
        Path::new("a.yaml"),
        Format::Yaml,
        text.as_bytes(),
        &Options::default(),
    );
    let any = loaded.expect("valid").remove(0).any;
    read(&any).expect("known")
}

fn routes(yaml: &str) -> Content {
    resource("envoy.config.route.v3.RouteConfiguration", yaml)
}

fn shown(content: &Content) -> String {
    serde_json::to_string(content).unwrap()
}

/// Returns the changes as lines: `path: old -> new`.
fn lines(old: &Content, new: &Content) -> Vec<String> {
    let line = |change: FieldChange| {
        let path = change.path();
        match change.change {
            ValueChange::Added(new) => format!("+ {path}: {}", shown(&new)),
            ValueChange::Removed(old) => format!("- {path}: {}", shown(&old)),
            ValueChange::Changed { old, new } => {
                format!("~ {path}: {} -> {}", shown(&old), shown(&new))
            }
            ValueChange::Order { new, .. } => format!("~ {path}: order {}", new.join(", ")),
        }
    };
    compare(old, new).into_iter().map(line).collect()
}

#[test]
fn fields_are_named_by_natural_keys() {
    let old = routes(
        "name: main
virtual_hosts:
- name: shop
  domains: [shop, shop.example]
  routes:
  - {match: {prefix: /a}, route: {cluster: a, timeout: 1s}}
  - {match: {prefix: /}, route: {cluster: b}}",
    );
    let new = routes(
        "name: main
virtual_hosts:
- name: shop
  domains: [shop, '*.shop.example']
  routes:
  - {match: {prefix: /new}, route: {cluster: c}}
  - {match: {prefix: /a}, route: {cluster: a2, timeout: 1.500s}}
  - {match: {prefix: /}, route: {cluster: b}}",
    );
    assert_eq!(
        lines(&old, &new),
        [
            r#"- virtual_hosts["shop"].domains["shop.example"]: "shop.example""#,
            r#"+ virtual_hosts["shop"].domains["*.shop.example"]: "*.shop.example""#,
            r#"~ virtual_hosts["shop"].routes["prefix: /a"].route.cluster: "a" -> "a2""#,
            r#"~ virtual_hosts["shop"].routes["prefix: /a"].route.timeout: "1s" -> "1.500s""#,
            r#"+ virtual_hosts["shop"].routes["prefix: /new"]: {"match":{"prefix":"/new"},"route":{"cluster":"c"}}"#,
            r#"~ virtual_hosts["shop"].routes: order prefix: /new, prefix: /a, prefix: /"#,
        ]
    );
}

#[test]
fn endpoints_are_paired_by_locality_and_address() {
    let endpoint = |port: u16| {
        format!(
            "{{endpoint: {{address: {{socket_address: {{address: 10.0.0.1, port_value: {port}}}}}}}}}"
        )
    };
    let assignment = |endpoints: &str| {
        resource(
            "envoy.config.endpoint.v3.ClusterLoadAssignment",
            &format!(
                "cluster_name: a\nendpoints:\n- locality: {{region: eu, zone: b}}\n  lb_endpoints: [{endpoints}]"
            ),
        )
    };
    let old = assignment(&[endpoint(80), endpoint(81)].join(", "));
    let heavy = endpoint(81).replacen('{', "{load_balancing_weight: 7, ", 1);
    let new = assignment(&[heavy, endpoint(82)].join(", "));
    let locality = r#"endpoints["region: eu, zone: b"].lb_endpoints"#;
    let found = lines(&old, &new);
    assert_eq!(found.len(), 3, "{found:#?}");
    assert!(
        found[0].starts_with(&format!("- {locality}[\"10.0.0.1:80\"]: ")),
        "{found:#?}"
    );
    assert_eq!(
        found[1],
        format!("+ {locality}[\"10.0.0.1:81\"].load_balancing_weight: 7")
    );
    assert!(
        found[2].starts_with(&format!("+ {locality}[\"10.0.0.1:82\"]: ")),
        "{found:#?}"
    );
}

#[test]
fn content_of_an_any_is_compared_by_its_type() {
    let options = |settings: &str| {
        resource(
            "envoy.config.cluster.v3.Cluster",
            &format!(
                "name: a\ntyped_extension_protocol_options:\n  o: {{'@type': type.googleapis.com/{settings}}}"
            ),
        )
    };
    let of_http = |ip: &str| {
        options(&format!(
            "envoy.config.core.v3.SocketAddress, address: {ip}, port_value: 1"
        ))
    };
    let path = r#"typed_extension_protocol_options["o"]"#;
    assert_eq!(
        lines(&of_http("10.0.0.1"), &of_http("10.0.0.2")),
        [format!("~ {path}.address: \"10.0.0.1\" -> \"10.0.0.2\"")]
    );
    let other = lines(
        &of_http("10.0.0.1"),
        &options("envoy.config.core.v3.Locality, zone: z"),
    );
    assert!(
        other.len() == 1 && other[0].starts_with(&format!("~ {path}: ")),
        "{other:#?}"
    );
}

/// Given two clusters that differ only in secrets, then each is named by its path, and no value is shown.
#[test]
fn s78_secrets_differ_and_are_not_shown() {
    let cluster = |secret: &str| {
        resource(
            "envoy.config.cluster.v3.Cluster",
            &format!(
                "name: a
transport_socket:
  name: tls
  typed_config:
    '@type': type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext
    common_tls_context:
      tls_certificates:
      - private_key: {{inline_string: {secret}}}
        certificate_chain: {{inline_string: public}}
metadata:
  filter_metadata:
    app: {{password: {secret}}}"
            ),
        )
    };
    let (old, new) = (cluster("HUSH1"), cluster("HUSH2"));
    assert!(!shown(&old).contains("HUSH"), "{}", shown(&old));
    assert!(!format!("{old:?}").contains("HUSH"));
    assert!(shown(&old).contains("public"));
    let found = lines(&old, &new);
    assert_eq!(
        found,
        [
            r#"~ transport_socket.common_tls_context.tls_certificates[0].private_key.inline_string: "(not shown)" -> "(not shown)""#,
            r#"~ metadata.filter_metadata["app"]["password"]: "(not shown)" -> "(not shown)""#,
        ]
        .map(|line| line.replace("transport_socket.common", "transport_socket.typed_config.common"))
    );
}

#[test]
fn s78_content_of_a_secret_is_hidden_but_its_name() {
    let secret = resource(
        "envoy.extensions.transport_sockets.tls.v3.Secret",
        "name: key\ngeneric_secret: {secret: {filename: /run/HUSH}}",
    );
    assert_eq!(
        shown(&secret),
        format!(
            r#"{{"@type":"type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret","name":"key","generic_secret":{{"secret":{{"filename":"{HIDDEN}"}}}}}}"#
        )
    );
    // Marked by the API (`udpa.annotations.sensitive`), and named by no word of the list.
    let marked = resource(
        "envoy.config.listener.v3.Listener",
        "name: l
filter_chains:
- filters:
  - name: redis
    typed_config:
      '@type': type.googleapis.com/envoy.extensions.filters.network.redis_proxy.v3.RedisProxy
      stat_prefix: r
      settings: {op_timeout: 1s}
      downstream_auth_username: {inline_string: HUSH}
      downstream_auth_password: {filename: /run/public}",
    );
    assert!(shown(&marked).contains("/run/public"), "{}", shown(&marked));
    assert!(shown(&marked).contains(HIDDEN), "{}", shown(&marked));
    assert!(!shown(&marked).contains("HUSH"), "{}", shown(&marked));
}

/// Given secrets of each sort in messages with descriptors, then they are hidden, and what is beside them is shown.
#[test]
fn s78_secrets_of_each_sort_are_hidden() {
    const TLS: &str = "envoy.extensions.transport_sockets.tls.v3";
    const FILTERS: &str = "envoy.extensions.filters.http";
    let cases = [
        (
            format!("{TLS}.UpstreamTlsContext"),
            "common_tls_context: {tls_certificates: [{private_key: {inline_bytes: SFVTSA==}, certificate_chain: {inline_string: PUBLIC}}]}",
        ),
        (
            format!("{TLS}.UpstreamTlsContext"),
            "common_tls_context: {tls_certificates: [{private_key: {filename: PUBLIC}, password: {inline_string: HUSH}}]}",
        ),
        (
            format!("{TLS}.DownstreamTlsContext"),
            "{session_ticket_keys: {keys: [{inline_string: HUSH}]}, common_tls_context: {alpn_protocols: [PUBLIC]}}",
        ),
        (
            format!("{FILTERS}.ext_authz.v3.ExtAuthzPerRoute"),
            "check_settings: {context_extensions: {PUBLIC: HUSH}}",
        ),
        (
            format!("{FILTERS}.api_key_auth.v3.ApiKeyAuthPerRoute"),
            "{credentials: [{key: HUSH, client: HUSH}], allowed_clients: [PUBLIC]}",
        ),
        (
            format!("{FILTERS}.basic_auth.v3.BasicAuth"),
            "{users: {inline_string: HUSH}, forward_username_header: PUBLIC}",
        ),
        (
            "envoy.config.core.v3.GrpcService".to_owned(),
            "{google_grpc: {target_uri: PUBLIC, stat_prefix: s, call_credentials: [{access_token: HUSH}]}, initial_metadata: [{key: x-api-key, value: HUSH}]}",
        ),
        (
            "envoy.config.core.v3.Metadata".to_owned(),
            "filter_metadata: {PUBLIC: {accessToken: HUSH, credentials: {id: HUSH, of: [HUSH]}}}",
        ),
        (
            format!("{FILTERS}.local_ratelimit.v3.LocalRateLimit"),
            "{stat_prefix: PUBLIC, token_bucket: {max_tokens: 7, fill_interval: 1s}, request_headers_to_add_when_not_enforced: [{header: {key: cookie, value: HUSH}}]}",
        ),
    ];
    for (message, yaml) in cases {
        let cluster = |settings: &str| {
            let settings = settings
                .strip_prefix('{')
                .and_then(|s| s.strip_suffix('}'))
                .filter(|_| settings.starts_with('{'))
                .unwrap_or(settings);
            resource(
                "envoy.config.cluster.v3.Cluster",
                &format!(
                    "name: a\ntyped_extension_protocol_options:\n  credentials: {{'@type': type.googleapis.com/{message}, {settings}}}"
                ),
            )
        };
        let shown = shown(&cluster(yaml));
        assert!(
            !shown.contains("HUSH") && !shown.contains("SFVTSA"),
            "{shown}"
        );
        assert!(
            shown.contains("PUBLIC") && shown.contains(HIDDEN),
            "{shown}"
        );
        assert!(shown.contains(&message), "{shown}");
        assert_eq!(
            yaml.contains("max_tokens"),
            shown.contains("\"max_tokens\":7"),
            "{shown}"
        );
    }
}

#[test]
fn s78_inline_data_and_headers_with_secrets_are_hidden() {
    let read = |value: &Value| {
        let mut content = from_json(value.clone());
        hide_secrets(&mut content, "");
        shown(&content)
    };
    for value in [
        json!({"tls_certificates": [{"private_key": {"inline_string": "HUSH"}}]}),
        json!({"session_ticket_keys": {"keys": [{"inline_bytes": "HUSH"}]}}),
        json!({"password": "HUSH"}),
        json!({"auth_password": {"inline_string": "HUSH"}}),
        json!({"request_headers_to_add": [{"header": {"key": "Authorization", "value": "HUSH"}}]}),
        json!({"header": {"value": "HUSH", "key": "x-api-key"}}),
        json!({"headers": [{"name": "authorization", "string_match": {"exact": "HUSH"}}]}),
        json!({"users": {"inline_string": "HUSH"}}),
        json!({"credentials": [{"access_token": "HUSH"}]}),
        json!({"apiKey": "HUSH"}),
        json!({"private-key": {"pem": ["HUSH"]}}),
        json!({"tokens": ["HUSH"]}),
        json!({"Set-Cookie": "HUSH"}),
        json!({"password": "HUSH", "pin": {"passphrase": 4711}}),
    ] {
        let shown = read(&value);
        let hides = !shown.contains("HUSH") && !shown.contains("4711");
        assert!(hides && shown.contains(HIDDEN), "{shown}");
    }
    let public = json!({
        "direct_response": {"body": {"inline_string": "hello"}},
        "header": {"key": "x-team", "value": "shop"},
        "name": "token-service",
        "list": [1, -2, 0.5, true, null],
    });
    assert_eq!(read(&public), public.to_string());
}

/// Given fields and types that the descriptors do not know, then a difference is named, and the bytes are not shown.
#[test]
fn unknown_content_differs_and_is_not_shown() {
    let any = |value: &[u8]| Any {
        type_url: "type.googleapis.com/envoy.config.cluster.v3.Cluster".to_owned(),
        value: value.to_vec().into(),
    };
    // Field 1000, of the length 4.
    let of = |text: &[u8; 4]| read(&any(&[b"\xc2\x3e\x04", &text[..]].concat())).unwrap();
    assert_eq!(
        lines(&of(b"HUSH"), &of(b"hush")),
        [
            r#"~ 1000: "(unknown to this version of the API)" -> "(unknown to this version of the API)""#
        ]
    );
    assert_eq!(lines(&of(b"HUSH"), &of(b"HUSH")), [""; 0]);
    assert!(read(&any(b"\xff")).is_err());
    let unknown = Any {
        type_url: "type.googleapis.com/a.B".to_owned(),
        value: Vec::new().into(),
    };
    assert_eq!(
        read(&unknown).unwrap_err().to_string(),
        "unknown message type `type.googleapis.com/a.B`"
    );
}

/// Given random messages of the API, then their contents are what their JSON has, apart from hidden values.
#[test]
fn content_equals_the_json_of_the_codec() {
    let mut generator = Generator(7);
    for round in 0..200 {
        let any = random(&mut generator, round);
        let json = codec::encode(std::slice::from_ref(&any), Format::Json).unwrap();
        let mut json: Vec<Value> = serde_json::from_slice(&json).unwrap();
        // Most objects are messages, whose fields have descriptors. Of a map more is hidden.
        let mut expected = of_messages(from_json(json.remove(0)));
        let content = read(&any).unwrap();
        hide_secrets(&mut expected, "");
        let (mut a, mut b) = (
            serde_json::to_value(&content).unwrap(),
            serde_json::to_value(&expected).unwrap(),
        );
        // The rest is hidden by annotations of the API.
        same_where_shown(&mut a, &mut b);
        assert_eq!(a, b, "{round}");
    }
}

/// Takes all maps for messages.
fn of_messages(content: Content) -> Content {
    match content {
        Content::List(items) => Content::List(items.into_iter().map(of_messages).collect()),
        Content::Message(entries) | Content::Map(entries) => {
            let entries = entries.into_iter();
            let entries = entries.map(|entry| Entry::new(entry.name, of_messages(entry.value)));
            Content::Message(entries.collect())
        }
        content => content,
    }
}

fn same_where_shown(a: &mut Value, b: &mut Value) {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            for (key, a) in a {
                if let Some(b) = b.get_mut(key) {
                    same_where_shown(a, b);
                }
            }
        }
        (Value::Array(a), Value::Array(b)) => {
            let pairs = a.iter_mut().zip(b);
            pairs.for_each(|(a, b)| same_where_shown(a, b));
        }
        (a, b) if *a == json!(HIDDEN) => *b = a.clone(),
        _ => {}
    }
}

fn random(generator: &mut Generator, round: usize) -> Any {
    let names = [
        "envoy.config.route.v3.RouteConfiguration",
        "envoy.config.cluster.v3.Cluster",
        "envoy.config.listener.v3.Listener",
        "envoy.config.endpoint.v3.ClusterLoadAssignment",
    ];
    let schema = schema::find(names[round % names.len()]).unwrap();
    let message = generator.message(schema, 5);
    let mut value = Vec::new();
    canonical::encode(schema, &message, &mut value);
    Any {
        type_url: canonical::type_url(schema),
        value: value.into(),
    }
}

/// Given random contents and random edits of them: equal ones have no difference; otherwise the changes, applied to the old
/// content, give the new one, and no leaf is named twice.
#[test]
fn comparison_is_complete_and_names_each_leaf_once() {
    let mut generator = Generator(42);
    for round in 0..600 {
        let old = read(&random(&mut generator, round)).unwrap();
        assert_eq!(compare(&old, &old.clone()), []);
        let mut new = old.clone();
        for _ in 0..generator.below(8) {
            edit(&mut new, &mut generator);
        }
        if round % 10 == 9 {
            new = read(&random(&mut generator, round)).unwrap();
        }
        let changes = compare(&old, &new);
        assert_eq!(changes.is_empty(), old == new, "{round}: {changes:#?}");
        named_once(&changes);
        let steps: Vec<_> = changes
            .iter()
            .map(|change| (change.path.steps(), &change.change))
            .collect();
        let applied = apply(&old, &new, &steps);
        assert_eq!(sorted(applied), sorted(new), "{round}: {changes:#?}");
    }
}

fn named_once(changes: &[FieldChange]) {
    let is_order = |change: &FieldChange| matches!(change.change, ValueChange::Order { .. });
    for (at, one) in changes.iter().enumerate() {
        for other in changes[at + 1..].iter().filter(|other| !is_order(other)) {
            let (a, b) = (one.path.steps(), other.path.steps());
            assert!(is_order(one) || !a.starts_with(b) && !b.starts_with(a));
        }
    }
}

/// Changes a random place.
fn edit(content: &mut Content, generator: &mut Generator) {
    match content {
        Content::Message(entries) | Content::Map(entries) if !entries.is_empty() => {
            let at = generator.below(entries.len());
            let is_type = entries[at].name == "@type";
            match generator.below(6) {
                0 if !is_type => drop(entries.remove(at)),
                _ if is_type => {}
                _ => edit(&mut entries[at].value, generator),
            }
        }
        Content::List(items) if !items.is_empty() => {
            let (at, other) = (generator.below(items.len()), generator.below(items.len()));
            match generator.below(6) {
                0 => drop(items.remove(at)),
                1 => items.swap(at, other),
                2 => items.insert(other, items[at].clone()),
                _ => edit(&mut items[at], generator),
            }
        }
        Content::Scalar(Value::Number(_)) => *content = Content::Scalar(json!(77)),
        Content::Scalar(Value::Bool(value)) => *content = Content::Scalar(json!(!*value)),
        Content::Scalar(_) => *content = Content::text(format!("x{}", generator.below(9))),
        _ => {}
    }
}

/// Applies changes to `old`. `new` decides only how items are paired.
fn apply(old: &Content, new: &Content, changes: &[(&[Step], &ValueChange)]) -> Content {
    if let [([], ValueChange::Changed { new, .. })] = changes {
        return new.clone();
    }
    match (old, new) {
        _ if changes.is_empty() => old.clone(),
        (Content::Message(a), Content::Message(b)) => {
            Content::Message(apply_entries(a, b, changes, |name| {
                Step::Named(name.to_owned())
            }))
        }
        (Content::Map(a), Content::Map(b)) => Content::Map(apply_entries(a, b, changes, |key| {
            Step::Key(key.to_owned())
        })),
        (Content::List(a), Content::List(b)) => Content::List(apply_items(a, b, changes)),
        _ => panic!("no way into {old:?} by {changes:?}"),
    }
}

/// Returns the changes below a step, without the step.
fn below<'a>(
    changes: &[(&'a [Step], &'a ValueChange)],
    step: &Step,
) -> Vec<(&'a [Step], &'a ValueChange)> {
    let below = changes
        .iter()
        .filter(|(steps, _)| steps.first() == Some(step));
    below
        .map(|(steps, change)| (&steps[1..], *change))
        .collect()
}

fn apply_entries(
    old: &[Entry],
    new: &[Entry],
    changes: &[(&[Step], &ValueChange)],
    step: impl Fn(&str) -> Step,
) -> Vec<Entry> {
    let mut entries = Vec::new();
    for entry in old {
        let own = below(changes, &step(&entry.name));
        if matches!(&own[..], [([], ValueChange::Removed(_))]) {
            continue;
        }
        let after = new.iter().find(|one| one.name == entry.name);
        let after = after.map_or(&entry.value, |one| &one.value);
        entries.push(Entry::new(&*entry.name, apply(&entry.value, after, &own)));
    }
    for entry in new {
        if let [([], ValueChange::Added(value))] = &below(changes, &step(&entry.name))[..] {
            entries.push(Entry::new(&*entry.name, value.clone()));
        }
    }
    entries
}

fn apply_items(
    old: &[Content],
    new: &[Content],
    changes: &[(&[Step], &ValueChange)],
) -> Vec<Content> {
    let Some((old_keys, new_keys)) = keys(old, new) else {
        return apply_positions(old, new, changes);
    };
    let mut items: Vec<(String, Content)> = Vec::new();
    for (item, key) in old.iter().zip(old_keys) {
        let own = below(changes, &Step::Key(key.clone()));
        if matches!(&own[..], [([], ValueChange::Removed(_))]) {
            continue;
        }
        let after = new_keys.iter().position(|one| *one == key);
        let after = after.map_or(item, |at| &new[at]);
        items.push((key, apply(item, after, &own)));
    }
    for key in &new_keys {
        if let [([], ValueChange::Added(value))] = &below(changes, &Step::Key(key.clone()))[..] {
            items.push((key.clone(), value.clone()));
        }
    }
    let order = changes.iter().find_map(|(steps, change)| match change {
        ValueChange::Order { new, .. } if steps.is_empty() => Some(new),
        _ => None,
    });
    if let Some(order) = order {
        items.sort_by_key(|(key, _)| order.iter().position(|one| one == key));
    }
    items.into_iter().map(|(_, item)| item).collect()
}

fn apply_positions(
    old: &[Content],
    new: &[Content],
    changes: &[(&[Step], &ValueChange)],
) -> Vec<Content> {
    let mut items: Vec<Option<Content>> = old.iter().cloned().map(Some).collect();
    let mut added = Vec::new();
    for at in 0..old.len().max(new.len()) {
        let own = below(changes, &Step::Index(at));
        match &own[..] {
            [([], ValueChange::Removed(_))] => items[at] = None,
            [([], ValueChange::Added(value))] => added.push((at, value.clone())),
            [] => {}
            own => items[at] = Some(apply(&old[at], &new[at], own)),
        }
    }
    let mut items: Vec<_> = items.into_iter().flatten().collect();
    for (at, value) in added {
        items.insert(at, value);
    }
    items
}

/// Sorts the entries of messages: an added field is listed last.
fn sorted(content: Content) -> Content {
    match content {
        Content::List(items) => Content::List(items.into_iter().map(sorted).collect()),
        Content::Message(entries) => Content::Message(sorted_entries(entries)),
        Content::Map(entries) => Content::Map(sorted_entries(entries)),
        other => other,
    }
}

fn sorted_entries(entries: Vec<Entry>) -> Vec<Entry> {
    let entries = entries.into_iter();
    let mut entries: Vec<_> = entries
        .map(|entry| Entry::new(entry.name, sorted(entry.value)))
        .collect();
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    entries
}
