//! Envoy and scoped routes (SRDS, S-61): a request's header decides which routes apply.

use std::net::SocketAddr;

use super::{SOON, Scenario};
use crate::config::{Folder, LISTENER};
use crate::peers::envoy::Envoy;
use crate::peers::oxds::{Bootstrap, Oxds, bootstrap};
use crate::wait::until;
use crate::wire::Protocol;
use crate::{Context, Fallible, http};

/// The header that selects the scope.
const SCOPE: &str = "x-scope";
/// The listener. Scopes and their routes come by ADS.
const SCOPED_LISTENER: &str = r#""@type": type.googleapis.com/envoy.config.listener.v3.Listener
name: shop
address: { socket_address: { address: 127.0.0.1, port_value: 0 } }
filter_chains:
- filters:
  - name: envoy.filters.network.http_connection_manager
    typed_config:
      "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
      stat_prefix: ingress
      scoped_routes:
        name: scopes
        scope_key_builder:
          fragments: [{ header_value_extractor: { name: x-scope, index: 0 } }]
        rds_config_source: { ads: {}, resource_api_version: V3 }
        scoped_rds:
          scoped_rds_config_source: { ads: {}, resource_api_version: V3 }
      http_filters:
      - name: envoy.filters.http.router
        typed_config: { "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }
"#;

pub(super) fn scenarios() -> Vec<Scenario> {
    let scenario = |protocol: Protocol| {
        let name = format!("envoy_{}_scopes_choose_routes", protocol.name());
        Scenario::new(name, move |cx| scopes_choose_routes(cx, protocol))
    };
    [Protocol::Sotw, Protocol::Delta].map(scenario).into()
}

fn scope(key: &str, routes: &str) -> String {
    format!(
        r#""@type": type.googleapis.com/envoy.config.route.v3.ScopedRouteConfiguration
name: scope-{key}
route_configuration_name: {routes}
key: {{ fragments: [{{ string_key: {key} }}] }}
"#
    )
}

/// Routes that answer everything with this status.
fn routes(name: &str, status: u16) -> String {
    format!(
        r#""@type": type.googleapis.com/envoy.config.route.v3.RouteConfiguration
name: {name}
virtual_hosts:
- name: all
  domains: ["*"]
  routes: [{{ match: {{ prefix: / }}, direct_response: {{ status: {status} }} }}]
"#
    )
}

/// Waits until each scope answers with its status, all of them in one check.
async fn answered(address: SocketAddr, expected: &[(&str, u16)]) -> Fallible {
    until(&format!("answers {expected:?}"), SOON, async || {
        for (key, status) in expected {
            let is = http::ask_with(address, "shop", (SCOPE, key))
                .await?
                .status();
            if is != *status {
                return Err(format!("{key} answers {is}").into());
            }
        }
        Ok(Some(()))
    })
    .await
}

/// Given two scopes, each with its routes, when requests come with one header or the other, then the routes of that
/// scope answer, and an unknown scope answers 404;
/// when a scope moves to routes that come with the same edit, and a third scope is added, then both answer, and the
/// untouched scope still does;
/// when a scope is deleted, then it answers 404, and the others continue.
async fn scopes_choose_routes(cx: Context, protocol: Protocol) -> Fallible {
    let folder = Folder::create(&cx.dir)?;
    folder.write("listener.yaml", &[SCOPED_LISTENER.to_owned()])?;
    folder.write(
        "blue.yaml",
        &[scope("blue", "blue-1"), routes("blue-1", 201)],
    )?;
    folder.write(
        "green.yaml",
        &[scope("green", "green-1"), routes("green-1", 202)],
    )?;
    let oxds = Oxds::serve(&cx, &folder).await?;
    let file = bootstrap(&cx, Bootstrap::Envoy(protocol), oxds.grpc).await?;
    let mut envoy = Envoy::start(&cx, &file).await?;
    let address = envoy.listener(LISTENER).await?;
    answered(address, &[("blue", 201), ("green", 202), ("none", 404)]).await?;

    let moved = [
        scope("blue", "blue-2"),
        routes("blue-2", 203),
        scope("red", "red-1"),
        routes("red-1", 206),
    ];
    folder.write("blue.yaml", &moved)?;
    answered(address, &[("blue", 203), ("green", 202), ("red", 206)]).await?;

    folder.remove("green.yaml")?;
    answered(address, &[("green", 404), ("blue", 203), ("red", 206)]).await
}
