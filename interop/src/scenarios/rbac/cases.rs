//! The rules, and the calls that they allow or deny.
//!
//! `$S` in a rule stands for `/rbac.NAME`, the service of the calls; `$PORT` for the port of the server.

/// Rules of the two filters of one route, and calls to it.
#[derive(Debug)]
pub(super) struct Case {
    /// Name of the case, and of the service of its calls: `rbac.NAME`.
    pub(super) name: &'static str,
    /// Rules of the filters `first` and `second`, as flow mappings (`envoy.config.rbac.v3.RBAC`); empty for a filter
    /// without rules.
    pub(super) filters: [&'static str; 2],
    pub(super) calls: &'static [Call],
}

/// Call of the method `/rbac.NAME/METHOD`.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) method: &'static str,
    pub(super) headers: &'static [(&'static str, &'static str)],
    /// Last number of the source address, 127.0.0.N.
    pub(super) source: u8,
    pub(super) allowed: bool,
}

const fn call(method: &'static str, allowed: bool) -> Call {
    Call {
        method,
        headers: &[],
        source: 1,
        allowed,
    }
}

const fn with(headers: &'static [(&'static str, &'static str)], allowed: bool) -> Call {
    Call {
        headers,
        ..call("Add", allowed)
    }
}

const fn from(source: u8, allowed: bool) -> Call {
    Call {
        source,
        ..call("Add", allowed)
    }
}

const fn one(name: &'static str, rules: &'static str, calls: &'static [Call]) -> Case {
    Case {
        name,
        filters: [rules, ""],
        calls,
    }
}

/// Cases that need no identity of the client.
pub(super) const PLAINTEXT: &[Case] = &[
    // Actions.
    one("allow_none", "action: ALLOW", &[call("Add", false)]),
    one("deny_none", "action: DENY", &[call("Add", true)]),
    one("no_rules", "", &[call("Add", true)]),
    one(
        "log",
        "action: LOG, policies: { p: { permissions: [{ any: true }], principals: [{ any: true }] } }",
        &[call("Add", true)],
    ),
    one(
        "allow_any",
        "policies: { p: { permissions: [{ any: true }], principals: [{ any: true }] } }",
        &[call("Add", true)],
    ),
    one(
        "deny_any",
        "action: DENY, policies: { p: { permissions: [{ any: true }], principals: [{ any: true }] } }",
        &[call("Add", false)],
    ),
    // Paths.
    one(
        "path_exact",
        "policies: { p: { permissions: [{ url_path: { path: { exact: $S/Add } } }], principals: [{ any: true }] } }",
        &[call("Add", true), call("Get", false), call("add", false)],
    ),
    one(
        "path_ignore_case",
        "policies: { p: { permissions: [{ url_path: { path: { suffix: /ADD, ignore_case: true } } }], principals: [{ any: true }] } }",
        &[call("Add", true), call("add", true), call("Get", false)],
    ),
    one(
        "path_prefix",
        "action: DENY, policies: { p: { permissions: [{ any: true }], principals: [{ url_path: { path: { prefix: $S/A } } }] } }",
        &[call("Add", false), call("Get", true)],
    ),
    one(
        "path_contains",
        "policies: { p: { permissions: [{ url_path: { path: { contains: tains/G } } }], principals: [{ any: true }] } }",
        &[call("Get", true), call("Add", false)],
    ),
    one(
        "path_regex",
        "policies: { p: { permissions: [{ url_path: { path: { safe_regex: { regex: '$S/(Get|Set)' } } } }], principals: [{ any: true }] } }",
        &[call("Get", true), call("Set", true), call("GetAll", false)],
    ),
    // Headers.
    one(
        "header_exact",
        "policies: { p: { permissions: [{ any: true }], principals: [{ header: { name: Tier, string_match: { exact: gold } } }] } }",
        &[
            with(&[("tier", "gold")], true),
            with(&[("tier", "golden")], false),
            with(&[], false),
            with(&[("tier", "gold"), ("tier", "gold")], false),
        ],
    ),
    one(
        "header_joined",
        "policies: { p: { permissions: [{ header: { name: tier, exact_match: 'a,b' } }], principals: [{ any: true }] } }",
        &[
            with(&[("tier", "a"), ("tier", "b")], true),
            with(&[("tier", "b"), ("tier", "a")], false),
            with(&[("tier", "a,b")], true),
        ],
    ),
    one(
        "header_regex",
        "policies: { p: { permissions: [{ header: { name: tier, safe_regex_match: { regex: 'g.l' } } }], principals: [{ any: true }] } }",
        &[
            with(&[("tier", "gol")], true),
            with(&[("tier", "gold")], false),
        ],
    ),
    one(
        "header_range",
        "policies: { p: { permissions: [{ header: { name: level, range_match: { start: '-1', end: '5' } } }], principals: [{ any: true }] } }",
        &[
            with(&[("level", "4")], true),
            with(&[("level", "-1")], true),
            with(&[("level", "5")], false),
            with(&[("level", "x")], false),
        ],
    ),
    one(
        "header_absent",
        "policies: { p: { permissions: [{ header: { name: debug, present_match: true, invert_match: true } }], principals: [{ any: true }] } }",
        &[with(&[], true), with(&[("debug", "1")], false)],
    ),
    one(
        "header_inverted",
        "policies: { p: { permissions: [{ header: { name: tier, prefix_match: go, invert_match: true } }], principals: [{ any: true }] } }",
        &[
            with(&[("tier", "silver")], true),
            with(&[("tier", "gold")], false),
            with(&[], false),
        ],
    ),
    one(
        "header_path",
        "policies: { p: { permissions: [{ header: { name: ':path', suffix_match: /Add } }], principals: [{ header: { name: ':method', exact_match: POST } }] } }",
        &[call("Add", true), call("Get", false)],
    ),
    one(
        "header_authority",
        "policies: { p: { permissions: [{ header: { name: ':authority', exact_match: shop.example } }], principals: [{ header: { name: host, exact_match: shop.example } }] } }",
        &[call("Add", true)],
    ),
    one(
        "header_method",
        "policies: { p: { permissions: [{ header: { name: ':method', exact_match: GET } }], principals: [{ any: true }] } }",
        &[call("Add", false)],
    ),
    one(
        "header_content_type",
        "policies: { p: { permissions: [{ header: { name: content-type, exact_match: application/grpc } }], principals: [{ any: true }] } }",
        &[call("Add", true)],
    ),
    // Addresses.
    one(
        "destination_ip",
        "policies: { p: { permissions: [{ destination_ip: { address_prefix: 127.9.9.9, prefix_len: 8 } }], principals: [{ any: true }] } }",
        &[call("Add", true)],
    ),
    one(
        "destination_ip_other",
        "policies: { p: { permissions: [{ destination_ip: { address_prefix: 127.0.0.0, prefix_len: 32 } }], principals: [{ any: true }] } }",
        &[call("Add", false)],
    ),
    one(
        "destination_port",
        "policies: { p: { permissions: [{ destination_port: $PORT }], principals: [{ any: true }] } }",
        &[call("Add", true)],
    ),
    one(
        "destination_port_other",
        "policies: { p: { permissions: [{ destination_port: 1 }], principals: [{ any: true }] } }",
        &[call("Add", false)],
    ),
    one(
        "source_ip",
        "policies: { p: { permissions: [{ any: true }], principals: [{ source_ip: { address_prefix: 127.0.0.2, prefix_len: 31 } }] } }",
        &[from(1, false), from(2, true), from(3, true), from(4, false)],
    ),
    one(
        "direct_remote_ip",
        "policies: { p: { permissions: [{ any: true }], principals: [{ direct_remote_ip: { address_prefix: 127.0.0.2, prefix_len: 32 } }] } }",
        &[from(1, false), from(2, true)],
    ),
    one(
        "remote_ip",
        "action: DENY, policies: { p: { permissions: [{ any: true }], principals: [{ remote_ip: { address_prefix: 127.0.0.2, prefix_len: 32 } }] } }",
        &[from(1, true), from(2, false)],
    ),
    one(
        "prefix_without_length",
        "policies: { p: { permissions: [{ any: true }], principals: [{ remote_ip: { address_prefix: 10.0.0.0 } }] } }",
        &[from(1, true)],
    ),
    one(
        "source_ip_v6",
        "policies: { p: { permissions: [{ any: true }], principals: [{ remote_ip: { address_prefix: '::', prefix_len: 0 } }] } }",
        &[from(1, false)],
    ),
    // Fixed values.
    one(
        "metadata",
        "policies: { p: { permissions: [{ metadata: { filter: f, path: [{ key: k }], value: { present_match: true } } }], principals: [{ any: true }] } }",
        &[call("Add", false)],
    ),
    one(
        "metadata_inverted",
        "policies: { p: { permissions: [{ any: true }], principals: [{ metadata: { filter: f, path: [{ key: k }], value: { present_match: true }, invert: true } }] } }",
        &[call("Add", true)],
    ),
    one(
        "server_name",
        "policies: { p: { permissions: [{ requested_server_name: { exact: '' } }], principals: [{ any: true }] } }",
        &[call("Add", true)],
    ),
    one(
        "server_name_other",
        "policies: { p: { permissions: [{ requested_server_name: { exact: shop.example } }], principals: [{ any: true }] } }",
        &[call("Add", false)],
    ),
    one(
        "unauthenticated",
        "policies: { p: { permissions: [{ any: true }], principals: [{ authenticated: {} }, { authenticated: { principal_name: { exact: '' } } }] } }",
        &[call("Add", false)],
    ),
    // And, or, not.
    one(
        "not_path",
        "policies: { p: { permissions: [{ not_rule: { url_path: { path: { prefix: $S/Secret } } } }], principals: [{ any: true }] } }",
        &[call("Add", true), call("SecretAdd", false)],
    ),
    one(
        "and_of_permissions",
        "policies: { p: { permissions: [{ and_rules: { rules: [{ url_path: { path: { suffix: /Add } } }, { header: { name: tier, present_match: true } }] } }], principals: [{ any: true }] } }",
        &[
            with(&[("tier", "x")], true),
            with(&[], false),
            Call {
                headers: &[("tier", "x")],
                ..call("Get", false)
            },
        ],
    ),
    one(
        "or_of_principals",
        "policies: { p: { permissions: [{ any: true }], principals: [{ or_ids: { ids: [{ header: { name: admin, present_match: true } }, { source_ip: { address_prefix: 127.0.0.2, prefix_len: 32 } }] } }] } }",
        &[with(&[("admin", "x")], true), from(2, true), from(1, false)],
    ),
    one(
        "nested",
        "policies: { p: { permissions: [{ any: true }], principals: [{ not_id: { and_ids: { ids: [{ header: { name: a, present_match: true } }, { not_id: { or_ids: { ids: [{ header: { name: b, present_match: true } }, { metadata: { filter: f, path: [{ key: k }], value: { present_match: true } } }] } } }] } } }] } }",
        &[
            with(&[], true),
            with(&[("a", "x")], false),
            with(&[("b", "x")], true),
            with(&[("a", "x"), ("b", "x")], true),
        ],
    ),
    one(
        "permission_and_principal",
        "policies: { p: { permissions: [{ url_path: { path: { suffix: /Add } } }, { url_path: { path: { suffix: /Get } } }], principals: [{ source_ip: { address_prefix: 127.0.0.2, prefix_len: 32 } }] }, q: { permissions: [{ url_path: { path: { suffix: /Set } } }], principals: [{ any: true }] } }",
        &[
            from(2, true),
            from(1, false),
            call("Set", true),
            Call {
                source: 2,
                ..call("Get", true)
            },
            Call {
                source: 2,
                ..call("Put", false)
            },
        ],
    ),
    // Chains.
    Case {
        name: "deny_before_allow",
        filters: [
            "action: DENY, policies: { p: { permissions: [{ url_path: { path: { suffix: /Drop } } }], principals: [{ any: true }] } }",
            "policies: { p: { permissions: [{ any: true }], principals: [{ header: { name: tier, exact_match: gold } }] } }",
        ],
        calls: &[
            with(&[("tier", "gold")], true),
            with(&[], false),
            Call {
                headers: &[("tier", "gold")],
                ..call("Drop", false)
            },
            call("Drop", false),
        ],
    },
    Case {
        name: "allow_before_deny",
        filters: [
            "policies: { p: { permissions: [{ any: true }], principals: [{ header: { name: tier, exact_match: gold } }] } }",
            "action: DENY, policies: { p: { permissions: [{ url_path: { path: { suffix: /Drop } } }], principals: [{ any: true }] } }",
        ],
        calls: &[
            with(&[("tier", "gold")], true),
            with(&[], false),
            Call {
                headers: &[("tier", "gold")],
                ..call("Drop", false)
            },
        ],
    },
];

/// Client that connects over TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Client {
    /// Client whose certificate has a URI and a DNS name.
    Uri,
    /// Client whose certificate has DNS names only.
    Dns,
    /// Client whose certificate has a subject only.
    Subject,
    /// Client without a certificate.
    Anonymous,
}

impl Client {
    pub(super) const ALL: [Self; 4] = [Self::Uri, Self::Dns, Self::Subject, Self::Anonymous];

    /// Subject alternative names of its certificate; `None` without one.
    pub(super) fn names(self) -> Option<&'static [&'static str]> {
        match self {
            Self::Uri => Some(&["spiffe://shop/ns/a/sa/cart", "uri.cart.shop"]),
            Self::Dns => Some(&["cart.shop", "basket.shop"]),
            Self::Subject => Some(&[]),
            Self::Anonymous => None,
        }
    }
}

/// Rules about the identity of the client.
#[derive(Debug)]
pub(super) struct IdentityCase {
    /// Name of the case, and of the service of its calls: `rbac.NAME`.
    pub(super) name: &'static str,
    /// The principal, as a flow mapping.
    pub(super) principal: &'static str,
    /// Clients that match.
    pub(super) matches: &'static [Client],
}

const fn principal(
    name: &'static str,
    principal: &'static str,
    matches: &'static [Client],
) -> IdentityCase {
    IdentityCase {
        name,
        principal,
        matches,
    }
}

/// Cases about the identity of the client.
pub(super) const IDENTITIES: &[IdentityCase] = &[
    principal("tls", "{ authenticated: {} }", &Client::ALL),
    principal(
        "uri",
        "{ authenticated: { principal_name: { exact: spiffe://shop/ns/a/sa/cart } } }",
        &[Client::Uri],
    ),
    principal(
        "uri_prefix",
        "{ authenticated: { principal_name: { prefix: spiffe://shop/ns/a/ } } }",
        &[Client::Uri],
    ),
    principal(
        "uri_other",
        "{ authenticated: { principal_name: { prefix: spiffe://store/ } } }",
        &[],
    ),
    principal(
        "uri_before_dns",
        "{ authenticated: { principal_name: { suffix: cart.shop } } }",
        &[Client::Dns],
    ),
    principal(
        "second_dns_name",
        "{ authenticated: { principal_name: { exact: basket.shop } } }",
        &[Client::Dns],
    ),
    principal(
        "subject",
        "{ authenticated: { principal_name: { safe_regex: { regex: 'CN=.* cert' } } } }",
        &[Client::Subject],
    ),
    principal(
        "no_certificate",
        "{ authenticated: { principal_name: { exact: '' } } }",
        &[Client::Anonymous],
    ),
    principal(
        "not_uri",
        "{ not_id: { authenticated: { principal_name: { prefix: 'spiffe://' } } } }",
        &[Client::Dns, Client::Subject, Client::Anonymous],
    ),
    principal(
        "any_name",
        "{ authenticated: { principal_name: { safe_regex: { regex: '.+' } } } }",
        &[Client::Uri, Client::Dns, Client::Subject],
    ),
];
