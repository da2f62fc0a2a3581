//! C-203 – C-206: TLS contexts of clusters and filter chains (gRFC A29, A82, A101).

use std::sync::Arc;

use envoy_types::pb::envoy::config::core::v3::{TransportSocket, transport_socket::ConfigType};
use envoy_types::pb::google::protobuf::Any;
use oxds_core::resource::{
    CertificateInstance, Cluster, DownstreamTls, Extensions, ResourceParsers, Roots, TlsRules,
    UpstreamTls,
};
use oxds_types::ResourceType;
use prost::Message;
use prost_reflect::DynamicMessage;

use crate::support::text::bytes;

const UPSTREAM: &str = "envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext";
const DOWNSTREAM: &str = "envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext";
const CA: &str = "ca_certificate_provider_instance { instance_name: 'mesh' certificate_name: 'x' }";
const OWN: &str = "tls_certificate_provider_instance { instance_name: 'mesh' }";

/// Rules of a process whose bootstrap has the instances `mesh` and `other`.
fn rules() -> TlsRules {
    let names = ["mesh", "other"].map(Arc::from);
    TlsRules {
        instances: Some(Arc::new(names.into())),
        ..TlsRules::default()
    }
}

/// Parses a cluster with these fields beside its discovery.
fn cluster(fields: &str, rules: &TlsRules) -> Result<Option<Arc<UpstreamTls>>, String> {
    let text =
        format!("name: 'c' type: EDS eds_cluster_config {{ eds_config {{ ads {{}} }} }} {fields}");
    let parsers = ResourceParsers::grpc_with(&Extensions::default().with_tls_rules(rules.clone()));
    let value = bytes(&ResourceType::CLUSTER, &text);
    let parsed = parsers.parse(&ResourceType::CLUSTER, &value);
    let cluster = parsed.map_err(|invalid| invalid.to_string())?;
    Ok(cluster
        .get::<Cluster>()
        .and_then(|cluster| cluster.tls.clone()))
}

/// Parses a cluster with an `UpstreamTlsContext` of these fields.
fn upstream(fields: &str, rules: &TlsRules) -> Result<UpstreamTls, String> {
    let socket = format!(
        "transport_socket {{ name: 'tls' typed_config {{ [type.googleapis.com/{UPSTREAM}] {{ {fields} }} }} }}"
    );
    let tls = cluster(&socket, rules)?;
    tls.map(|tls| (*tls).clone())
        .ok_or_else(|| "plaintext".to_owned())
}

/// Returns the error of an `UpstreamTlsContext`, without the path to it.
fn fault(fields: &str) -> String {
    match upstream(fields, &rules()) {
        Ok(tls) => panic!("accepted {fields}: {tls:?}"),
        Err(error) => {
            let path = "c: transport_socket.typed_config";
            let rest = error.strip_prefix(path);
            let rest = rest.unwrap_or_else(|| panic!("{error} does not begin with {path}"));
            rest.trim_start_matches(['.', ':', ' ']).to_owned()
        }
    }
}

fn common(fields: &str) -> String {
    format!("common_tls_context {{ {fields} }}")
}

/// A `CommonTlsContext` whose validation context has these fields beside the authorities.
fn validation(fields: &str) -> String {
    common(&format!("validation_context {{ {CA} {fields} }}"))
}

fn downstream(fields: &str, rules: &TlsRules) -> Result<DownstreamTls, String> {
    let descriptor = oxds_types::descriptor::message(DOWNSTREAM).expect("a known message");
    let context = DynamicMessage::parse_text_format(descriptor, fields).expect("a valid text");
    let any = Any {
        type_url: format!("type.googleapis.com/{DOWNSTREAM}"),
        value: context.encode_to_vec(),
    };
    let socket = TransportSocket {
        name: "tls".to_owned(),
        config_type: Some(ConfigType::TypedConfig(any)),
    };
    DownstreamTls::from_socket(&socket, rules).map_err(|invalid| invalid.to_string())
}

fn instance(instance: &str, certificate: &str) -> CertificateInstance {
    CertificateInstance {
        instance_name: instance.into(),
        certificate_name: certificate.into(),
    }
}

#[test]
fn c203_c206_only_upstream_tls_context_is_valid() {
    assert_eq!(cluster("", &rules()), Ok(None));
    let plain = "envoy.extensions.transport_sockets.raw_buffer.v3.RawBuffer";
    let proxy = "envoy.extensions.transport_sockets.http_11_proxy.v3.Http11ProxyUpstreamTransport";
    let inner = format!(
        "transport_socket {{ name: 'tls' typed_config {{ [type.googleapis.com/{UPSTREAM}] {{ {} }} }} }}",
        validation("")
    );
    for (message, fields) in [(plain, ""), (proxy, inner.as_str())] {
        let socket = format!(
            "transport_socket {{ name: 'envoy.transport_sockets.tls' typed_config {{
               [type.googleapis.com/{message}] {{ {fields} }} }} }}"
        );
        let expected =
            format!("c: transport_socket.typed_config: must be {UPSTREAM}, not \"{message}\"");
        assert_eq!(cluster(&socket, &rules()), Err(expected));
    }
    assert_eq!(
        cluster("transport_socket { name: 'tls' }", &rules()),
        Err(format!(
            "c: transport_socket.typed_config: must be {UPSTREAM}, not \"\""
        ))
    );
    assert_eq!(
        cluster("transport_socket_matches { name: 'm' }", &rules()),
        Err("c: transport_socket_matches: is not supported".to_owned())
    );
}

#[test]
fn c204_instances_are_read_from_every_place() {
    let tls = upstream(
        &common(&format!("{OWN} validation_context {{ {CA} }}")),
        &rules(),
    )
    .unwrap();
    assert_eq!(tls.identity, Some(instance("mesh", "")));
    let mesh = || Roots::Instance(instance("mesh", "x"));
    assert_eq!(tls.roots, mesh());
    assert!(tls.san_matchers.is_empty());
    let old = "validation_context_certificate_provider_instance { instance_name: 'mesh' certificate_name: 'x' }";
    for fields in [
        format!("combined_validation_context {{ default_validation_context {{ {CA} }} }}"),
        format!("combined_validation_context {{ default_validation_context {{}} {old} }}"),
        format!("combined_validation_context {{ {old} }}"),
        old.to_owned(),
    ] {
        let tls = upstream(&common(&fields), &rules()).unwrap();
        assert_eq!((tls.roots, tls.identity), (mesh(), None), "{fields}");
    }
    let old = "tls_certificate_certificate_provider_instance { instance_name: 'other' }";
    let both = format!("{old} {OWN} validation_context {{ {CA} }}");
    let only_old = format!("{old} validation_context {{ {CA} }}");
    for (fields, name) in [(both, "mesh"), (only_old, "other")] {
        let tls = upstream(&common(&fields), &rules()).unwrap();
        assert_eq!(tls.identity, Some(instance(name, "")), "{fields}");
    }
}

#[test]
fn c204_invalid_fields_are_named() {
    let missing =
        "common_tls_context.validation_context: must have a ca_certificate_provider_instance";
    for (fields, expected) in [
        (String::new(), "common_tls_context: must be set"),
        (common(""), missing),
        (common(OWN), missing),
        (common("validation_context {}"), missing),
        (
            common("validation_context { trusted_ca { filename: '/ca.pem' } }"),
            missing,
        ),
        (
            common("validation_context { system_root_certs {} }"),
            missing,
        ),
        (
            common(&format!("tls_params {{}} validation_context {{ {CA} }}")),
            "common_tls_context.tls_params: is not supported",
        ),
        (
            common(&format!(
                "custom_handshaker {{ name: 'h' }} validation_context {{ {CA} }}"
            )),
            "common_tls_context.custom_handshaker: is not supported",
        ),
        (
            common(&format!(
                "tls_certificates {{}} validation_context {{ {CA} }}"
            )),
            "common_tls_context.tls_certificates: is not supported: expected tls_certificate_provider_instance",
        ),
        (
            common(&format!(
                "tls_certificate_sds_secret_configs {{ name: 's' }} validation_context {{ {CA} }}"
            )),
            "common_tls_context.tls_certificate_sds_secret_configs: is not supported: expected tls_certificate_provider_instance",
        ),
        (
            common("validation_context_sds_secret_config { name: 's' }"),
            "common_tls_context.validation_context_sds_secret_config: is not supported: expected validation_context",
        ),
        (
            validation("verify_certificate_spki: 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'"),
            "common_tls_context.validation_context.verify_certificate_spki: is not supported",
        ),
        (
            validation("verify_certificate_hash: 'a'"),
            "common_tls_context.validation_context.verify_certificate_hash: is not supported",
        ),
        (
            validation("require_signed_certificate_timestamp { value: true }"),
            "common_tls_context.validation_context.require_signed_certificate_timestamp: is not supported",
        ),
        (
            validation("crl { filename: '/crl' }"),
            "common_tls_context.validation_context.crl: is not supported",
        ),
        (
            validation("custom_validator_config { name: 'v' }"),
            "common_tls_context.validation_context.custom_validator_config: is not supported",
        ),
        (
            validation("max_verify_depth { value: 1 }"),
            "common_tls_context.validation_context.max_verify_depth: is not supported",
        ),
    ] {
        assert_eq!(fault(&fields), expected, "{fields}");
    }
    let is_valid = validation("require_signed_certificate_timestamp { value: false }");
    assert!(upstream(&is_valid, &rules()).is_ok());
}

#[test]
fn c204_instance_must_be_in_the_bootstrap() {
    let unknown = "ca_certificate_provider_instance { instance_name: 'gone' }";
    let fields = common(&format!("validation_context {{ {unknown} }}"));
    assert_eq!(
        fault(&fields),
        "common_tls_context.validation_context.ca_certificate_provider_instance.instance_name: \"gone\" is not in \
         certificate_providers of the bootstrap: expected one of \"mesh\", \"other\""
    );
    let own = "tls_certificate_provider_instance { instance_name: 'gone' }";
    let error = fault(&common(&format!("{own} validation_context {{ {CA} }}")));
    assert!(
        error.starts_with(
            "common_tls_context.tls_certificate_provider_instance.instance_name: \"gone\""
        ),
        "{error}"
    );
    let none = TlsRules {
        instances: Some(Arc::default()),
        ..TlsRules::default()
    };
    let error = upstream(&fields, &none).unwrap_err();
    assert!(error.ends_with("expected one of none"), "{error}");
    assert!(
        upstream(&fields, &TlsRules::default()).is_ok(),
        "names are not known, and not checked"
    );
}

#[test]
fn c204_system_roots_are_valid_if_a82_is_on() {
    let on = TlsRules {
        system_roots: true,
        ..rules()
    };
    let system = common("validation_context { system_root_certs {} }");
    assert_eq!(upstream(&system, &on).unwrap().roots, Roots::System);
    let both = validation("system_root_certs {}");
    assert_eq!(
        upstream(&both, &on).unwrap().roots,
        Roots::Instance(instance("mesh", "x"))
    );
    let error = upstream(&common(""), &on).unwrap_err();
    assert!(
        error.ends_with("must have a ca_certificate_provider_instance or system_root_certs"),
        "{error}"
    );
}

#[test]
fn c205_sni_is_read_if_a101_is_on() {
    let fields = |sni: &str| {
        format!(
            "{} sni: '{sni}' auto_host_sni: true auto_sni_san_validation: true",
            validation("")
        )
    };
    let on = TlsRules {
        sni: true,
        ..rules()
    };
    let long = "a".repeat(256);
    let tls = upstream(&fields(&long), &rules()).unwrap();
    assert_eq!((tls.sni.as_deref(), tls.auto_host_sni), (None, false));
    assert_eq!(tls.server_name(Some("shop.example")), None);
    assert_eq!(
        upstream(&fields(&long), &on).unwrap_err(),
        "c: transport_socket.typed_config.sni: must have at most 255 bytes"
    );
    let tls = upstream(&fields("sni.example"), &on).unwrap();
    assert!(tls.auto_sni_san_validation);
    assert_eq!(tls.server_name(Some("host.example")), Some("host.example"));
    assert_eq!(tls.server_name(Some("")), Some("sni.example"));
    assert_eq!(tls.server_name(None), Some("sni.example"));
    let tls = upstream(&format!("{} sni: 'sni.example'", validation("")), &on).unwrap();
    assert_eq!(tls.server_name(Some("host.example")), Some("sni.example"));
    let tls = upstream(&validation(""), &on).unwrap();
    assert_eq!(tls.server_name(Some("host.example")), None);
}

#[test]
fn c257_name_matchers_are_read_and_invalid_ones_named() {
    let fields = "match_subject_alt_names { exact: 'a' } match_subject_alt_names { prefix: 'b' ignore_case: true }
                  match_subject_alt_names { safe_regex { regex: 'c.*' } }";
    let tls = upstream(&validation(fields), &rules()).unwrap();
    let shown: Vec<_> = tls.san_matchers.iter().map(ToString::to_string).collect();
    let expected = [
        r#"exact "a""#,
        r#"prefix "b" (any case)"#,
        r#"regex "^(?:c.*)$""#,
    ];
    assert_eq!(shown, expected);
    let typed = "match_typed_subject_alt_names { san_type: URI matcher { suffix: '/shop' } }
                 match_subject_alt_names { exact: 'a' }";
    let tls = upstream(&validation(typed), &rules()).unwrap();
    let shown: Vec<_> = tls.san_matchers.iter().map(ToString::to_string).collect();
    assert_eq!(shown, [r#"URI suffix "/shop""#]);
    for (fields, expected) in [
        (
            "match_subject_alt_names { exact: 'a' } match_subject_alt_names { contains: '' }",
            "match_subject_alt_names[1].contains: must not be empty",
        ),
        (
            "match_subject_alt_names { safe_regex { regex: '(' } }",
            "match_subject_alt_names[0].safe_regex.regex: is not a valid regular expression: ",
        ),
        (
            "match_typed_subject_alt_names { matcher { exact: 'a' } }",
            "match_typed_subject_alt_names[0].san_type: must be EMAIL, DNS, URI or IP_ADDRESS",
        ),
        (
            "match_typed_subject_alt_names { san_type: DNS }",
            "match_typed_subject_alt_names[0].matcher: must be set",
        ),
    ] {
        let error = fault(&validation(fields));
        let path = format!("common_tls_context.validation_context.{expected}");
        assert!(error.starts_with(&path), "{error}");
    }
}

#[test]
fn c204_server_needs_a_certificate_and_authorities_if_required() {
    let tls = downstream(&common(OWN), &rules()).unwrap();
    assert_eq!(tls.identity, instance("mesh", ""));
    assert_eq!((tls.roots, tls.require_client_certificate), (None, false));
    let mutual = format!(
        "require_client_certificate {{ value: true }} {}",
        common(&format!("{OWN} validation_context {{ {CA} }}"))
    );
    let tls = downstream(&mutual, &rules()).unwrap();
    assert!(tls.require_client_certificate);
    assert_eq!(tls.roots, Some(Roots::Instance(instance("mesh", "x"))));
    for (fields, expected) in [
        (
            validation(""),
            "common_tls_context.tls_certificate_provider_instance: must be set",
        ),
        (
            format!(
                "require_client_certificate {{ value: true }} {}",
                common(OWN)
            ),
            "common_tls_context.validation_context: must have a ca_certificate_provider_instance, since client certificates are required",
        ),
        (
            common(&format!(
                "{OWN} validation_context {{ {CA} match_subject_alt_names {{ exact: 'a' }} }}"
            )),
            "common_tls_context.validation_context.match_subject_alt_names: must be empty for a server",
        ),
        (
            format!("require_sni {{ value: true }} {}", common(OWN)),
            "require_sni: is not supported",
        ),
        (
            format!("ocsp_staple_policy: MUST_STAPLE {}", common(OWN)),
            "ocsp_staple_policy: must be LENIENT_STAPLING",
        ),
        (
            common("tls_certificate_provider_instance { instance_name: 'gone' }"),
            "common_tls_context.tls_certificate_provider_instance.instance_name: \"gone\" is not in certificate_providers of the bootstrap: expected one of \"mesh\", \"other\"",
        ),
    ] {
        assert_eq!(
            downstream(&fields, &rules()),
            Err(format!("typed_config.{expected}")),
            "{fields}"
        );
    }
}
