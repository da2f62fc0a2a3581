//! Writes the JSON form.

use envoy_types::pb::google::protobuf::{Struct, Value as Proto, value::Kind};
use oxds_types::discovery::Node;
use serde_json::{Map, Value, json};

use super::config::{Authority, Bootstrap, Server};
use super::policy::{Features, TransportPolicy};
use crate::credentials::{CallCredentials, ChannelCredentials, Configured};

/// Returns the JSON form.
pub(super) fn bootstrap(bootstrap: &Bootstrap) -> String {
    let mut whole = Map::new();
    whole.insert("xds_servers".to_owned(), servers(&bootstrap.servers));
    whole.insert("node".to_owned(), node(&bootstrap.node));
    if !bootstrap.authorities.is_empty() {
        let authorities = bootstrap.authorities.iter();
        let authorities = authorities.map(|(name, of)| (name.clone(), authority(of)));
        whole.insert(
            "authorities".to_owned(),
            Value::Object(authorities.collect()),
        );
    }
    if bootstrap.listener_template != "%s" {
        let template = bootstrap.listener_template.as_str().into();
        whole.insert(
            "client_default_listener_resource_name_template".to_owned(),
            template,
        );
    }
    if let Some(template) = &bootstrap.server_listener_template {
        let template = template.as_str().into();
        whole.insert(
            "server_listener_resource_name_template".to_owned(),
            template,
        );
    }
    if !bootstrap.certificate_providers.is_empty() {
        let providers = bootstrap.certificate_providers.iter();
        let providers = providers.map(|(name, instance)| {
            let mut provider = Map::new();
            provider.insert("plugin_name".to_owned(), instance.plugin_name().into());
            if let Some(config) = instance.config() {
                provider.insert("config".to_owned(), config.clone());
            }
            (name.clone(), Value::Object(provider))
        });
        let providers = Value::Object(providers.collect());
        whole.insert("certificate_providers".to_owned(), providers);
    }
    if !bootstrap.allowed_grpc_services.is_empty() {
        let services = bootstrap.allowed_grpc_services.iter();
        let services = services.map(|(target, service)| {
            let mut entry = Map::new();
            credentials(&mut entry, &service.credentials, &service.call_credentials);
            (target.clone(), Value::Object(entry))
        });
        let services = Value::Object(services.collect());
        whole.insert("allowed_grpc_services".to_owned(), services);
    }
    format!("{:#}\n", Value::Object(whole))
}

fn servers(servers: &[Server]) -> Value {
    let servers = servers.iter().map(|server| {
        let mut entry = Map::new();
        entry.insert("server_uri".to_owned(), server.uri.as_str().into());
        credentials(&mut entry, &server.credentials, &server.call_credentials);
        let features = features(server.features).into();
        entry.insert("server_features".to_owned(), features);
        if server.transport != TransportPolicy::default() {
            let name = server.transport.json_name().into();
            entry.insert("transport_api_version".to_owned(), name);
        }
        Value::Object(entry)
    });
    servers.collect()
}

fn credentials(
    entry: &mut Map<String, Value>,
    channel: &Configured<dyn ChannelCredentials>,
    call: &[Configured<dyn CallCredentials>],
) {
    let channel = Value::Array(vec![configured(channel)]);
    entry.insert("channel_creds".to_owned(), channel);
    if !call.is_empty() {
        let call = call.iter().map(configured).collect();
        entry.insert("call_creds".to_owned(), call);
    }
}

fn configured<T: ?Sized>(credentials: &Configured<T>) -> Value {
    match credentials.config() {
        Some(config) => json!({ "type": credentials.type_name(), "config": config }),
        None => json!({ "type": credentials.type_name() }),
    }
}

fn features(features: Features) -> Vec<&'static str> {
    let all = [
        ("xds_v3", features.xds_v3),
        (
            "ignore_resource_deletion",
            features.ignore_resource_deletion,
        ),
        ("trusted_xds_server", features.trusted_xds_server),
        ("fail_on_data_errors", features.fail_on_data_errors),
        (
            "resource_timer_is_transient_error",
            features.resource_timer_is_transient_error,
        ),
    ];
    all.into_iter()
        .filter_map(|(name, on)| on.then_some(name))
        .collect()
}

fn authority(authority: &Authority) -> Value {
    let mut whole = Map::new();
    if !authority.servers.is_empty() {
        whole.insert("xds_servers".to_owned(), servers(&authority.servers));
    }
    if let Some(template) = &authority.listener_template {
        let name = "client_listener_resource_name_template".to_owned();
        whole.insert(name, template.as_str().into());
    }
    if authority.fallback_on_reachability_only {
        whole.insert("fallback_on_reachability_only".to_owned(), true.into());
    }
    Value::Object(whole)
}

/// Writes the fields that a bootstrap file may set; each client adds the others itself.
fn node(node: &Node) -> Value {
    let mut whole = Map::new();
    let mut text = |name: &str, text: &str| {
        if !text.is_empty() {
            whole.insert(name.to_owned(), text.into());
        }
    };
    text("id", &node.id);
    text("cluster", &node.cluster);
    if let Some(locality) = &node.locality {
        let parts = [
            ("region", &locality.region),
            ("zone", &locality.zone),
            ("sub_zone", &locality.sub_zone),
        ];
        let parts = parts.into_iter().filter(|(_, part)| !part.is_empty());
        let parts = parts.map(|(name, part)| (name.to_owned(), part.as_str().into()));
        whole.insert("locality".to_owned(), Value::Object(parts.collect()));
    }
    if let Some(metadata) = &node.metadata {
        whole.insert("metadata".to_owned(), structure(metadata));
    }
    Value::Object(whole)
}

fn structure(structure: &Struct) -> Value {
    let fields = structure
        .fields
        .iter()
        .map(|(name, proto)| (name.clone(), value(proto)));
    Value::Object(fields.collect())
}

fn value(proto: &Proto) -> Value {
    match &proto.kind {
        None | Some(Kind::NullValue(_)) => Value::Null,
        Some(Kind::BoolValue(value)) => Value::Bool(*value),
        Some(Kind::NumberValue(number)) => json!(number),
        Some(Kind::StringValue(text)) => Value::String(text.clone()),
        Some(Kind::ListValue(list)) => list.values.iter().map(value).collect(),
        Some(Kind::StructValue(fields)) => structure(fields),
    }
}
