//! The HTTP filter RBAC on a server (gRFC A41).

use oxds_grpc_server::ServingMode;
use tonic::Code;

use crate::tls::{Mesh, mutual};
use crate::world::{ALL, World, chain_of, inline};

const TYPE: &str = "type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC";
const PER_ROUTE: &str = "type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBACPerRoute";
const ANYONE: &str = "principals: [{ any: true }]";

/// An RBAC filter with this action and one policy.
fn rbac(name: &str, action: &str, policy: &str) -> String {
    format!(
        "{{ name: {name}, typed_config: {{ '@type': {TYPE}, rules: {{ action: {action}, policies: {{ p: {{ {policy} }} }} }} }} }},"
    )
}

/// A policy for the calls of a method of the echo.
fn method(name: &str) -> String {
    format!("permissions: [{{ url_path: {{ path: {{ exact: /echo.Echo/{name} }} }} }}], {ANYONE}")
}

async fn serving(routes: &str, filters: &str) -> World {
    let mut world = World::start().await;
    let chain = chain_of("{}", routes, filters, "");
    world.send_listener(&format!("default_filter_chain: {chain}"));
    assert_eq!(world.mode().await, ServingMode::Serving);
    world
}

#[tokio::test]
async fn c238_denied_call_does_not_reach_the_service() {
    let filters = rbac("rbac", "ALLOW", &method("Call"));
    let world = serving(&inline(ALL), &filters).await;
    let mut client = world.client().await;
    client.call("Call").await.unwrap();
    let status = client.call("Hold").await.unwrap_err();
    assert_eq!(status.code(), Code::PermissionDenied);
    assert_eq!(status.message(), "Unauthorized RPC rejected");
}

#[tokio::test]
async fn c238_every_filter_of_a_chain_must_allow() {
    let allow = rbac(
        "allow",
        "ALLOW",
        &format!("permissions: [{{ any: true }}], {ANYONE}"),
    );
    let deny = rbac("deny", "DENY", &method("Peer"));
    for filters in [[&*allow, &deny].concat(), [&*deny, &allow].concat()] {
        let world = serving(&inline(ALL), &filters).await;
        let mut client = world.client().await;
        client.call("Call").await.unwrap();
        let status = client.call("Peer").await.unwrap_err();
        assert_eq!(status.code(), Code::PermissionDenied);
    }
}

#[tokio::test]
async fn c238_route_overrides_its_filter() {
    let hosts = format!(
        "{{ name: all, domains: ['*'], routes: [
            {{ match: {{ path: /echo.Echo/Peer }}, non_forwarding_action: {{}},
               typed_per_filter_config: {{ rbac: {{ '@type': {PER_ROUTE} }} }} }},
            {{ match: {{ prefix: '' }}, non_forwarding_action: {{}} }} ] }}"
    );
    let filters = rbac(
        "rbac",
        "DENY",
        &format!("permissions: [{{ any: true }}], {ANYONE}"),
    );
    let world = serving(&inline(&hosts), &filters).await;
    let mut client = world.client().await;
    client.call("Peer").await.unwrap();
    let status = client.call("Call").await.unwrap_err();
    assert_eq!(status.code(), Code::PermissionDenied);
}

#[tokio::test]
async fn c238_principal_is_the_name_in_the_certificate() {
    let mesh = Mesh::new();
    let mut world = mesh.world().await;
    let policy = "permissions: [{ any: true }],
        principals: [{ authenticated: { principal_name: { exact: 'spiffe://mesh/good' } } }]";
    let filters = rbac("rbac", "ALLOW", policy);
    world.send_listener(&mutual(&inline(ALL), &filters));
    assert_eq!(world.mode().await, ServingMode::Serving);
    for (name, code) in [
        ("spiffe://mesh/good", Code::Ok),
        ("spiffe://mesh/bad", Code::PermissionDenied),
    ] {
        let issued = mesh.issue(&[name]);
        let mut client = mesh.connect(&world, Some(&issued)).await.unwrap();
        let reply = client.call("Call").await;
        let found = reply.map_or_else(|status| status.code(), |_| Code::Ok);
        assert_eq!(found, code, "{name}");
    }
}
