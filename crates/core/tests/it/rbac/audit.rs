//! Audit logging (gRFC A59).

use std::sync::{Arc, Mutex};

use oxds_core::rbac::{AuditEvent, AuditLogger};
use oxds_core::resource::{
    AuditTarget, Extensions, FilterConfig, FilterOverride, Invalid, RbacConfig,
};

use super::{ANY_PERMISSION, ANY_PRINCIPAL, Case, identity, policy, read};

const STDOUT: &str =
    "[type.googleapis.com/envoy.extensions.rbac.audit_loggers.stream.v3.StdoutAuditLog] {}";

/// Texts of the events that loggers have got.
type Log = Arc<Mutex<Vec<String>>>;

struct Memory {
    prefix: String,
    log: Log,
}

impl AuditLogger for Memory {
    fn log(&self, event: &AuditEvent<'_>) {
        let text = format!("{} {event:?}", self.prefix);
        self.log.lock().unwrap().push(text);
    }
}

/// Extensions with the logger `my.Logger`, whose configuration must have a text `prefix`.
fn extensions(log: &Log) -> Extensions {
    let log = Arc::clone(log);
    Extensions::default().with_audit_logger("my.Logger", move |config| {
        let prefix = config.text("prefix");
        let prefix = prefix.ok_or_else(|| Invalid::new("must be set").at("prefix"))?;
        Ok(Memory {
            prefix: prefix.to_owned(),
            log: Arc::clone(&log),
        })
    })
}

fn custom(name: &str, fields: &str) -> String {
    format!(
        "[type.googleapis.com/xds.type.v3.TypedStruct] {{ type_url: 'x/{name}' value {{ {fields} }} }}"
    )
}

fn logger(typed_config: &str, optional: bool) -> String {
    format!(
        "logger_configs {{ audit_logger {{ name: 'l' typed_config {{ {typed_config} }} }} is_optional: {optional} }}"
    )
}

fn mine(prefix: &str) -> String {
    let value = format!("fields {{ key: 'prefix' value {{ string_value: '{prefix}' }} }}");
    logger(&custom("my.Logger", &value), false)
}

fn audited(extensions: &Extensions, rules: &str) -> Result<Arc<RbacConfig>, String> {
    match read(extensions, &format!("rbac {{ rules {{ {rules} }} }}")) {
        Ok(FilterOverride::Config(FilterConfig::Rbac(config))) => Ok(config),
        Ok(other) => panic!("{other:?}"),
        Err(error) => Err(error.to_string()),
    }
}

/// Decides about a call and logs, as a driver does. Returns whether the call is allowed.
fn run(config: &RbacConfig, case: &Case) -> bool {
    let call = case.call();
    let verdict = config.evaluate(&call);
    for target in config.loggers(&verdict) {
        let event = AuditEvent::new("authz", &call, &verdict);
        match target {
            AuditTarget::Custom(custom) => custom.logger().log(&event),
            AuditTarget::Stdout => panic!("no such logger here"),
        }
    }
    verdict.is_allowed
}

#[test]
fn c238_condition_chooses_the_audited_verdicts() {
    let secret = "permissions { url_path { path { exact: '/secret' } } }";
    for (condition, allowed, denied) in [
        ("NONE", 0, 0),
        ("ON_DENY", 0, 1),
        ("ON_ALLOW", 1, 0),
        ("ON_DENY_AND_ALLOW", 1, 1),
    ] {
        for (action, path) in [("DENY", "/secret"), ("ALLOW", "/other")] {
            let log = Log::default();
            let rules = format!(
                "action: {action} {} audit_logging_options {{ audit_condition: {condition} {} }}",
                policy("secret", secret, ANY_PRINCIPAL),
                mine("a"),
            );
            let config = audited(&extensions(&log), &rules).unwrap();
            let other = if path == "/secret" {
                "/other"
            } else {
                "/secret"
            };
            let count = || log.lock().unwrap().len();
            assert!(!run(
                &config,
                &Case {
                    path,
                    ..Case::default()
                }
            ));
            assert_eq!(count(), denied, "{condition} {action}");
            assert!(run(
                &config,
                &Case {
                    path: other,
                    ..Case::default()
                }
            ));
            assert_eq!(count(), denied + allowed, "{condition} {action}");
        }
    }
}

#[test]
fn c238_all_loggers_get_the_event_of_the_call() {
    let log = Log::default();
    let rules = format!(
        "{} audit_logging_options {{ audit_condition: ON_DENY_AND_ALLOW {} {} }}",
        policy("admin", ANY_PERMISSION, "principals { authenticated {} }"),
        mine("first"),
        mine("second"),
    );
    let config = audited(&extensions(&log), &rules).unwrap();
    let principal = "spiffe://shop/cart";
    assert!(run(&config, &Case::of(identity(&[principal], &[], "CN=x"))));
    let event = AuditEvent {
        rpc_method: "/shop.Cart/Add",
        principal,
        policy_name: "authz",
        matched_rule: "admin",
        authorized: true,
    };
    let texts = ["first", "second"].map(|prefix| format!("{prefix} {event:?}"));
    assert_eq!(*log.lock().unwrap(), texts);
    // A denied call without an identity and without a policy.
    log.lock().unwrap().clear();
    assert!(!run(&config, &Case::default()));
    let event = AuditEvent {
        principal: "",
        matched_rule: "",
        authorized: false,
        ..event
    };
    assert_eq!(log.lock().unwrap()[0], format!("first {event:?}"));
}

#[test]
fn c238_principal_of_an_event_is_a_spiffe_identity() {
    for (uris, expected) in [
        (&["spiffe://a/b"][..], "spiffe://a/b"),
        (&["https://a/b"], ""),
        // SPIFFE allows one URI only.
        (&["spiffe://a/b", "spiffe://a/c"], ""),
        (&[], ""),
    ] {
        let case = Case::of(identity(uris, &["a.b"], "CN=a"));
        assert_eq!(case.call().principal(), expected, "{uris:?}");
    }
}

#[test]
fn c238_stdout_logger_has_two_names() {
    for config in [STDOUT.to_owned(), custom("stdout_logger", "")] {
        let rules = format!(
            "audit_logging_options {{ audit_condition: ON_DENY {} }}",
            logger(&config, false)
        );
        let config = audited(&Extensions::default(), &rules).unwrap();
        let case = Case::default();
        let call = case.call();
        let verdict = config.evaluate(&call);
        assert_eq!(config.loggers(&verdict), [AuditTarget::Stdout]);
    }
}

#[test]
fn c238_unknown_audit_logger_must_be_optional() {
    let unknown = custom("other.Logger", "");
    let rules =
        |options: &str| format!("audit_logging_options {{ audit_condition: ON_DENY {options} }}");
    let error = |options: &str| {
        let error = audited(&extensions(&Log::default()), &rules(options)).unwrap_err();
        error
            .split_once("audit_logging_options.")
            .unwrap()
            .1
            .to_owned()
    };
    let optional = rules(&logger(&unknown, true));
    let config = audited(&Extensions::default(), &optional).unwrap();
    let case = Case::default();
    let call = case.call();
    let verdict = config.evaluate(&call);
    assert_eq!(config.loggers(&verdict), []);
    assert_eq!(
        error(&logger(&unknown, false)),
        "logger_configs[0].audit_logger.typed_config: \"other.Logger\" is not supported"
    );
    // A known logger must have a valid configuration, even an optional one.
    assert_eq!(
        error(&logger(&custom("my.Logger", ""), true)),
        "logger_configs[0].audit_logger.typed_config.prefix: must be set"
    );
    for missing in ["", "audit_logger { name: 'l' }"] {
        assert_eq!(
            error(&format!("{} logger_configs {{ {missing} }}", mine("a"))),
            "logger_configs[1].audit_logger.typed_config: must be set"
        );
    }
    let unknown = audited(
        &Extensions::default(),
        "audit_logging_options { audit_condition: 9 }",
    );
    let error = unknown.unwrap_err();
    assert!(
        error.ends_with("audit_logging_options.audit_condition: is unknown"),
        "{error}"
    );
}

#[test]
fn c238_equal_loggers_have_equal_configurations() {
    let log = Log::default();
    let extensions = extensions(&log);
    let rules = |prefix: &str| {
        let rules = format!(
            "audit_logging_options {{ audit_condition: ON_DENY {} }}",
            mine(prefix)
        );
        audited(&extensions, &rules).unwrap()
    };
    assert_eq!(rules("a"), rules("a"));
    assert_ne!(rules("a"), rules("b"));
}
