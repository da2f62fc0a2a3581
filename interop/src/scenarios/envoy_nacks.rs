//! A response with one resource that Envoy rejects: the others are served, and only this one is shown as NACKed.
//!
//! Envoy does not say which resource of EDS, RDS and SDS it means, and its message ends after 4,096 bytes, so the
//! server finds the resource by sending smaller parts.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{SOON, Scenario};
use crate::config::Folder;
use crate::peers::envoy::Envoy;
use crate::peers::oxds::{Bootstrap, Oxds, bootstrap};
use crate::wait::until;
use crate::wire::Protocol;
use crate::{Context, Fallible};

/// Names of three resources, in the order in which a response has them. The second is the bad one.
const NAMES: [&str; 3] = ["a", "b", "c"];

pub(super) fn scenarios() -> Vec<Scenario> {
    let mut all = Vec::new();
    for protocol in [Protocol::Sotw, Protocol::Delta] {
        let mut add = |what: &str, run: fn(Context, Protocol) -> super::scenario::Ending| {
            let name = format!("envoy_{}_a6_{what}", protocol.name());
            all.push(Scenario::new(name, move |cx| run(cx, protocol)));
        };
        add("bad_assignment_holds_back_no_other", |cx, p| {
            Box::pin(one_of_three(cx, p, &ASSIGNMENTS))
        });
        add("bad_route_holds_back_no_other", |cx, p| {
            Box::pin(one_of_three(cx, p, &ROUTES))
        });
        add("bad_secret_holds_back_no_other", |cx, p| {
            Box::pin(one_of_three(cx, p, &SECRETS))
        });
        add("bad_cluster_of_ten_is_found_without_its_name", |cx, p| {
            Box::pin(one_of_ten_clusters(cx, p))
        });
    }
    all
}

/// Resources of one type.
struct TypedResources {
    /// A resource that refers to the one of this name.
    user: fn(&str) -> String,
    /// A resource that Envoy accepts, and that shows this number.
    good: fn(&str, u16) -> String,
    /// A resource that passes validation, and that Envoy rejects without its name.
    bad: fn(&str) -> String,
    /// Whether Envoy rejects the bad resource again at its repetition. It does not for secrets: it remembers the hash
    /// of a secret before it loads the files, and takes the repetition for unchanged. Then no resource is shown as
    /// NACKed.
    rejects_again: bool,
    /// Whether Envoy shows the old content after it rejected the new one. It takes a new secret over before it reads
    /// its files.
    keeps_old: bool,
    /// The number that each resource in Envoy shows.
    shown: fn(&Value, &Value) -> BTreeMap<String, u64>,
}

const ASSIGNMENTS: TypedResources = TypedResources {
    user: |name| crate::config::cluster(name),
    good: |name, number| assignment(name, "127.0.0.1", number),
    // Envoy resolves no host names in EDS; the API has no rule for that.
    bad: |name| assignment(name, "no-address", 1),
    rejects_again: true,
    keeps_old: true,
    shown: |_, clusters| {
        let clusters = items(&clusters["cluster_statuses"]);
        let port = |cluster: &Value| {
            let address = &cluster["host_statuses"][0]["address"]["socket_address"];
            Some((text(&cluster["name"]), address["port_value"].as_u64()?))
        };
        clusters.filter_map(port).collect()
    },
};

const ROUTES: TypedResources = TypedResources {
    user: listener,
    good: |name, number| {
        routes(
            name,
            &format!("direct_response: {{ status: {number} }}"),
            "",
        )
    },
    bad: |name| {
        routes(
            name,
            "route: { cluster: nowhere }",
            "validate_clusters: true",
        )
    },
    rejects_again: true,
    keeps_old: true,
    shown: |dump, _| {
        let configs = items(&dump["configs"]).flat_map(|one| items(&one["dynamic_route_configs"]));
        let status = |config: &Value| {
            let config = &config["route_config"];
            let route = &config["virtual_hosts"][0]["routes"][0];
            let status = route["direct_response"]["status"].as_u64()?;
            Some((text(&config["name"]), status))
        };
        configs.filter_map(status).collect()
    },
};

const SECRETS: TypedResources = TypedResources {
    user: tls_cluster,
    good: |name, number| {
        // The hash stands for the number.
        secret(
            name,
            &format!("verify_certificate_hash: [\"{number:064}\"]"),
        )
    },
    bad: |name| secret(name, "trusted_ca: { filename: /does/not/exist }"),
    rejects_again: false,
    keeps_old: false,
    shown: |dump, _| {
        let configs = items(&dump["configs"]).flat_map(|one| items(&one["dynamic_active_secrets"]));
        let number = |config: &Value| {
            let context = &config["secret"]["validation_context"];
            let hash = text(&context["verify_certificate_hash"][0]);
            Some((text(&config["name"]), hash.parse().ok()?))
        };
        configs.filter_map(number).collect()
    },
};

/// Given three resources that Envoy has, when one edit changes all of them, and Envoy rejects the second, then the
/// first and the third are changed in Envoy, the second is not, and the status shows it alone as NACKed. A fixed file
/// is served.
async fn one_of_three(cx: Context, protocol: Protocol, sort: &TypedResources) -> Fallible {
    let folder = Folder::create(&cx.dir)?;
    let users: Vec<String> = NAMES.iter().map(|name| (sort.user)(name)).collect();
    folder.write("users.yaml", &users)?;
    let good = |number: u16| NAMES.map(|name| (sort.good)(name, number));
    folder.write("three.yaml", &good(401))?;
    let proxy = Proxy::start(&cx, protocol, folder).await?;
    proxy.shows(sort, [Some(401); 3]).await?;

    let mut edited = good(402);
    edited[1] = (sort.bad)(NAMES[1]);
    proxy.folder.write("three.yaml", &edited)?;
    let second = sort.keeps_old.then_some(401);
    proxy.shows(sort, [Some(402), second, Some(402)]).await?;
    if sort.rejects_again {
        proxy.oxds.reports_only_rejection(NAMES[1], SOON).await?;
    } else {
        proxy.oxds.reports_no_rejection(SOON).await?;
    }

    proxy.folder.write("three.yaml", &good(403))?;
    proxy.shows(sort, [Some(403); 3]).await?;
    proxy.oxds.reports_no_rejection(SOON).await
}

/// Given ten new clusters, one of which Envoy rejects and whose name does not fit into the message of the NACK: then
/// Envoy has the other nine, and the status shows that one alone as NACKed.
async fn one_of_ten_clusters(cx: Context, protocol: Protocol) -> Fallible {
    let folder = Folder::create(&cx.dir)?;
    folder.write("first.yaml", &[static_cluster("first", "ROUND_ROBIN")])?;
    let proxy = Proxy::start(&cx, protocol, folder).await?;
    proxy.has_clusters(&["first".to_owned()]).await?;

    let bad = format!("e-{}", "x".repeat(4_200));
    let good = ["a", "b", "c", "d", "f", "g", "h", "i", "j"];
    let mut clusters: Vec<String> = good
        .iter()
        .map(|name| static_cluster(name, "ROUND_ROBIN"))
        .collect();
    clusters.push(static_cluster(&bad, "CLUSTER_PROVIDED"));
    proxy.folder.write("ten.yaml", &clusters)?;
    let mut expected: Vec<String> = good.iter().map(ToString::to_string).collect();
    expected.push("first".to_owned());
    expected.sort();
    proxy.has_clusters(&expected).await?;
    proxy.oxds.reports_only_rejection(&bad, SOON).await
}

/// An Envoy that `oxds serve` configures from a folder.
struct Proxy {
    folder: Folder,
    oxds: Oxds,
    envoy: Envoy,
}

impl Proxy {
    async fn start(cx: &Context, protocol: Protocol, folder: Folder) -> Fallible<Self> {
        let oxds = Oxds::serve(cx, &folder).await?;
        let file = bootstrap(cx, Bootstrap::Envoy(protocol), oxds.grpc).await?;
        let envoy = Envoy::start(cx, &file).await?;
        Ok(Self {
            folder,
            oxds,
            envoy,
        })
    }

    /// Waits until the three resources in Envoy show these numbers, or none.
    async fn shows(&self, sort: &TypedResources, numbers: [Option<u64>; 3]) -> Fallible {
        let numbers = NAMES.map(str::to_owned).into_iter().zip(numbers);
        let wanted: BTreeMap<String, u64> = numbers
            .filter_map(|(name, number)| Some((name, number?)))
            .collect();
        until(&format!("Envoy shows {wanted:?}"), SOON, async || {
            let dump = self.envoy.config_dump().await?;
            let clusters = self.envoy.cluster_statuses().await?;
            let mut shown = (sort.shown)(&dump, &clusters);
            shown.retain(|name, _| NAMES.contains(&name.as_str()));
            if shown == wanted {
                Ok(Some(()))
            } else {
                Err(format!("{shown:?}").into())
            }
        })
        .await
    }

    /// Waits until Envoy has exactly these clusters from CDS.
    async fn has_clusters(&self, wanted: &[String]) -> Fallible {
        until(
            &format!("Envoy has clusters {wanted:?}"),
            SOON,
            async || {
                let mut clusters = self.envoy.clusters().await?;
                clusters.sort();
                if clusters == wanted {
                    Ok(Some(()))
                } else {
                    Err(format!("{clusters:?}").into())
                }
            },
        )
        .await
    }
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn assignment(cluster: &str, address: &str, port: u16) -> String {
    format!(
        r#""@type": type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment
cluster_name: {cluster}
endpoints:
- lb_endpoints:
  - endpoint: {{ address: {{ socket_address: {{ address: {address}, port_value: {port} }} }} }}
"#
    )
}

fn listener(name: &str) -> String {
    format!(
        r#""@type": type.googleapis.com/envoy.config.listener.v3.Listener
name: listener-{name}
address:
  socket_address: {{ address: 127.0.0.1, port_value: 0 }}
filter_chains:
- filters:
  - name: envoy.filters.network.http_connection_manager
    typed_config:
      "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
      stat_prefix: ingress
      rds:
        route_config_name: {name}
        config_source: {{ ads: {{}}, resource_api_version: V3 }}
      http_filters:
      - name: envoy.filters.http.router
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
"#
    )
}

fn routes(name: &str, action: &str, field: &str) -> String {
    format!(
        r#""@type": type.googleapis.com/envoy.config.route.v3.RouteConfiguration
name: {name}
virtual_hosts:
- name: all
  domains: ["*"]
  routes:
  - match: {{ prefix: "" }}
    {action}
{field}
"#
    )
}

fn static_cluster(name: &str, policy: &str) -> String {
    format!(
        r#""@type": type.googleapis.com/envoy.config.cluster.v3.Cluster
name: {name}
type: STATIC
lb_policy: {policy}
connect_timeout: 1s
"#
    )
}

fn tls_cluster(secret: &str) -> String {
    let cluster = static_cluster(&format!("cluster-{secret}"), "ROUND_ROBIN");
    format!(
        r#"{cluster}transport_socket:
  name: envoy.transport_sockets.tls
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext
    common_tls_context:
      validation_context_sds_secret_config:
        name: {secret}
        sds_config: {{ ads: {{}}, resource_api_version: V3 }}
"#
    )
}

fn secret(name: &str, field: &str) -> String {
    format!(
        r#""@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret
name: {name}
validation_context: {{ {field} }}
"#
    )
}
