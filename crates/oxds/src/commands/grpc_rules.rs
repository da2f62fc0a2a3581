//! Rules of gRPC clients and servers for the check of a folder: those by which this project's own ones read resources.

use oxds_core::resource::{Extensions, ResourceParsers, TlsRules};
use oxds_types::codec::{BrokenRule, GrpcRules};

/// Returns the extensions of this project's own clients, with the experimental features of TLS.
pub(super) fn extensions() -> Extensions {
    let tls = TlsRules {
        system_roots: true,
        sni: true,
        ..TlsRules::default()
    };
    Extensions::default().with_tls_rules(tls)
}

/// Returns the rules, with the experimental features of TLS.
pub(super) fn grpc_rules() -> GrpcRules {
    let parsers = ResourceParsers::grpc_with(&extensions());
    GrpcRules::new(
        move |resource_type, value| match parsers.parse(resource_type, value) {
            Err(invalid) if !may_be_of_program(&invalid.path, &invalid.rule) => Err(BrokenRule {
                path: invalid.path,
                rule: invalid.rule,
            }),
            _ => Ok(()),
        },
    )
}

/// Whether the rule is about an extension that the clients may have themselves: a filter, an audit logger or a policy
/// whose type Envoy does not define.
fn may_be_of_program(path: &str, rule: &str) -> bool {
    let quoted = rule.strip_suffix("\" is not supported");
    let of_type = quoted.and_then(|rest| rest.rsplit('"').next());
    let is_own = |name: &str| !name.is_empty() && !name.starts_with("envoy.");
    path.starts_with("load_balancing_policy") || of_type.is_some_and(is_own)
}
