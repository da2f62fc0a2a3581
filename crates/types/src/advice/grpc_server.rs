//! Listeners of gRPC servers, which request them by the listening address (gRFC A36): settings that these servers
//! reject or ignore.

use std::net::SocketAddr;

use envoy_types::pb::envoy::config::core::v3::transport_socket::ConfigType as SocketConfig;
use envoy_types::pb::envoy::config::core::v3::{
    SocketAddress, address::Address, socket_address::PortSpecifier,
};
use envoy_types::pb::envoy::config::listener::v3::filter::ConfigType;
use envoy_types::pb::envoy::config::listener::v3::{FilterChain, Listener};
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::{
    CertificateValidationContext, CommonTlsContext, DownstreamTlsContext,
    common_tls_context::ValidationContextType,
};
use prost::Message as _;

use super::report::{OnAdvice, report_at};
use crate::path::{FieldPath, Step};

const RULE: &str = "grpc-server";
const MANAGER: &str =
    "/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
const TLS: &str = "/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext";

/// Reports what gRPC servers reject or ignore, if the listener is of one: its name has the form that the template of
/// `oxds bootstrap grpc` makes, or the one of gRFC A47.
pub(super) fn check(listener: &Listener, path: &mut FieldPath, report: &mut OnAdvice<'_>) {
    let Some(listens_on) = listening_address(&listener.name) else {
        return;
    };
    check_address(listener, &listens_on, path, report);
    let rejected = [
        ("listener_filters", !listener.listener_filters.is_empty()),
        (
            "use_original_dst",
            listener
                .use_original_dst
                .as_ref()
                .is_some_and(|is| is.value),
        ),
    ];
    for (field, _) in rejected.into_iter().filter(|(_, is_set)| *is_set) {
        let text = "gRPC servers reject listeners with it (gRFC A36)";
        report_at(path, [Step::Field(field)], RULE, text, report);
    }
    let mut serves = listener.default_filter_chain.is_some();
    for (index, chain) in listener.filter_chains.iter().enumerate() {
        path.push(Step::Field("filter_chains"));
        path.push(Step::Index(index));
        serves |= !is_ignored(chain, path, report);
        check_chain(chain, path, report);
        path.pop();
        path.pop();
    }
    if let Some(chain) = &listener.default_filter_chain {
        path.push(Step::Field("default_filter_chain"));
        check_chain(chain, path, report);
        path.pop();
    }
    if !serves {
        let text = "no filter chain is left for gRPC servers, which reject the listener (gRFC A36)";
        report_at(path, [Step::Field("filter_chains")], RULE, text, report);
    }
}

/// Returns the address in the name of a gRPC server's listener: that of the template, or that of an `xdstp` name.
pub(super) fn listening_address(name: &str) -> Option<String> {
    let after = |mark: &str| name.split_once(mark).map(|(_, rest)| rest);
    let listens_on = after("xds.resource.listening_address=")
        .or_else(|| after("/envoy.config.listener.v3.Listener/grpc/server/"))?;
    let listens_on = listens_on.split(['&', '?', '#']).next().unwrap_or_default();
    let listens_on = percent_encoding::percent_decode_str(listens_on);
    Some(listens_on.decode_utf8_lossy().into_owned())
}

/// gRFC A36: the address of the listener must be the one that the server listens on.
fn check_address(
    listener: &Listener,
    listens_on: &str,
    path: &mut FieldPath,
    report: &mut OnAdvice<'_>,
) {
    let address = listener.address.as_ref();
    let address = address.and_then(|address| address.address.as_ref());
    let text = match address {
        Some(Address::SocketAddress(socket)) if is_at(socket, listens_on) => return,
        Some(Address::SocketAddress(socket)) => format!(
            "gRPC servers that request this listener listen on {listens_on}, and reject the address {}",
            shown(socket)
        ),
        _ => format!("gRPC servers that request this listener expect the address {listens_on}"),
    };
    report_at(path, [Step::Field("address")], RULE, text, report);
}

fn is_at(socket: &SocketAddress, listens_on: &str) -> bool {
    let shown = shown(socket);
    let parsed = |text: &str| text.parse::<SocketAddr>().ok();
    shown == listens_on || parsed(&shown).is_some_and(|at| Some(at) == parsed(listens_on))
}

fn shown(socket: &SocketAddress) -> String {
    let port = match &socket.port_specifier {
        Some(PortSpecifier::PortValue(port)) => port.to_string(),
        Some(PortSpecifier::NamedPort(name)) => name.clone(),
        None => "0".to_owned(),
    };
    if socket.address.contains(':') {
        format!("[{}]:{port}", socket.address)
    } else {
        format!("{}:{port}", socket.address)
    }
}

/// Whether gRPC servers ignore this chain. gRFC A36: they do not support these criteria, so the chain never matches.
fn is_ignored(chain: &FilterChain, path: &mut FieldPath, report: &mut OnAdvice<'_>) -> bool {
    let Some(matches) = &chain.filter_chain_match else {
        return false;
    };
    let protocol = &*matches.transport_protocol;
    let unsupported = [
        ("destination_port", matches.destination_port.is_some()),
        ("server_names", !matches.server_names.is_empty()),
        (
            "transport_protocol",
            !["", "raw_buffer"].contains(&protocol),
        ),
        (
            "application_protocols",
            !matches.application_protocols.is_empty(),
        ),
    ];
    let unsupported = unsupported.into_iter().filter(|(_, is_set)| *is_set);
    let mut is_ignored = false;
    for (field, _) in unsupported {
        is_ignored = true;
        let text = "gRPC servers ignore a filter chain with this criterion (gRFC A36)";
        let steps = [Step::Field("filter_chain_match"), Step::Field(field)];
        report_at(path, steps, RULE, text, report);
    }
    is_ignored
}

fn check_chain(chain: &FilterChain, path: &mut FieldPath, report: &mut OnAdvice<'_>) {
    for (index, filter) in chain.filters.iter().enumerate() {
        let is_manager = match &filter.config_type {
            Some(ConfigType::TypedConfig(config)) => config.type_url.ends_with(MANAGER),
            _ => false,
        };
        if !is_manager {
            let text =
                "gRPC servers reject network filters other than HttpConnectionManager (gRFC A36)";
            let steps = [Step::Field("filters"), Step::Index(index)];
            report_at(path, steps, RULE, text, report);
        }
    }
    if chain.filters.is_empty() {
        let text = "gRPC servers reject a filter chain without HttpConnectionManager (gRFC A36)";
        report_at(path, [Step::Field("filters")], RULE, text, report);
    }
    let socket = chain.transport_socket.as_ref();
    let Some(SocketConfig::TypedConfig(config)) = socket.and_then(|one| one.config_type.as_ref())
    else {
        return;
    };
    path.push(Step::Field("transport_socket"));
    path.push(Step::Field("typed_config"));
    if config.type_url.ends_with(TLS) {
        if let Ok(tls) = DownstreamTlsContext::decode(&*config.value) {
            check_tls(&tls, path, report);
        }
    } else {
        let text =
            "gRPC servers reject transport sockets other than DownstreamTlsContext (gRFC A29)";
        report_at(path, [], RULE, text, report);
    }
    path.pop();
    path.pop();
}

/// gRFC A29: certificates come from the providers of the server's bootstrap, and from nowhere else.
fn check_tls(tls: &DownstreamTlsContext, path: &mut FieldPath, report: &mut OnAdvice<'_>) {
    let common = tls.common_tls_context.clone().unwrap_or_default();
    path.push(Step::Field("common_tls_context"));
    if common.tls_certificate_provider_instance.is_none() {
        let text = "gRPC servers expect tls_certificate_provider_instance, and take certificates from nowhere else (gRFC A29)";
        report_at(path, [], RULE, text, report);
    }
    let matchers = san_matchers(&common);
    if let Some(steps) = matchers {
        steps.iter().for_each(|step| path.push(step.clone()));
        let text = "gRPC servers reject names of clients here, and match them by RBAC (gRFC A29)";
        report_at(path, [], RULE, text, report);
        steps.iter().for_each(|_| path.pop());
    }
    path.pop();
    let requires = tls.require_client_certificate.as_ref();
    if requires.is_some_and(|requires| requires.value) && !has_roots(&common) {
        let text = "gRPC servers expect a validation context with ca_certificate_provider_instance (gRFC A29)";
        let field = [Step::Field("require_client_certificate")];
        report_at(path, field, RULE, text, report);
    }
}

/// Returns the place of the matchers for names of clients, if there are any.
fn san_matchers(common: &CommonTlsContext) -> Option<Vec<Step>> {
    let has =
        |context: &CertificateValidationContext| !context.match_typed_subject_alt_names.is_empty();
    let typed = Step::Field("match_typed_subject_alt_names");
    match common.validation_context_type.as_ref()? {
        ValidationContextType::ValidationContext(context) if has(context) => {
            Some(vec![Step::Field("validation_context"), typed])
        }
        ValidationContextType::CombinedValidationContext(combined) => {
            let default = combined.default_validation_context.as_ref();
            default.filter(|context| has(context)).map(|_| {
                let combined = Step::Field("combined_validation_context");
                vec![combined, Step::Field("default_validation_context"), typed]
            })
        }
        _ => None,
    }
}

fn has_roots(common: &CommonTlsContext) -> bool {
    match &common.validation_context_type {
        Some(ValidationContextType::ValidationContext(context)) => {
            context.ca_certificate_provider_instance.is_some()
                || context.system_root_certs.is_some()
        }
        Some(ValidationContextType::CombinedValidationContext(combined)) => {
            let default = combined.default_validation_context.as_ref();
            default.is_some_and(|context| {
                context.ca_certificate_provider_instance.is_some()
                    || context.system_root_certs.is_some()
            })
        }
        _ => false,
    }
}
