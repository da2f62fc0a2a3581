//! Rules of RBAC filters over real connections: headers, addresses, names, updates, errors, audit logs (gRFC A41, A59).

use std::sync::{Arc, Mutex};

use oxds_client::{ClientPool, Options};
use oxds_core::rbac::{AuditEvent, AuditLogger, DENIED};
use oxds_core::resource::Extensions;
use oxds_grpc_server::{FallbackCredentials, ServingMode, XdsServerCredentials};
use oxds_testkit::SOON;
use oxds_types::ResourceType;
use tokio::net::TcpSocket;
use tokio::time::timeout;
use tonic::Code;

use crate::client::{Client, Reply};
use crate::tls::Mesh;
use crate::world::{ALL, World, chain_of, inline, listener, rds, resource, routes};

const RBAC: &str = "type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC";
const ANY: &str = "{ any: true }";

/// An RBAC filter with these rules.
fn filter(name: &str, rules: &str) -> String {
    format!("{{ name: {name}, typed_config: {{ '@type': {RBAC}, rules: {{ {rules} }} }} }},")
}

/// Rules with one policy.
fn rules(action: &str, permission: &str, principal: &str) -> String {
    format!(
        "action: {action}, policies: {{ p: {{ permissions: [{permission}], principals: [{principal}] }} }}"
    )
}

fn path(method: &str) -> String {
    format!("{{ url_path: {{ path: {{ exact: /echo.Echo/{method} }} }} }}")
}

fn header(name: &str) -> String {
    format!("{{ header: {{ name: {name}, present_match: true }} }}")
}

fn behind(filters: &str, routes: &str) -> String {
    format!(
        "default_filter_chain: {}",
        chain_of("{}", routes, filters, "")
    )
}

/// Serves the echo behind these filters.
async fn serving(filters: &str) -> World {
    let mut world = World::start().await;
    world.send_listener(&behind(filters, &inline(ALL)));
    assert_eq!(world.mode().await, ServingMode::Serving);
    world
}

fn is_allowed(reply: Reply) -> bool {
    match reply {
        Ok(_) => true,
        Err(status) => {
            assert_eq!(status.code(), Code::PermissionDenied, "{status}");
            assert_eq!(status.message(), DENIED);
            false
        }
    }
}

async fn call_with(client: &mut Client, headers: &[(&str, &str)]) -> bool {
    let call = client.start("svc", "/echo.Echo/Call", headers).await;
    is_allowed(call.unwrap().reply().await)
}

#[tokio::test]
async fn c238_new_rules_apply_to_open_connections() {
    let mut world = World::start().await;
    let all = filter("authz", &rules("ALLOW", ANY, ANY));
    world.send_listener(&behind(&all, &rds("r")));
    world.send_routes(&[routes("r", ALL)]).await;
    assert_eq!(world.mode().await, ServingMode::Serving);
    let mut client = world.client().await;
    assert!(is_allowed(client.call("Call").await));
    let none = format!(
        "{{ name: all, domains: ['*'],
            typed_per_filter_config: {{ authz: {{ '@type': {RBAC}PerRoute, rbac: {{ rules: {{}} }} }} }},
            routes: [{{ match: {{ prefix: '' }}, non_forwarding_action: {{}} }}] }}"
    );
    world.send_routes(&[routes("r", &none)]).await;
    let denied = async { while is_allowed(client.call("Call").await) {} };
    timeout(SOON, denied).await.expect("denied in time");
}

#[tokio::test]
async fn c238_rules_see_addresses_of_the_connection() {
    let near = "{ direct_remote_ip: { address_prefix: 127.0.0.2, prefix_len: 32 } }";
    let world = serving(&filter("allow", &rules("ALLOW", ANY, near))).await;
    assert!(!is_allowed(world.client().await.call("Call").await));
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.2:0".parse().unwrap()).unwrap();
    let mut client = Client::over(socket.connect(world.address).await.unwrap()).await;
    assert!(is_allowed(client.call("Call").await));
}

#[tokio::test]
async fn c238_rules_see_the_address_of_the_server() {
    let mut world = World::start().await;
    let port = format!("{{ destination_port: {} }}", world.address.port());
    let address = "{ destination_ip: { address_prefix: 127.0.0.1, prefix_len: 32 } }";
    let both = format!("{{ and_rules: {{ rules: [{port}, {address}] }} }}");
    let allow = filter("allow", &rules("ALLOW", &both, ANY));
    world.send_listener(&behind(&allow, &inline(ALL)));
    assert_eq!(world.mode().await, ServingMode::Serving);
    assert!(is_allowed(world.client().await.call("Call").await));
}

#[tokio::test]
async fn c238_header_with_any_bytes_is_present() {
    // Bytes that are no text must not hide a header from a rule that denies it.
    let world = serving(&filter("deny", &rules("DENY", ANY, &header("x-debug")))).await;
    let mut client = world.client().await;
    assert!(call_with(&mut client, &[]).await);
    for value in ["plain", "caf\u{e9}"] {
        assert!(!call_with(&mut client, &[("x-debug", value)]).await);
        let twice = [("x-debug", "a"), ("x-debug", value)];
        assert!(!call_with(&mut client, &twice).await);
    }
}

#[tokio::test]
async fn c238_several_host_headers_fail_the_call() {
    let world = World::serving().await;
    let mut client = world.client().await;
    let hosts = [("host", "a"), ("host", "b")];
    assert!(call_with(&mut client, &hosts[..1]).await);
    let call = client.start("svc", "/echo.Echo/Call", &hosts).await;
    let status = call.unwrap().reply().await.unwrap_err();
    assert_eq!(status.code(), Code::Internal);
    assert_eq!(status.message(), "the request has several Host headers");
}

#[tokio::test]
async fn c238_names_that_the_fallback_verified_are_principals() {
    let mesh = Mesh::new();
    let config = mesh.with_client_certificates();
    let mut world = World::start_with(|builder, _| {
        let fallback = FallbackCredentials::tls(config);
        builder.credentials(XdsServerCredentials::new(fallback))
    })
    .await;
    let bad = "{ authenticated: { principal_name: { exact: 'spiffe://mesh/bad' } } }";
    let anonymous = "{ authenticated: { principal_name: { exact: '' } } }";
    let deny = rules("DENY", ANY, &format!("{bad}, {anonymous}"));
    world.send_listener(&behind(&filter("deny", &deny), &inline(ALL)));
    assert_eq!(world.mode().await, ServingMode::Serving);
    for (name, allowed) in [("spiffe://mesh/good", true), ("spiffe://mesh/bad", false)] {
        let issued = mesh.issue(&[name]);
        let mut client = mesh.connect(&world, Some(&issued)).await.unwrap();
        assert_eq!(is_allowed(client.call("Call").await), allowed, "{name}");
    }
}

#[tokio::test]
async fn c238_invalid_rules_leave_the_last_good_ones() {
    let mut world = serving(&filter("allow", &rules("ALLOW", &path("Call"), ANY))).await;
    world.answer().await;
    let mut client = world.client().await;
    let range = "{ source_ip: { address_prefix: 10.0.0.0, prefix_len: 33 } }";
    let bad = filter("allow", &rules("ALLOW", ANY, range));
    let invalid = listener(world.address, &behind(&bad, &inline(ALL)));
    world.respond(&ResourceType::LISTENER, vec![resource(&invalid)]);
    let reason = world.nack().await;
    let name = format!("server/{}", world.address);
    for part in [
        &*name,
        "http_filters[0].typed_config.rules.policies[\"p\"]",
        "principals[0].source_ip.prefix_len: must be at most 32, not 33",
    ] {
        assert!(reason.contains(part), "{reason}");
    }
    world.same_mode();
    assert!(is_allowed(client.call("Call").await));
    assert!(!is_allowed(client.call("Peer").await));
}

/// Audit logger that keeps the texts of its events.
struct Memory(Arc<Mutex<Vec<String>>>);

impl AuditLogger for Memory {
    fn log(&self, event: &AuditEvent<'_>) {
        let (method, policy) = (event.rpc_method, event.matched_rule);
        let text = format!(
            "{method} {} {policy:?} {}",
            event.policy_name, event.authorized
        );
        self.0.lock().unwrap().push(text);
    }
}

#[tokio::test]
async fn c238_audit_logger_of_the_program_gets_verdicts() {
    let log = Arc::<Mutex<Vec<String>>>::default();
    let shared = Arc::clone(&log);
    let extensions = Extensions::default()
        .with_audit_logger("my.Logger", move |_| Ok(Memory(Arc::clone(&shared))));
    let mut world = World::start_with(|builder, pool| {
        let options = Options::default().with_extensions(extensions);
        let bootstrap = (**pool.bootstrap()).clone();
        builder.clients(ClientPool::with_options(bootstrap, options))
    })
    .await;
    let logger = "{ audit_logger: { name: m, typed_config: {
        '@type': type.googleapis.com/xds.type.v3.TypedStruct, type_url: x/my.Logger } } }";
    let audited = format!(
        "{}, audit_logging_options: {{ audit_condition: ON_DENY_AND_ALLOW, logger_configs: [{logger}] }}",
        rules("ALLOW", &path("Call"), ANY)
    );
    world.send_listener(&behind(&filter("authz", &audited), &inline(ALL)));
    assert_eq!(world.mode().await, ServingMode::Serving);
    let mut client = world.client().await;
    assert!(is_allowed(client.call("Call").await));
    assert!(!is_allowed(client.call("Peer").await));
    let expected = [
        "/echo.Echo/Call authz \"p\" true",
        "/echo.Echo/Peer authz \"\" false",
    ];
    assert_eq!(*log.lock().unwrap(), expected);
}
