//! Addresses of the static clusters of an Envoy bootstrap, which name control planes.

use std::collections::BTreeMap;

use serde_json::Value;

/// The address of each static cluster by its name, as `HOST:PORT`, or the reason why it has none.
pub(super) type Addresses = BTreeMap<String, Result<String, String>>;

/// Reads the addresses of `static_resources.clusters`. Clusters that nothing refers to may be of any form, so an
/// unusual one is an error only when its address is needed.
pub(super) fn addresses(static_resources: &Value) -> Addresses {
    let clusters = list(static_resources, "clusters").iter();
    let named = clusters.filter_map(|cluster| {
        let name = cluster.get("name")?.as_str()?;
        Some((name.to_owned(), address(cluster)))
    });
    named.collect()
}

fn address(cluster: &Value) -> Result<String, String> {
    if get(cluster, "transport_socket").is_some() {
        return Err("has a transport_socket: expected plaintext".to_owned());
    }
    let localities = get(cluster, "load_assignment").map_or(&[][..], |one| list(one, "endpoints"));
    let endpoints = localities
        .iter()
        .flat_map(|locality| list(locality, "lb_endpoints"));
    let endpoints: Vec<&Value> = endpoints.collect();
    let [endpoint] = &endpoints[..] else {
        let count = endpoints.len();
        return Err(format!(
            "has {count} endpoints in load_assignment: expected one"
        ));
    };
    let address = ["endpoint", "address", "socket_address"]
        .iter()
        .try_fold(*endpoint, |value, field| get(value, field));
    let read = |address: &Value| {
        let host = get(address, "address")?.as_str()?;
        let port = get(address, "port_value")?.as_u64()?;
        // gRPC, "Name resolution": an IPv6 address has brackets.
        let is_v6 = host.contains(':') && !host.starts_with('[');
        Some(if is_v6 {
            format!("[{host}]:{port}")
        } else {
            format!("{host}:{port}")
        })
    };
    let read = address.and_then(read);
    read.ok_or_else(|| {
        "has no address: expected endpoint.address.socket_address with address and port_value"
            .to_owned()
    })
}

/// Returns a field by its proto name or its JSON name.
fn get<'v>(value: &'v Value, name: &str) -> Option<&'v Value> {
    value.get(name).or_else(|| value.get(json_name(name)))
}

fn list<'v>(value: &'v Value, name: &str) -> &'v [Value] {
    let list = get(value, name).and_then(Value::as_array);
    list.map_or(&[], Vec::as_slice)
}

/// Returns the JSON name of a field: `load_assignment` is `loadAssignment`.
fn json_name(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| {
        let (head, tail) = word.split_at(word.len().min(1));
        name + &head.to_uppercase() + tail
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn endpoint(host: &str, port: u32) -> Value {
        json!({"endpoint": {"address": {"socket_address": {"address": host, "port_value": port}}}})
    }

    #[test]
    fn v47_static_cluster_has_an_address_or_a_reason() {
        let assigned = |endpoints: &[Value]| json!({"endpoints": [{"lb_endpoints": endpoints}]});
        let address = |cluster: Value| {
            let mut cluster = cluster;
            cluster["name"] = "x".into();
            addresses(&json!({"clusters": [cluster]}))
                .remove("x")
                .unwrap()
        };
        let one = assigned(&[endpoint("xds.example", 18000)]);
        assert_eq!(
            address(json!({"load_assignment": one})),
            Ok("xds.example:18000".to_owned())
        );
        let v6 = assigned(&[endpoint("::1", 1)]);
        assert_eq!(
            address(json!({"load_assignment": v6})),
            Ok("[::1]:1".to_owned())
        );
        let json_names = json!({"endpoints": [{"lbEndpoints": [
            {"endpoint": {"address": {"socketAddress": {"address": "a", "portValue": 2}}}},
        ]}]});
        assert_eq!(
            address(json!({"loadAssignment": json_names})),
            Ok("a:2".to_owned())
        );
        let two = assigned(&[endpoint("a", 1), endpoint("b", 1)]);
        let pipe = json!({"endpoint": {"address": {"pipe": {"path": "/x"}}}});
        for (cluster, reason) in [
            (
                json!({}),
                "has 0 endpoints in load_assignment: expected one",
            ),
            (
                json!({"load_assignment": two}),
                "has 2 endpoints in load_assignment: expected one",
            ),
            (
                json!({"load_assignment": one, "transport_socket": {"name": "tls"}}),
                "has a transport_socket: expected plaintext",
            ),
            (
                json!({"load_assignment": assigned(&[pipe])}),
                "has no address: expected endpoint.address.socket_address with address and port_value",
            ),
        ] {
            assert_eq!(address(cluster), Err(reason.to_owned()));
        }
        assert!(addresses(&Value::Null).is_empty());
    }
}
