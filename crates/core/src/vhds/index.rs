//! Virtual hosts by route configuration and domain.

use std::sync::Arc;

use imbl::{OrdMap, OrdSet};
use prost::Message;

use super::split;

/// Longest host that is compared with wildcard domains, in bytes. Host names have at most 253, and a port.
const MAX_HOST: usize = 512;

/// Route configuration, and domain in lower case.
type HostKey = (Arc<str>, Arc<str>);

/// Names of virtual hosts, by route configuration and domain. Persistent: a clone shares what does not change.
#[derive(Debug, Clone, Default)]
pub(crate) struct HostIndex(OrdMap<HostKey, OrdSet<Arc<str>>>);

/// The part of `envoy.config.route.v3.VirtualHost` that the index reads.
#[derive(Clone, PartialEq, Message)]
struct Domains {
    #[prost(string, repeated, tag = "2")]
    domains: Vec<String>,
}

impl HostIndex {
    /// Adds a virtual host, with its encoded content.
    pub(crate) fn insert(&mut self, name: &Arc<str>, content: &[u8]) {
        for key in keys(name, content) {
            let hosts = self.0.entry(key).or_default();
            hosts.insert(Arc::clone(name));
        }
    }

    /// Removes a virtual host, with the content that it was added with.
    pub(crate) fn remove(&mut self, name: &Arc<str>, content: &[u8]) {
        for key in keys(name, content) {
            let is_empty = self.0.get_mut(&key).is_some_and(|hosts| {
                hosts.remove(name);
                hosts.is_empty()
            });
            if is_empty {
                self.0.remove(&key);
            }
        }
    }

    /// Returns the virtual host of a route configuration that matches a host as Envoy matches it; of two with the same
    /// domain, the first by name.
    ///
    /// `route_components.proto`, `VirtualHost.domains`: exact domains first, then suffixes (`*.foo.com`), then prefixes
    /// (`foo.*`), the longest first, then `*`. A `*` does not match the empty string. A port is part of the host.
    pub(crate) fn find(&self, routes: &str, host: &str) -> Option<&Arc<str>> {
        let routes: Arc<str> = routes.into();
        let host = host.to_ascii_lowercase();
        let find = |domain: String| {
            let hosts = self.0.get(&(Arc::clone(&routes), domain.into()))?;
            hosts.iter().next()
        };
        if host.is_empty() {
            return None;
        }
        let parts = || {
            let ends = host.char_indices().map(|(at, _)| at).skip(1);
            ends.filter(|_| host.len() <= MAX_HOST)
        };
        find(host.clone())
            .or_else(|| parts().find_map(|at| find(format!("*{}", &host[at..]))))
            .or_else(|| {
                let mut longest_first: Vec<usize> = parts().collect();
                longest_first.reverse();
                let mut prefixes = longest_first.into_iter();
                prefixes.find_map(|at| find(format!("{}*", &host[..at])))
            })
            .or_else(|| find("*".to_owned()))
    }
}

/// Returns the keys of a virtual host. One whose name has no slash belongs to no route configuration.
fn keys(name: &str, content: &[u8]) -> Vec<(Arc<str>, Arc<str>)> {
    let Some((routes, _)) = split(name) else {
        return Vec::new();
    };
    let routes: Arc<str> = routes.into();
    // A relay serves what its server serves, decodable or not.
    let domains = Domains::decode(content).unwrap_or_default().domains;
    let domains = domains.into_iter();
    let key = |domain: String| (Arc::clone(&routes), domain.to_ascii_lowercase().into());
    domains.map(key).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str, domains: &[&str]) -> (Arc<str>, Vec<u8>) {
        let domains = Domains {
            domains: domains.iter().map(ToString::to_string).collect(),
        };
        (name.into(), domains.encode_to_vec())
    }

    fn index(hosts: &[(Arc<str>, Vec<u8>)]) -> HostIndex {
        let mut index = HostIndex::default();
        hosts
            .iter()
            .for_each(|(name, content)| index.insert(name, content));
        index
    }

    /// Given virtual hosts with domains of each form: a host finds the one that Envoy would choose.
    #[test]
    fn host_is_found_as_envoy_matches_domains() {
        let hosts = [
            host("r/exact", &["www.Shop.example", "shop.example:8080"]),
            host("r/suffix", &["*.shop.example", "*.example:8443"]),
            host("r/long", &["*-api.shop.example"]),
            host("r/prefix", &["www.*", "any.example:*"]),
            host("r/rest", &["*"]),
            host("other/rest", &["only.other"]),
        ];
        let index = index(&hosts);
        for (asked, expected) in [
            ("www.shop.example", Some("r/exact")),
            ("WWW.SHOP.EXAMPLE", Some("r/exact")),
            ("shop.example:8080", Some("r/exact")),
            ("a.shop.example", Some("r/suffix")),
            ("a-api.shop.example", Some("r/long")),
            ("-api.shop.example", Some("r/suffix")),
            ("x.example:8443", Some("r/suffix")),
            ("www.shop.example:80", Some("r/prefix")),
            ("any.example:1", Some("r/prefix")),
            (".shop.example", Some("r/rest")),
            ("www.", Some("r/rest")),
            ("shop.example", Some("r/rest")),
            ("ü", Some("r/rest")),
            ("", None),
        ] {
            let found = index.find("r", asked).map(|name| &**name);
            assert_eq!(found, expected, "{asked}");
        }
        assert_eq!(index.find("other", "www.shop.example"), None);
        assert_eq!(index.find("r/x", "www.shop.example"), None);
        let long = "x".repeat(MAX_HOST + 1) + ".shop.example";
        assert_eq!(index.find("r", &long).map(|name| &**name), Some("r/rest"));
    }

    /// Given two virtual hosts with one domain: the first by name is found, and the other one once that is gone.
    #[test]
    fn removed_virtual_host_is_not_found() {
        let (a, b) = (host("r/a", &["x"]), host("r/b", &["x"]));
        let mut index = index(&[b.clone(), a.clone()]);
        assert_eq!(index.find("r", "x"), Some(&a.0));
        index.remove(&a.0, &a.1);
        assert_eq!(index.find("r", "x"), Some(&b.0));
        index.remove(&b.0, &b.1);
        assert_eq!(index.find("r", "x"), None);
        assert!(index.0.is_empty());
    }
}
